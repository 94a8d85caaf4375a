// SPDX-License-Identifier: Apache-2.0
// Exhaustive search over (tp, pp, dp, mbs, vpp, recompute, sequence parallelism, ZeRO) with the stage split of each
// found by dynamic programming. Judges by the closed form only; the caller replays what is worth it.
// What is exact and what is not: planner/README.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/estimate.hpp"

namespace plansim {

struct Candidate {
    Plan plan;
    Estimate estimate;
    std::string why;  // what limits it, and what it loses against the best
};

struct SearchResult {
    std::vector<Candidate> best;  // fastest first; empty if nothing fits
    std::int64_t candidates = 0;  // legal combinations
    std::int64_t infeasible = 0;  // of them without a split that fits
    std::optional<Plan> nearest;  // if nothing fits: the plan that misses by the least
    std::optional<Shortfall> shortfall;
};

/// What a user has fixed; the search leaves it alone.
struct SearchConstraints {
    std::optional<std::int64_t> tp;
    std::optional<std::int64_t> pp;
    std::optional<std::int64_t> dp;
    std::optional<std::int64_t> vpp;
    std::optional<std::int64_t> mbs;
    std::optional<std::int64_t> gbs;
    std::optional<std::int64_t> zero;
    std::optional<bool> sequence_parallel;
    std::optional<Recompute> recompute;
    [[nodiscard]] bool allow(const Plan& plan) const;
};

/// `top` plans of different degrees, batch or schedule (plans that differ only in switches or in the number of chunks
/// count as one, the better is kept: the caller replays plans that have something to say).
/// `progress(done, total)` is called now and then.
SearchResult search(CostModel& model, int top, const SearchConstraints& constraints,
                    const std::function<void(std::size_t, std::size_t)>& progress);

/// Text for people: the constraint, the shortfall and the plan that came nearest.
std::string explain_infeasible(const SearchResult& result, const Scenario& scenario);

}  // namespace plansim
