// SPDX-License-Identifier: Apache-2.0
// Plans by rule of thumb, to compare with.
#pragma once

#include <optional>

#include "sim/cost/estimate.hpp"

namespace plansim {

/// Megatron's rule of thumb (Narayanan et al. 2021): tensor parallelism as wide as a node, the fewest pipeline stages
/// that fit, data parallelism for the rest, microbatch 1, 1F1B, even stages; full recomputation only if nothing fits
/// without. Nothing if no such plan fits.
std::optional<Plan> megatron_baseline(CostModel& model);

}  // namespace plansim
