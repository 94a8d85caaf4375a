// SPDX-License-Identifier: Apache-2.0
#include "sim/schedule/pattern_order.hpp"

#include <algorithm>

namespace plansim {

std::int64_t& PatternOrder::counter(PassKind kind, int chunk) {
    const std::size_t column = kind == PassKind::forward ? 0 : kind == PassKind::backward_weight ? 2 : 1;
    const std::size_t index = static_cast<std::size_t>(chunk) * kCounters + column;
    if (index >= counters_.size()) counters_.resize((static_cast<std::size_t>(chunk) + 1) * kCounters, 0);
    return counters_[index];
}

PatternOrder& PatternOrder::repeat(std::int64_t times, Pattern pattern) {
    while (true) {
        std::erase_if(pattern, [&](const PatternPass& pass) { return next_of(pass) >= microbatches_; });
        std::int64_t turns = times;  // until one of the passes has run out of microbatches
        Segment segment{length_, pattern, {}};
        for (const PatternPass& pass : pattern) {
            segment.first.push_back(next_of(pass));
            turns = std::min(turns, microbatches_ - segment.first.back());
        }
        if (pattern.empty() || turns <= 0) return *this;
        for (const PatternPass& pass : pattern) {
            counter(pass.kind, pass.chunk) += turns;
            if (pass.kind == PassKind::backward) counter(PassKind::backward_weight, pass.chunk) += turns;
        }
        length_ += turns * static_cast<std::int64_t>(pattern.size());
        times -= turns;
        segments_.push_back(std::move(segment));
    }
}

PassStep PatternOrder::at(std::int64_t index) const {
    const auto after = std::upper_bound(segments_.begin(), segments_.end(), index,
                                        [](std::int64_t value, const Segment& other) { return value < other.start; });
    const Segment& segment = *(after - 1);
    const std::int64_t offset = index - segment.start;
    const auto size = static_cast<std::int64_t>(segment.pattern.size());
    const auto place = static_cast<std::size_t>(offset % size);
    const PatternPass& pass = segment.pattern[place];
    return {pass.kind, pass.chunk, segment.first[place] + offset / size, pass.joined};
}

}  // namespace plansim
