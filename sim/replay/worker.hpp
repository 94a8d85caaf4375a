// SPDX-License-Identifier: Apache-2.0
// State of one worker during a replay, and the work of its chunks; private to the module.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "sim/cost/estimate.hpp"
#include "sim/device/ledger.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/trace/record.hpp"

namespace plansim {

/// One delay or collective of a pass.
struct WorkStep {
    Breakdown shares;                      // of the delay; adds up to its duration
    const UnitCollective* flow = nullptr;  // if set: the collective runs as flows, beside `shares` (its hidden part)
    Seconds beside_gathers;                // more compute if parameters are still being gathered
    std::vector<int> await;                // wait for these gathers before the step
    std::vector<int> prefetch;             // mark these buckets ready when the step starts
    std::vector<int> release;              // and these after it
};
using Work = std::vector<WorkStep>;

/// The work of one chunk, as the plan and the fidelity demand; shared by all replicas.
struct ChunkWork {
    Work forward;
    Work backward;       // recomputation included
    Work first_forward;  // of the first microbatch, which waits for parameters; empty: as `forward`
    Work last_backward;  // of the last microbatch, which releases gradients; empty: as `backward`
    // Instead of `backward` if the schedule splits it:
    Work backward_input;   // recomputation included
    Work backward_weight;  //
    Work last_weight;      // of the last microbatch; empty: as `backward_weight`
    Flops forward_flops;
    Flops backward_flops;
    Flops weight_flops;  // part of backward_flops that a split backward pass leaves for W
    Bytes boundary;      // leaving the chunk forward
};

/// A message that has arrived and was not consumed yet.
struct Message {
    bool backward = false;
    int chunk = 0;
    std::int64_t microbatch = 0;
    Seconds sent;
};

struct Worker {
    Worker(const PipelineShape& shape, int replica_index, int stage_index, bool keep_series)
        : replica(replica_index), stage(stage_index), stream(shape, stage_index), ledger(keep_series) {}

    enum class Waiting { nothing, step, message, transfer, bucket, barrier };

    int replica;
    int stage;
    InstructionStream stream;
    std::optional<Instruction> current;
    const Work* work = nullptr;  // of the current pass
    std::size_t next_step = 0;
    bool prefetched = false;  // the current step has started its prefetches
    int pending = 0;          // parts of the current step that have not ended
    Seconds pass_start;
    Seconds step_start;
    Breakdown step_shares;  // of the current step, slow-down included
    Seconds waiting_since;
    Waiting waiting = Waiting::nothing;
    int awaited_bucket = -1;  // -1: all reductions
    std::deque<Message> inbox;
    Breakdown account;
    MemoryLedger ledger;
    Flops flops;
    std::int64_t passes = 0;  // forward passes executed
    bool done = false;
};

}  // namespace plansim
