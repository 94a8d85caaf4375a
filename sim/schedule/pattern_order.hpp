// SPDX-License-Identifier: Apache-2.0
// An order of passes as a list of repeated patterns, such as 1F1B: stages - stage - 1 times F, then F B until all is
// done. The n-th pass of a kind and chunk is that of microbatch n.
#pragma once

#include <limits>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace plansim {

struct PatternPass {
    PassKind kind = PassKind::forward;
    int chunk = 0;
    bool joined = false;  // see PassStep
};
using Pattern = std::vector<PatternPass>;

class PatternOrder : public PassOrder {
  public:
    explicit PatternOrder(std::int64_t microbatches) : microbatches_(microbatches) {}

    /// Appends repetitions of a pattern. Passes beyond the last microbatch are left out, so that a schedule for many
    /// microbatches also describes one for few.
    PatternOrder& repeat(std::int64_t times, Pattern pattern);
    /// Repeats a pattern until each of its passes has been executed for every microbatch.
    PatternOrder& finish(Pattern pattern) { return repeat(microbatches_, std::move(pattern)); }

    [[nodiscard]] std::int64_t length() const override { return length_; }
    [[nodiscard]] PassStep at(std::int64_t index) const override;

  private:
    struct Segment {
        std::int64_t start = 0;  // index of its first pass
        Pattern pattern;
        std::vector<std::int64_t> first;  // microbatch of each pass in the first repetition
    };
    static constexpr std::size_t kCounters = 3;  // forward, backward (of the input), backward of the weights
    [[nodiscard]] std::int64_t& counter(PassKind kind, int chunk);
    [[nodiscard]] std::int64_t next_of(const PatternPass& pass) { return counter(pass.kind, pass.chunk); }

    std::int64_t microbatches_;
    std::int64_t length_ = 0;
    std::vector<Segment> segments_;
    std::vector<std::int64_t> counters_;  // by chunk and kind: microbatches appended so far
};

}  // namespace plansim
