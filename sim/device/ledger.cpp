// SPDX-License-Identifier: Apache-2.0
#include "sim/device/ledger.hpp"

#include <algorithm>
#include <string>

#include "sim/base/error.hpp"

namespace plansim {

void MemoryLedger::change(Seconds now, MemoryTag tag, Bytes amount) {
    const auto index = static_cast<std::size_t>(tag);
    live_[index] += amount;
    total_ += amount;
    PLANSIM_CHECK(live_[index] >= Bytes(0), "more memory freed than allocated: " + std::string(name_of(tag)));
    peak_by_tag_[index] = std::max(peak_by_tag_[index], live_[index]);
    if (total_ > peak_) {
        peak_ = total_;
        at_peak_ = live_;
    }
    if (!keep_series_) return;
    if (!series_.empty() && series_.back().time == now)
        series_.back().live = live_;  // several changes at one instant are one step of the series
    else
        series_.push_back({now, live_});
}

}  // namespace plansim
