// SPDX-License-Identifier: Apache-2.0
// The best split of the pipeline chain over stages, by dynamic programming.
#pragma once

#include <optional>

#include "sim/cost/estimate.hpp"

namespace plansim {

/// Sets plan.stages (vpp 1) to the split with the least time of the slowest stage among those whose stages all fit into
/// `capacity`; false if none fits. Exact for the closed form of stage time and memory. O(pp * units^2).
bool split_stages(CostModel& model, Plan& plan, Bytes capacity);

}  // namespace plansim
