// SPDX-License-Identifier: Apache-2.0
// Operator graphs of the units of a transformer: embedding, layer, head.
#pragma once

#include "sim/graph/block.hpp"

namespace plansim {

OperatorGraph transformer_graph(const Workload& workload, BlockKind kind, const Shard& shard);

}  // namespace plansim
