// SPDX-License-Identifier: Apache-2.0
// Plans of other planners as NEST's evaluator scores them, with its two defects, and with an even split and the right
// order ("fair").
#pragma once

#include "planner/nest/chain.hpp"

namespace plansim::nest {

struct RivalScore {
    std::string name;
    ChainPlan plan;                 // the fair one
    std::optional<double> shipped;  // time of a batch; none: does not fit
    std::optional<double> fair;
};

/// Scores under the formula of the case. None if no profile has the rival's width.
std::optional<RivalScore> score(const Rival& rival, const std::vector<Costs>& profiles);

}  // namespace plansim::nest
