// SPDX-License-Identifier: Apache-2.0
// Operator graphs of the units of a transformer: embedding, layer, head.
#pragma once

#include "sim/graph/block.hpp"

namespace plansim {

OperatorGraph embedding_graph(const Workload& workload, const Shard& shard);
OperatorGraph layer_graph(const Workload& workload, std::int64_t layer, const Shard& shard);
OperatorGraph head_graph(const Workload& workload, const Shard& shard);

}  // namespace plansim
