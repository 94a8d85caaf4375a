// SPDX-License-Identifier: Apache-2.0
// Turns the costs of a chunk into the steps that a worker executes; private to the module.
#pragma once

#include <map>
#include <tuple>

#include "sim/replay/buckets.hpp"
#include "sim/replay/replay.hpp"
#include "sim/replay/symmetry.hpp"
#include "sim/replay/worker.hpp"

namespace plansim {

/// Collectives of one kind and size that a worker executes per step, as delays and as flows.
struct CollectiveCount {
    std::int64_t as_delay = 0;
    std::int64_t as_flow = 0;
};
using CollectiveCounts =
    std::map<std::tuple<Axis, CollectiveKind, std::int64_t /*bytes*/, std::int64_t /*top_k*/>, CollectiveCount>;

/// Everything a stage executes; shared by its replicas.
struct StageWork {
    std::vector<ChunkWork> chunks;
    Work finish;  // optimizer, gather without overlap, fixed host time
    CollectiveCounts collectives;
};
StageWork make_stage_work(CostModel& model, const Plan& plan, int stage, const StageBuckets& buckets, Fidelity fidelity,
                          const Contention& contention);

}  // namespace plansim
