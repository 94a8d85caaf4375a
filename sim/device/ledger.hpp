// SPDX-License-Identifier: Apache-2.0
// The memory of one device over time: allocations by tag, the peak, and what was live at the peak.
#pragma once

#include <vector>

#include "sim/spec/memory_tag.hpp"

namespace plansim {

class MemoryLedger {
  public:
    struct Sample {
        Seconds time;
        MemoryByTag live;
    };

    /// `keep_series`: remember every change for the time series (O(changes) memory), else only the peak.
    explicit MemoryLedger(bool keep_series = false) : keep_series_(keep_series) {}

    void allocate(Seconds now, MemoryTag tag, Bytes amount) { change(now, tag, amount); }
    /// Freeing more than is live is a bug of the caller (PLANSIM_CHECK).
    void free(Seconds now, MemoryTag tag, Bytes amount) { change(now, tag, Bytes(0) - amount); }

    [[nodiscard]] Bytes live() const { return total_; }
    [[nodiscard]] Bytes live(MemoryTag tag) const { return live_[static_cast<std::size_t>(tag)]; }
    [[nodiscard]] Bytes peak() const { return peak_; }
    /// What was live when the total was at its peak (the first time).
    [[nodiscard]] const MemoryByTag& at_peak() const { return at_peak_; }
    /// The largest amount of each tag at any time; the maxima need not coincide.
    [[nodiscard]] const MemoryByTag& peak_by_tag() const { return peak_by_tag_; }
    [[nodiscard]] const std::vector<Sample>& series() const { return series_; }

  private:
    void change(Seconds now, MemoryTag tag, Bytes amount);

    bool keep_series_;
    MemoryByTag live_{};
    MemoryByTag at_peak_{};
    MemoryByTag peak_by_tag_{};
    Bytes total_;
    Bytes peak_;
    std::vector<Sample> series_;
};

}  // namespace plansim
