// SPDX-License-Identifier: Apache-2.0
// Data-parallel collectives of one stage: buckets of consecutive units, executed one after the other on the stage's
// communication stream; private to the module.
#pragma once

#include <vector>

#include "sim/cost/estimate.hpp"

namespace plansim {

/// One collective. It runs once per step, or once per microbatch under FSDP.
struct Bucket {
    DataCollective collective;
    bool reduces = false;           // gradients; else it gathers parameters
    Seconds estimate;               // alone on the network, with the other groups of the stage
    bool every_microbatch = false;  // gathers only: it runs for every microbatch, not once per step
    int then = -1;                  // starts as soon as this one has ended (hybrid sharding)
    std::int64_t ready = 0;         // holders that have reached it, all its runs together
    std::int64_t completed = 0;     // runs
};

/// Buckets that a unit of a chunk has to do with, as indices.
struct UnitBuckets {
    std::vector<int> gathered_forward;   // awaited by its forward pass
    std::vector<int> gathered_backward;  // awaited by its backward pass (FSDP)
    std::vector<int> reduced;            // ready once its backward pass has ended
    std::vector<int> prefetch_forward;   // become ready when its forward pass starts (FSDP: the next unit's)
    std::vector<int> prefetch_backward;
    Seconds beside_forward;   // its share of the collectives that run beside its passes: gathers
    Seconds beside_backward;  // gathers, and
    Seconds beside_reduction;
};

struct StageBuckets {
    std::vector<Bucket> buckets;
    std::vector<std::vector<UnitBuckets>> units;  // [chunk][unit in forward order]
    std::vector<int> at_start;                    // gathers that are ready when the step starts
    std::vector<int> at_end;                      // without overlap: reductions after the last pass
    std::vector<int> after_optimizer;             // without overlap: gathers of the new parameters
    bool gathers_every_forward = false;           // FSDP: every microbatch gathers, not the first of the step
    bool reduces_every_backward = false;          // ZeRO-2 and FSDP: every microbatch reduces, not the last of the step
};

/// Lays out the buckets of a stage.
StageBuckets make_buckets(CostModel& model, const Plan& plan, int stage);

}  // namespace plansim
