// SPDX-License-Identifier: Apache-2.0
// What data-parallel ranks exchange: which collectives reduce gradients and gather parameters, of which bytes, in which
// groups. Planner and replay share it.
#pragma once

#include <vector>

#include "sim/cost/cost_model.hpp"

namespace plansim {

/// One collective of a stage; `then` more follow it at once (hybrid sharding).
struct DataCollective {
    CollectiveKind kind = CollectiveKind::all_reduce;
    DataGroup group = DataGroup::all;
    Bytes size;
};

/// Parameters of one or several units of one rank, in the two classes that have groups of their own.
struct DataParameters {
    std::int64_t dense = 0;  // that are gathered
    std::int64_t experts = 0;
    std::int64_t trained = 0;  // that are reduced
    std::int64_t trained_experts = 0;

    void add(const UnitCost& unit);
    void add(const DataParameters& more);
};

/// The collectives, in order, that sum the gradients of these parameters. Empty if no rank shares them.
std::vector<DataCollective> reductions(const Plan& plan, const Software& software, const DataParameters& parameters);
/// Those that bring the parameters to the ranks that do not own them. Empty without ZeRO.
std::vector<DataCollective> gatherings(const Plan& plan, const Software& software, const DataParameters& parameters);

/// What the outer step of local SGD adds to a step on average: the sum of the replicas' moves, as far as the compute of
/// the following steps does not hide it, and the outer optimizer (Nesterov momentum; Douillard et al. 2023). Every rank
/// sums its share of the parameters in fp32. `pass`: compute of a microbatch, both passes.
struct OuterStep {
    Seconds exposed;
    Seconds optimizer;
};
OuterStep outer_step(CostModel& model, const Plan& plan, int stage, const DataParameters& parameters, Seconds pass);

/// True if every forward pass gathers its parameters (FSDP) instead of the first of the step; `again`: and every
/// backward pass too. True if every backward pass reduces instead of the last.
bool gathers_every_pass(const Plan& plan);
bool gathers_again(const Plan& plan);
bool reduces_every_pass(const Plan& plan);

/// Sum of the collectives' times when nothing else is on the network.
Seconds data_time(CostModel& model, const Plan& plan, int stage, const std::vector<DataCollective>& collectives);

}  // namespace plansim
