// SPDX-License-Identifier: Apache-2.0
// What one unit of the pipeline chain costs on one worker: times, bytes and memory, from its operator graph.
// Shared by planner and replay, so that both speak of the same durations. Results are remembered per unit class.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "sim/cost/kernel_time.hpp"
#include "sim/cost/layout.hpp"
#include "sim/graph/block.hpp"

namespace plansim {

/// One collective over a tensor-, context- or expert-parallel group, as the operator graph lists it.
struct UnitCollective {
    Axis axis = Axis::tp;
    CollectiveKind kind = CollectiveKind::all_reduce;
    Bytes size;
    std::int64_t top_k = 0;  // exchange of experts (all_to_all over ep): see sim/collective/expert_exchange.hpp
    Seconds time;            // alone on the network
    Seconds hidden;          // part of it that runs beside compute
    friend bool operator==(const UnitCollective&, const UnitCollective&) = default;
};

/// One pass (forward, backward or recomputation) of one unit for one microbatch.
struct Phase {
    Seconds compute;     // kernels; includes the slow-down by collectives hidden behind them
    Seconds other;       // host time beyond the device time
    Seconds tp_exposed;  // part of the collectives that nothing hides, by axis
    Seconds cp_exposed;
    Seconds ep_exposed;
    std::vector<UnitCollective> collectives;
    Flops flops;  // executed
    [[nodiscard]] Seconds total() const { return compute + other + exposed(); }
    [[nodiscard]] Seconds exposed() const { return tp_exposed + cp_exposed + ep_exposed; }
};

struct UnitCost {
    Phase forward;
    Phase backward;
    Phase backward_input;         // `backward` in two parts, for schedules that split it: what the next stage waits for
    Phase backward_weight;        // and what can wait; collectives belong to the former
    Phase recompute;              // precedes the backward pass; empty without recomputation
    std::int64_t parameters = 0;  // of one rank
    std::int64_t expert_parameters = 0;  // of them, those of experts, which have data-parallel groups of their own
    std::int64_t trained = 0;            // those that have gradients, experts left out
    std::int64_t trained_experts = 0;
    Bytes activations;   // kept per microbatch from forward to backward
    Bytes working_set;   // lives during the backward pass only: what recomputation rebuilds, and gradients
    Bytes placeholders;  // 16-bit stand-ins for the gradients of a layer's weights, if the profile has them
    Bytes logits;        // lives from the forward to the backward pass of the loss
    Bytes boundary;      // handed to the next unit, whole tensor
};

/// Everything a cost depends on besides the unit and the plan.
struct Scenario {
    Workload workload;
    Platform platform;
    Software software;
};

class CostModel {
  public:
    /// Both must outlive the model.
    CostModel(const Scenario& scenario, const Topology& topology);

    [[nodiscard]] const Scenario& scenario() const { return scenario_; }
    [[nodiscard]] const Topology& topology() const { return topology_; }

    /// Cost of a chain unit under the plan's degrees, batch and switches, as it stands on a stage. Uses the slowest
    /// groups of the plan's placement. The reference stays valid.
    const UnitCost& unit(std::int64_t chain_index, const Plan& plan, int stage);
    /// The same with a given recomputation mode, for plans whose stages are not laid out yet.
    const UnitCost& unit(std::int64_t chain_index, const Plan& plan, Recompute recompute, double per_offloaded = 0);
    /// Adam or SGD step over the trained parameters of a stage, whose optimizer states the plan's owners share.
    [[nodiscard]] Seconds optimizer_time(const Plan& plan, std::int64_t trained, std::int64_t trained_experts) const;
    /// Time of device memory traffic of the optimizer's kind.
    [[nodiscard]] Seconds memory_time(double bytes) const { return kernels_.memory_time(bytes); }
    /// Factor on all compute: the slowest of many devices.
    [[nodiscard]] double straggler_factor() const;
    /// Fixed part of one transfer over a stage boundary: latency and re-gather at the receiver.
    [[nodiscard]] Seconds p2p_latency(const Plan& plan, int from_stage, int to_stage, Bytes boundary);
    /// Time that the busiest link needs while every stage of every replica sends one boundary forward and one backward:
    /// what a transfer takes in the steady state, and what a microbatch costs that link per chunk.
    [[nodiscard]] Seconds boundary_load(const Plan& plan, Bytes boundary);
    /// All-gather over tp at the receiver that puts a boundary together again which was split for the way.
    [[nodiscard]] Seconds regather_time(const Plan& plan, Bytes boundary);
    /// True if a stage computes on while it sends; else it waits until the transfer has ended.
    [[nodiscard]] bool sends_overlap(const Plan& plan) const {
        return scenario_.software.pp_overlap && (plan.vpp > 1 || splits_backward(plan.schedule));
    }
    /// Bytes that each tp rank sends over a stage boundary.
    [[nodiscard]] Bytes p2p_bytes(const Plan& plan, Bytes boundary) const;
    /// A collective of every data-parallel group of a kind of a stage at the same time.
    Seconds dp_time(CollectiveKind kind, DataGroup group, const Plan& plan, int stage, Bytes size);

  private:
    using Groups = std::array<Group, kAxes>;  // by axis
    using UnitKey = std::tuple<std::int64_t, std::int64_t, bool, Recompute, double, RecomputeModules, std::int64_t, int,
                               int, int, Groups>;
    struct PhaseSums;
    [[nodiscard]] UnitCost compute_unit(std::int64_t chain_index, const Plan& plan, Recompute recompute,
                                        const Groups& groups);
    void add_operator(const Operator& op, double share, const Plan& plan, const Groups& groups, PhaseSums& sums);
    Seconds unit_time(const UnitCollective& call, const Plan& plan, const Group& group);
    /// On switches a group's time depends only on how many of its devices each node holds.
    [[nodiscard]] bool is_switched() const;
    Phase phase(const Block& block, Pass pass, const Plan& plan, const Groups& groups);
    [[nodiscard]] Seconds accumulation_time(const Block& block, const Plan& plan) const;
    void split_backward(UnitCost& cost, const Block& block, const Plan& plan, const Groups& groups);
    Phase selective_recomputation(const Block& block, const Plan& plan, const Groups& groups);
    void recompute_unit(UnitCost& cost, const Block& block, const Plan& plan, Recompute recompute, const Groups& groups,
                        Bytes saved);
    void offload_unit(UnitCost& cost, double layers) const;
    void stream_weights(UnitCost& cost) const;
    void add_collectives(Phase& phase, Seconds attention, const Plan& plan) const;
    void add_host_time(Phase& phase, const Block& block, Pass pass, double share, const Plan& plan) const;
    Seconds exchange_time(const UnitCollective& call, const Group& group);
    Seconds group_time(CollectiveKind kind, Bytes size, const Group& group);
    Group slowest_group(Axis axis, const Plan& plan);
    const Groups& slowest_groups(const Plan& plan);

    const Scenario& scenario_;
    const Topology& topology_;
    KernelTime kernels_;
    std::map<UnitKey, std::unique_ptr<UnitCost>> units_;
    std::map<std::tuple<CollectiveKind, std::int64_t, Group>, Seconds> group_times_;
    std::map<std::tuple<int, int, int, int, int, int, std::string, std::vector<std::int64_t>>, Groups> slowest_groups_;
    std::map<std::tuple<CollectiveKind, std::int64_t, std::vector<Group>>, Seconds> dp_times_;
    std::map<std::tuple<int, int, int, int, bool, std::string, std::vector<std::int64_t>>, Seconds> boundary_loads_;
};

}  // namespace plansim
