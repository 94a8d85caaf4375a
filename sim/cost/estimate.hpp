// SPDX-License-Identifier: Apache-2.0
// The planner's closed form for one optimizer step. It assumes that stages run in lockstep and that traffic of
// different kinds does not meet:
//   pipeline = m * steady + bubble + transfers that fill and drain
//   bubble   = what all stages but the slowest add to filling and draining. F, B, W forward, backward (of the input
//              alone) and weight gradients of a stage; equal stages:
//              1f1b, gpipe  (p - 1)(F + B + W)    interleaved  (p - 1)(F + B + W) / v
//              zb-h1        (p - 1)(F + B - W)    dualpipe     (p / 2 - 1)(F + 2 B - W)
//              zb-v         (p - 1) F / 2 if F = B = W: no stage waits but for the barrier of the gradient norm
//   steady   = max over stages of (compute + own sends); if sends overlap: max of compute and of the busiest link
//   step     = pipeline + exposed data-parallel time + optimizer + fixed host time
// The replay has none of these assumptions; reports show both.
#pragma once

#include <optional>

#include "sim/cost/data_parallel.hpp"
#include "sim/cost/memory.hpp"

namespace plansim {

/// Sums over the units of one chunk of one stage.
struct ChunkCost {
    Phase forward;
    Phase backward;
    Phase backward_input;
    Phase backward_weight;
    Phase recompute;
    DataParameters parameters;
    Bytes boundary;  // leaving the chunk forward
    /// All passes of one microbatch.
    [[nodiscard]] Seconds total(ScheduleKind schedule) const {
        const bool split = splits_backward(schedule);
        const Seconds gradients = split ? backward_input.total() + backward_weight.total() : backward.total();
        return forward.total() + gradients + recompute.total();
    }
};
/// Collective lists are left empty in the sums.
ChunkCost chunk_cost(CostModel& model, const Plan& plan, int virtual_stage);

/// Fixed host time of an optimizer step.
Seconds step_host_time(const Software& software, const Plan& plan);

struct Shortfall {
    int stage = 0;
    Bytes needed;
    Bytes capacity;
    [[nodiscard]] Bytes missing() const { return needed - capacity; }
};

struct Estimate {
    Seconds iteration_time;
    Seconds bottleneck;  // t_max: forward, backward and recomputation of the slowest stage, one microbatch
    Seconds bubble;      // iteration time lost to filling and draining and to unequal stages
    Seconds p2p;
    Seconds dp_exposed;
    Seconds optimizer;
    Bytes peak_memory;  // of the fullest stage
    int fullest_stage = 0;
    int slowest_stage = 0;
    std::optional<Shortfall> shortfall;  // if the fullest stage does not fit
};

/// What a plan that is chosen by formula may fill: the device's memory less the profile's headroom.
Bytes planned_capacity(const Scenario& scenario);

/// `limit`: the memory that counts as a shortfall when it is exceeded; by default all that the device has.
Estimate estimate(CostModel& model, const Plan& plan, std::optional<Bytes> limit = std::nullopt);

}  // namespace plansim
