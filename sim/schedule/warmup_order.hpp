// SPDX-License-Identifier: Apache-2.0
// What 1F1B and the interleaved schedule have in common: a number of forward passes to warm up, then one forward and
// one backward pass in turn, then the backward passes that are left. They differ in the length of the warm-up and in
// which chunk and microbatch the n-th pass of a direction is.
#pragma once

#include <algorithm>

#include "sim/schedule/schedule.hpp"

namespace plansim {

class WarmupOrder : public PassOrder {
  public:
    WarmupOrder(std::int64_t passes, std::int64_t warmup) : passes_(passes), warmup_(std::min(passes, warmup)) {}
    [[nodiscard]] std::int64_t length() const override { return 2 * passes_; }
    [[nodiscard]] PassStep at(std::int64_t index) const override {
        const std::int64_t steady = 2 * (passes_ - warmup_);
        if (index < warmup_) return nth(index, false);
        const std::int64_t past = index - warmup_;
        if (past >= steady) return nth(passes_ - warmup_ + (past - steady), true);
        return past % 2 == 0 ? nth(warmup_ + past / 2, false) : nth(past / 2, true);
    }

  protected:
    /// The n-th pass of a direction.
    [[nodiscard]] virtual PassStep nth(std::int64_t n, bool backward) const = 0;

  private:
    std::int64_t passes_;
    std::int64_t warmup_;
};

}  // namespace plansim
