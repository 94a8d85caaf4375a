// SPDX-License-Identifier: Apache-2.0
// NEST's own space: one pipeline cut into stages of one group each, copied dp times. Its formula, and its exact optimum
// by dynamic programming.
#pragma once

#include <limits>

#include "planner/nest/costs.hpp"

namespace plansim::nest {

/// Stages hold nodes cuts[i]..cuts[i+1]-1, front to back; cuts ends with the number of nodes.
struct ChainPlan {
    std::size_t profile = 0;
    std::vector<std::size_t> cuts{0};
    std::int64_t dp = 1;
    double time = std::numeric_limits<double>::infinity();  // of a batch, by the formula

    [[nodiscard]] std::int64_t pp() const { return static_cast<std::int64_t>(cuts.size()) - 1; }
};

/// Time of one microbatch on the stage that is `position` from the end (1 is the last).
double stage_load(const Costs& costs, std::size_t begin, std::size_t end, std::int64_t position);
/// Bytes on a device of that stage while as many microbatches are in flight as 1F1B keeps there.
std::int64_t stage_bytes(const Costs& costs, std::size_t begin, std::size_t end, std::int64_t position);

/// The formula: the slowest stage once per microbatch of a copy and for the other stages, plus the all-reduce of the
/// first stage.
double chain_time(const Costs& costs, const ChainPlan& plan);
/// Bytes of the fullest device.
std::int64_t chain_bytes(const Costs& costs, const ChainPlan& plan);
/// Whether devices and microbatches suffice and every stage fits.
bool chain_fits(const Costs& costs, const ChainPlan& plan);

/// The plan of NEST's space with the least time by the formula, over all profiles; its time is infinite if none fits.
/// Exact; O(stages x nodes^2 + groups x nodes x log stages) per profile.
ChainPlan best_chain(const std::vector<Costs>& profiles);

}  // namespace plansim::nest
