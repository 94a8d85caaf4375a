// SPDX-License-Identifier: Apache-2.0
// Data-parallel collectives of one stage: buckets of consecutive units, executed one after the other on the stage's
// communication stream as soon as every replica is ready; private to the module.
#pragma once

#include <vector>

#include "sim/cost/estimate.hpp"

namespace plansim {

struct Bucket {
    CollectiveKind kind = CollectiveKind::all_reduce;
    Bytes size;        // full tensor of one rank
    Seconds estimate;  // alone on the network, with the other groups of the stage
    int ready = 0;     // replicas that have reached it
    int pending_flows = 0;
    bool finished = false;
    Seconds start;
};

/// Buckets of a stage in the order in which they start: gathers in forward order, then reductions in backward order.
struct StageBuckets {
    std::vector<Bucket> buckets;
    std::size_t gathers = 0;  // the first so many
    std::size_t next = 0;     // the first that has not started
    bool busy = false;
    // Unit (position in the stage's forward order, chunk by chunk) -> bucket, or -1.
    std::vector<std::vector<int>> gather_of_unit;  // [chunk][unit]
    std::vector<std::vector<int>> reduce_of_unit;  // set at the unit whose backward pass completes the bucket
};

/// Lays out the buckets of a stage. Without overlap: one reduction after the last pass, one gather after the optimizer.
StageBuckets make_buckets(CostModel& model, const Plan& plan, int stage);

}  // namespace plansim
