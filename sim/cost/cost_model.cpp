// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace plansim {
namespace {

// The host needs this much longer for a backward than for a forward pass (autograd bookkeeping; fitted with the host
// times).
constexpr double kBackwardHost = 1.2;
// How device and host time of a pass combine: the larger, with an imperfect run-ahead where both are close.
constexpr double kRunAheadPower = 4;
// Bytes per parameter of the optimizer step: fp32 weight and two moments read and written, gradient read (Adam).
constexpr double kAdamBytes = 32;
constexpr double kSgdBytes = 12;
// Any size large enough to measure rates with.
constexpr Bytes kLoadProbe{1 << 20};
// The 16-bit copy of every local parameter is written, and its gradient zeroed.
constexpr double kLocalBytes = 4;

/// Devices per node of a group, which decides its collective times on node + switch fabrics.
std::vector<int> node_pattern(const Group& group, const Topology& topology) {
    std::map<int, int> counts;
    for (const DeviceId device : group)
        ++counts[topology.node_of(device)];
    std::vector<int> pattern;
    for (const auto& [node, count] : counts)
        pattern.push_back(count);
    return pattern;
}

void append(Phase& phase, const Phase& other) {
    phase.compute += other.compute;
    phase.other += other.other;
    phase.tp_exposed += other.tp_exposed;
    phase.cp_exposed += other.cp_exposed;
    phase.flops += other.flops;
    phase.collectives.insert(phase.collectives.end(), other.collectives.begin(), other.collectives.end());
}

}  // namespace

CostModel::CostModel(const Scenario& scenario, const Topology& topology)
    : scenario_(scenario),
      topology_(topology),
      kernels_(scenario_.platform.accelerator, scenario_.software, scenario_.workload.dtype) {}

double CostModel::straggler_factor() const {
    return 1 + scenario_.software.straggler_growth * std::log2(static_cast<double>(scenario_.platform.nodes()));
}

Seconds CostModel::group_time(CollectiveKind kind, Bytes size, const Group& group) {
    const auto [entry, added] = group_times_.try_emplace({kind, size.value(), group});
    if (added) entry->second = collective_time(kind, CollectiveAlgorithm::automatic, group, size, topology_);
    return entry->second;
}

Group CostModel::slowest_group(Axis axis, const Plan& plan) {
    const Layout layout(plan);
    const bool alone = (axis == Axis::tp ? plan.tp : plan.cp) == 1;
    if (alone) return layout.groups(axis, 0, 0).front();
    // On switches a group's time depends only on how many of its devices each node holds.
    const bool switched =
        scenario_.platform.fabric.kind != FabricKind::torus && scenario_.platform.fabric.kind != FabricKind::graph;
    const bool uniform = switched && scenario_.platform.node_fabric.kind != FabricKind::graph;
    std::set<std::vector<int>> seen;
    Seconds slowest(-1);
    Group result;
    for (int worker = 0; worker < layout.workers(); ++worker)
        for (const Group& group : layout.groups(axis, layout.replica_of(worker), layout.stage_of(worker))) {
            if (uniform && !seen.insert(node_pattern(group, topology_)).second) continue;
            const Seconds time =
                group_time(CollectiveKind::all_gather, Bytes(100'000'000), group);  // large enough to rank by rate
            if (time <= slowest) continue;
            slowest = time;
            result = group;
        }
    return result;
}

const CostModel::Groups& CostModel::slowest_groups(const Plan& plan) {
    const auto [entry, added] =
        slowest_groups_.try_emplace({plan.tp, plan.cp, plan.dp, plan.pp, plan.order, plan.devices});
    if (added) entry->second = {slowest_group(Axis::tp, plan), slowest_group(Axis::cp, plan)};
    return entry->second;
}

Phase CostModel::phase(const Block& block, Pass pass, const Plan& plan, const Groups& groups) {
    const Software& software = scenario_.software;
    Phase result;
    Seconds attention;
    double kernels = 0;
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph))) {
        const Operator& op = block.graph[vertex];
        if (op.pass != pass) continue;
        if (op.kind == OperatorKind::collective) {
            const Group& group = groups[static_cast<std::size_t>(op.axis)];
            result.collectives.push_back(
                {op.axis, op.collective, op.size, group_time(op.collective, op.size, group), {}});
            continue;
        }
        result.compute += kernels_.time(op);
        if (op.kind == OperatorKind::attention) attention += kernels_.time(op);
        result.flops += op.flops;
        const bool counted_by_profile = block.kind == BlockKind::layer;
        if (!counted_by_profile && op.kind != OperatorKind::gemm && op.kind != OperatorKind::generic) ++kernels;
    }
    if (block.kind == BlockKind::layer)
        kernels = pass == Pass::forward ? software.forward_kernels : software.backward_kernels;
    result.compute += kernels_.fixed() * kernels;
    if (pass == Pass::backward && plan.microbatches() > 1)
        result.compute += kernels_.memory_time(software.accumulation_bytes * static_cast<double>(block.parameters));
    result.compute *= straggler_factor();
    add_collectives(result, attention, plan);
    if (!result.collectives.empty() && plan.cp > 1 && attention > Seconds(0))
        result.cp_exposed += software.cp_step_time * static_cast<double>(plan.cp - 1);
    add_host_time(result, block.kind, pass == Pass::forward ? 1 : kBackwardHost, plan.tp);
    return result;
}

/// The weight gradients take their products and the accumulation into the gradient buffer; everything else has to come
/// first. The host launches both parts, each its share of the operators; as device and host time combine for each part
/// by itself, the two take a little longer than the whole where the host is close to limiting.
void CostModel::split_backward(const Block& block, const Plan& plan, UnitCost& cost) const {
    Phase& weight = cost.backward_weight;
    double operators = 0;
    double delayed = 0;
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph))) {
        const Operator& op = block.graph[vertex];
        if (op.pass != Pass::backward || op.kind == OperatorKind::collective) continue;
        operators += 1;
        delayed += op.weight_share;
        weight.compute += kernels_.time(op) * op.weight_share;
        weight.flops += op.flops * op.weight_share;
    }
    if (plan.microbatches() > 1)
        weight.compute +=
            kernels_.memory_time(scenario_.software.accumulation_bytes * static_cast<double>(block.parameters));
    weight.compute *= straggler_factor();
    Phase& input = cost.backward_input;
    input = cost.backward;
    input.compute -= weight.compute;
    input.flops -= weight.flops;
    const double share = operators > 0 ? delayed / operators : 0;
    add_host_time(input, block.kind, kBackwardHost * (1 - share), plan.tp);
    add_host_time(weight, block.kind, kBackwardHost * share, plan.tp);
}

/// Tensor-parallel collectives hide behind their products (which takes sequence parallelism: an all-reduce cannot be
/// split along the product), those of context parallelism behind the attention core. Nothing hides behind more compute
/// than there is, and what is hidden slows the compute beside it.
void CostModel::add_collectives(Phase& phase, Seconds attention, const Plan& plan) const {
    const Software& software = scenario_.software;
    const double share = software.tp_overlap && plan.sequence_parallel ? software.tp_overlap_share : 0;
    Seconds window = attention * software.cp_overlap_share;
    Seconds free = phase.compute;  // compute that nothing hides behind yet
    for (UnitCollective& call : phase.collectives) {
        if (call.axis == Axis::tp) {
            call.hidden = std::min(call.time * share, free);
        } else {
            call.hidden = std::min({call.time, window, free});
            window -= call.hidden;
        }
        free -= call.hidden;
        (call.axis == Axis::tp ? phase.tp_exposed : phase.cp_exposed) += call.time - call.hidden;
        phase.compute += call.hidden * software.overlap_slowdown;
    }
}

void CostModel::add_host_time(Phase& phase, BlockKind kind, double passes, int tp) const {
    if (kind != BlockKind::layer) return;
    const Software& software = scenario_.software;
    Seconds host = software.layer_host_time;
    if (const std::int64_t experts = scenario_.workload.transformer->experts; experts > 0)
        host += software.moe_host_time + software.expert_host_time * static_cast<double>(experts);
    host *= passes * (1 - software.cuda_graphs) * (1 + software.host_growth * std::log2(tp));
    const Seconds device = phase.compute + phase.tp_exposed + phase.cp_exposed;
    const double together =
        std::pow(std::pow(device.value(), kRunAheadPower) + std::pow(host.value(), kRunAheadPower), 1 / kRunAheadPower);
    phase.other = Seconds(together) - device;
}

UnitCost CostModel::compute_unit(std::int64_t chain_index, const Plan& plan, Recompute recompute,
                                 const Groups& groups) {
    const Software& software = scenario_.software;
    const Shard shard{plan.tp, plan.cp, plan.mbs, plan.sequence_parallel, software.attention, software.dropout};
    const Block block = build_block(scenario_.workload, chain_index, shard);
    UnitCost cost;
    cost.forward = phase(block, Pass::forward, plan, groups);
    cost.backward = phase(block, Pass::backward, plan, groups);
    split_backward(block, plan, cost);
    cost.parameters = block.parameters;
    cost.boundary = block.boundary;
    Bytes saved;
    Bytes droppable;
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph))) {
        const Operator& op = block.graph[vertex];
        saved += op.saved;
        droppable += op.recomputable;
        if (op.kind == OperatorKind::loss && op.pass == Pass::forward)
            cost.logits = Bytes::rounded(op.read.as_double() / 4 * software.logit_bytes);  // read: 4 B per logit
        if (recompute == Recompute::selective && op.kind == OperatorKind::attention && op.pass == Pass::forward) {
            cost.recompute.compute += kernels_.time(op) * straggler_factor();
            cost.recompute.flops += op.flops;
        }
    }
    cost.activations = saved * software.activation_factor;
    const bool repeatable = block.kind == BlockKind::layer || block.kind == BlockKind::node;
    if (recompute == Recompute::full && repeatable) {
        append(cost.recompute, cost.forward);
        const double share = plan.sequence_parallel ? plan.tp : 1;
        const bool layer = block.kind == BlockKind::layer;
        cost.working_set = cost.activations * (layer ? software.recompute_layers : 1);
        cost.activations =
            layer ? block.boundary * (software.checkpoint_factor / share) : std::min(cost.activations, block.boundary);
    } else if (recompute == Recompute::selective) {
        cost.activations = (saved - droppable) * software.activation_factor;
        cost.working_set = droppable * software.activation_factor;
    }
    return cost;
}

const UnitCost& CostModel::unit(std::int64_t chain_index, const Plan& plan, Recompute recompute) {
    const Groups& groups = slowest_groups(plan);
    const std::int64_t unit_class = block_class(scenario_.workload, chain_index);
    // Gradient accumulation makes the backward pass depend on whether there is more than one microbatch.
    const std::int64_t accumulates = plan.microbatches() > 1 ? 1 : 0;
    auto& entry = units_[{unit_class * 2 + accumulates, plan.mbs, plan.sequence_parallel, recompute, groups}];
    if (!entry) entry = std::make_unique<UnitCost>(compute_unit(chain_index, plan, recompute, groups));
    return *entry;
}

Seconds CostModel::optimizer_time(std::int64_t parameters, int owners) const {
    const double state = scenario_.workload.optimizer == Optimizer::adam ? kAdamBytes : kSgdBytes;
    const double bytes = static_cast<double>(parameters) * (state / owners + kLocalBytes);
    return kernels_.memory_time(bytes * scenario_.software.optimizer_traffic);
}

Bytes CostModel::p2p_bytes(const Plan& plan, Bytes boundary) const {
    const bool split = plan.sequence_parallel || scenario_.software.scatter_gather_p2p;
    return split ? boundary / static_cast<double>(plan.tp) : boundary;
}

Seconds CostModel::regather_time(const Plan& plan, Bytes boundary) {
    if (plan.tp == 1 || plan.sequence_parallel || !scenario_.software.scatter_gather_p2p) return Seconds(0);
    return group_time(CollectiveKind::all_gather, boundary, slowest_groups(plan).front());
}

Seconds CostModel::p2p_latency(const Plan& plan, int from_stage, int to_stage, Bytes boundary) {
    const Layout layout(plan);
    const Group from = layout.devices(0, from_stage);
    const Group to = layout.devices(0, to_stage);
    Seconds latency;
    for (std::size_t rank = 0; rank < from.size(); ++rank)
        latency = std::max(latency, topology_.p2p_latency(from[rank], to[rank]));
    return latency + regather_time(plan, boundary);
}

Seconds CostModel::boundary_load(const Plan& plan, Bytes boundary) {
    if (plan.pp == 1) return Seconds(0);
    const bool wraps = plan.vpp > 1 && !v_shaped(plan.schedule);  // the last stage sends to the first
    const auto [entry, added] =
        boundary_loads_.try_emplace({plan.tp, plan.cp, plan.dp, plan.pp, wraps, plan.order, plan.devices});
    if (added) {
        // All stages of all replicas send at the same time in the steady state; the last chunk's way back to the first
        // stage exists only with several chunks. In V shape the two chunks send over the same boundary.
        const Layout layout(plan);
        std::vector<HopFlow> flows;
        for (int worker = 0; worker < layout.workers(); ++worker) {
            const int replica = layout.replica_of(worker);
            const int stage = layout.stage_of(worker);
            if (!wraps && stage + 1 == plan.pp) continue;
            const Group from = layout.devices(replica, stage);
            const Group to = layout.devices(replica, (stage + 1) % plan.pp);
            for (std::size_t rank = 0; rank < from.size(); ++rank) {
                flows.push_back({from[rank], to[rank], kLoadProbe});
                flows.push_back({to[rank], from[rank], kLoadProbe});
            }
        }
        entry->second = bottleneck_time(flows, topology_);
    }
    return entry->second * (p2p_bytes(plan, boundary) / kLoadProbe);
}

Seconds CostModel::dp_time(CollectiveKind kind, const Plan& plan, int stage, Bytes size) {
    std::vector<Group> groups = Layout(plan).dp_groups(stage);
    const auto [entry, added] = dp_times_.try_emplace({kind, size.value(), groups});
    if (added)
        entry->second = concurrent_collective_time(kind, CollectiveAlgorithm::automatic, groups, size, topology_);
    return entry->second;
}

}  // namespace plansim
