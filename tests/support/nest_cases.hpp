// SPDX-License-Identifier: Apache-2.0
// Cases of the NEST planner: the published ones, and small ones that can be priced by hand or enumerated.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/nest/costs.hpp"

namespace plansim::nest {

/// tests/data/nest/NAME.json on so many devices.
Case published_case(const std::string& name, std::int64_t devices);
/// One profile of (forward, backward) nodes with 1 byte of parameters and 10 bytes of activations each, every boundary
/// of `boundary` bytes, all devices in one level at 5 bytes per unit of time and latency 1, memory for everything.
Case small_case(const std::vector<std::pair<double, double>>& nodes, std::int64_t boundary, std::int64_t devices,
                std::int64_t microbatches);
/// Up to 8 devices in two levels, 6 nodes, 2 profiles, with memory that often binds.
Case random_case(std::mt19937& random);

std::vector<Costs> costs_of(const Case& planned);

}  // namespace plansim::nest
