// SPDX-License-Identifier: Apache-2.0
// plansim plan --nest: NEST's problem from its own layer-profile file; plans scored by its formula as shipped, by the
// formula with its slips corrected, and by replay.
#pragma once

#include <optional>

#include "planner/nest/case.hpp"
#include "planner/nest/rivals.hpp"
#include "sim/app/outcome.hpp"

namespace plansim {

struct NestRequest {
    std::string file;
    std::optional<std::int64_t> devices;
    std::string formula;  // "as-shipped", "corrected", "replay"; empty: all of them
};

/// The object of the JSON contract; InfeasibleError if nothing fits.
Json nest_report(const NestRequest& request);
/// The same for people.
std::string nest_text(const Json& report);

/// What the catalogue (workloads/nest) knows of a case: heads to take out of layers, plans of other planners.
std::vector<nest::Head> nest_heads();
std::vector<nest::Rival> nest_rivals(const nest::Case& planned);

}  // namespace plansim
