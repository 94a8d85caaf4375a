// SPDX-License-Identifier: Apache-2.0
// The `stages` key of a plan: which layers or graph nodes each stage holds, chunk by chunk.
#pragma once

#include "sim/spec/plan.hpp"

namespace plansim {

/// Reads and checks `stages`: every layer (or node) once, in order, no stage empty.
void read_stages(Reader& document, Plan& plan, const Workload& workload);

}  // namespace plansim
