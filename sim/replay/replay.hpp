// SPDX-License-Identifier: Apache-2.0
// Replays one optimizer step of a plan event by event: instruction streams on workers, transfers and data-parallel
// collectives as flows on the network, memory in ledgers.
//
// A worker is the tensor-parallel group of one stage of one replica; its devices run in lockstep. What becomes a flow:
// stage boundaries and data-parallel collectives always; tensor-parallel collectives only where their links carry other
// traffic too (fidelity layer), else they are delays of their closed form. Leaves out: jitter between iterations (the
// step is the steady state: parameters are gathered at its start, gradients reduced at its end), the data loader.
#pragma once

#include "sim/cost/estimate.hpp"
#include "sim/trace/record.hpp"

namespace plansim {

/// stage: one delay per pass of a chunk. layer: one delay per unit and direction, every collective by itself.
enum class Fidelity { stage, layer };
/// folded: one replica stands for all (its data-parallel groups are complete). automatic: folded where replicas share
/// no link of their stage boundaries or tensor-parallel groups.
enum class Replicas { automatic, all, folded };

struct ReplayOptions {
    Fidelity fidelity = Fidelity::layer;
    Replicas replicas = Replicas::automatic;
    bool record = false;  // keep the timeline and the memory series
};

/// Must run in a process that has not replayed before (see run_isolated). Throws SimulationError if the schedule is
/// not executable or the replay stops before every worker is done.
ReplayRecord replay(CostModel& model, const Plan& plan, const ReplayOptions& options);

}  // namespace plansim
