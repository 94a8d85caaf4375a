// SPDX-License-Identifier: Apache-2.0
// Data-parallel collectives of one stage: buckets of consecutive units, executed one after the other on the stage's
// communication stream in the order in which every replica has become ready for them; private to the module.
#pragma once

#include <deque>
#include <vector>

#include "sim/cost/estimate.hpp"

namespace plansim {

/// One collective. It runs once per step, or once per microbatch under FSDP.
struct Bucket {
    DataCollective collective;
    bool reduces = false;  // gradients; else it gathers parameters
    Seconds estimate;      // alone on the network, with the other groups of the stage
    int then = -1;         // starts as soon as this one has ended (hybrid sharding)
    int ready = 0;         // replicas that have reached it, all its runs together
    int completed = 0;     // runs
    int pending_flows = 0;
    bool stretched = false;  // its flows have ended, the time that it loses to the compute beside it has not
    Seconds start;
    [[nodiscard]] bool gathers() const { return !reduces; }
};

/// Buckets that a unit of a chunk has to do with, as indices.
struct UnitBuckets {
    std::vector<int> gathered_forward;   // awaited by its forward pass
    std::vector<int> gathered_backward;  // awaited by its backward pass (FSDP)
    std::vector<int> reduced;            // ready once its backward pass has ended
    std::vector<int> prefetch_forward;   // become ready when its forward pass starts (FSDP: the next unit's)
    std::vector<int> prefetch_backward;
    Seconds beside_forward;  // its share of the collectives that run beside its passes
    Seconds beside_backward;
};

struct StageBuckets {
    std::vector<Bucket> buckets;
    std::vector<std::vector<UnitBuckets>> units;  // [chunk][unit in forward order]
    std::vector<int> at_start;                    // gathers that are ready when the step starts
    std::vector<int> at_end;                      // without overlap: reductions after the last pass
    std::vector<int> after_optimizer;             // without overlap: gathers of the new parameters
    bool every_forward = false;                   // FSDP: every microbatch gathers
    bool every_backward = false;                  // FSDP: every microbatch gathers again or reduces
    std::deque<int> queue;                        // ready in all replicas, not started yet
    int running = -1;
};

/// Lays out the buckets of a stage.
StageBuckets make_buckets(CostModel& model, const Plan& plan, int stage);

}  // namespace plansim
