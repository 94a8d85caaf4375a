// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/collective/expert_exchange.hpp"

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
// An optimizer on the host gets fp32 gradients and returns 16-bit weights.
constexpr double kHostTransferBytes = 6;
// Share of a pass beside which transfers from and to the host run; assumed.
constexpr double kHostWindow = 0.8;

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

bool CostModel::is_switched() const {
    const FabricKind fabric = scenario_.platform.fabric.kind;
    return fabric != FabricKind::torus && fabric != FabricKind::graph &&
           scenario_.platform.node_fabric.kind != FabricKind::graph;
}

Group CostModel::slowest_group(Axis axis, const Plan& plan) {
    const Layout layout(plan);
    const bool alone = (axis == Axis::tp ? plan.tp : axis == Axis::cp ? plan.cp : plan.ep) == 1;
    if (alone) return {plan.device_of({})};
    const bool uniform = is_switched();
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
        slowest_groups_.try_emplace({plan.tp, plan.cp, plan.dp, plan.pp, plan.ep, plan.etp, plan.order, plan.devices});
    if (added)
        entry->second = {slowest_group(Axis::tp, plan), slowest_group(Axis::cp, plan), slowest_group(Axis::ep, plan)};
    return entry->second;
}

/// What a pass is made of before overlap and host time.
struct CostModel::PhaseSums {
    Phase phase;
    Seconds attention;
    double kernels = 0;  // element-wise ones
};

/// On a torus or graph the sibling groups share links, and without a pipeline they all run at the same time.
Seconds CostModel::unit_time(const UnitCollective& call, const Plan& plan, const Group& group) {
    if (call.axis == Axis::ep) return exchange_time(call, group);
    if (is_switched() || plan.pp > 1 || group.size() == 1) return group_time(call.kind, call.size, group);
    const Layout layout(plan);
    std::vector<Group> siblings;
    for (int replica = 0; replica < plan.dp; ++replica)
        for (Group& sibling : layout.groups(call.axis, replica, 0))
            siblings.push_back(std::move(sibling));
    const auto [entry, added] = dp_times_.try_emplace({call.kind, call.size.value(), siblings});
    if (added)
        entry->second =
            concurrent_collective_time(call.kind, CollectiveAlgorithm::automatic, siblings, call.size, topology_);
    return entry->second;
}

/// Adds `share` of an operator.
void CostModel::add_operator(const Operator& op, double share, const Plan& plan, const Groups& groups,
                             PhaseSums& sums) {
    Phase& phase = sums.phase;
    if (op.kind == OperatorKind::collective) {
        UnitCollective call{op.axis, op.collective, op.size, op.top_k, {}, {}};
        const Group& group = groups[static_cast<std::size_t>(op.axis)];
        call.time = unit_time(call, plan, group);
        phase.collectives.push_back(call);
        return;
    }
    const Seconds time = kernels_.time(op) * share;
    phase.compute += time;
    phase.flops += op.flops * share;
    if (op.kind == OperatorKind::attention) sums.attention += time;
    if (op.kind != OperatorKind::gemm && op.kind != OperatorKind::generic) sums.kernels += share;
}

Phase CostModel::phase(const Block& block, Pass pass, const Plan& plan, const Groups& groups) {
    const Software& software = scenario_.software;
    PhaseSums sums;
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph)))
        if (block.graph[vertex].pass == pass) add_operator(block.graph[vertex], 1, plan, groups, sums);
    Phase& result = sums.phase;
    // How many kernels a framework makes of the element-wise operators of a layer is a figure of its profile.
    if (block.kind == BlockKind::layer)
        sums.kernels = pass == Pass::forward ? software.forward_kernels : software.backward_kernels;
    result.compute += kernels_.fixed() * sums.kernels;
    if (pass == Pass::backward) result.compute += accumulation_time(block, plan);
    if (plan.zero == 3) {
        // Forward gathers, backward gathers once more and reduces.
        const double copies = pass == Pass::forward ? 1.0 / 3 : 2.0 / 3;
        result.compute +=
            kernels_.memory_time(copies * software.fsdp_copy_bytes * static_cast<double>(block.parameters));
    }
    result.compute *= straggler_factor();
    add_collectives(result, sums.attention, plan);
    if (plan.cp > 1 && plan.cp_exchange == ContextExchange::ring && sums.attention > Seconds(0))
        result.cp_exposed += software.cp_step_time * static_cast<double>(plan.cp - 1);
    add_host_time(result, block, pass, 1, plan);
    return result;
}

/// Sum of a microbatch's weight gradients into the gradient buffer where the products do not do it.
Seconds CostModel::accumulation_time(const Block& block, const Plan& plan) const {
    if (plan.microbatches() == 1 || plan.lora > 0) return Seconds(0);
    return kernels_.memory_time(scenario_.software.accumulation_bytes * static_cast<double>(block.parameters));
}

/// One forward pass of the operators that the plan's modules name, with their collectives.
Phase CostModel::selective_recomputation(const Block& block, const Plan& plan, const Groups& groups) {
    PhaseSums sums;
    const bool products = contains(plan.recompute_modules, RecomputeModule::products);
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph))) {
        const Operator& op = block.graph[vertex];
        if (op.pass != Pass::forward) continue;
        if ((op.modules & plan.recompute_modules) != 0)
            add_operator(op, 1, plan, groups, sums);
        else if (products && op.kind == OperatorKind::gemm && !op.head_gemm)
            add_operator(op, 0.5, plan, groups, sums);
    }
    sums.phase.compute = (sums.phase.compute + kernels_.fixed() * sums.kernels) * straggler_factor();
    add_collectives(sums.phase, sums.attention, plan);
    return sums.phase;
}

/// The weight gradients take their products and the accumulation into the gradient buffer; everything else (casts, the
/// copies of FSDP) has to come first. The host launches both parts, each its share of the operators; as device and host
/// time combine for each part by itself, the two take a little longer than the whole where the host is close to
/// limiting.
void CostModel::split_backward(UnitCost& cost, const Block& block, const Plan& plan, const Groups& groups) {
    PhaseSums sums;
    double operators = 0;
    double delayed = 0;
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph))) {
        const Operator& op = block.graph[vertex];
        if (op.pass != Pass::backward || op.kind == OperatorKind::collective) continue;
        operators += 1;
        delayed += op.weight_share;
        add_operator(op, op.weight_share, plan, groups, sums);
    }
    Phase& weight = cost.backward_weight;
    weight = sums.phase;
    weight.compute = (weight.compute + accumulation_time(block, plan)) * straggler_factor();
    Phase& input = cost.backward_input;
    input = cost.backward;
    input.compute -= weight.compute;
    input.flops -= weight.flops;
    const double share = operators > 0 ? delayed / operators : 0;
    add_host_time(input, block, Pass::backward, 1 - share, plan);
    add_host_time(weight, block, Pass::backward, share, plan);
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
        } else if (call.axis == Axis::ep) {
            call.hidden = std::min(call.time * software.expert_overlap_share, free);
        } else if (plan.cp_exchange == ContextExchange::ring) {
            call.hidden = std::min({call.time, window, free});
            window -= call.hidden;
        }
        free -= call.hidden;
        Seconds& exposed = call.axis == Axis::tp   ? phase.tp_exposed
                           : call.axis == Axis::cp ? phase.cp_exposed
                                                   : phase.ep_exposed;
        exposed += call.time - call.hidden;
        phase.compute += call.hidden * software.overlap_slowdown;
    }
}

/// `share`: the part of the pass's launches that belong to the phase.
void CostModel::add_host_time(Phase& phase, const Block& block, Pass pass, double share, const Plan& plan) const {
    if (block.kind != BlockKind::layer) return;
    const Software& software = scenario_.software;
    const Transformer& model = *scenario_.workload.transformer;
    // Graphs hold attention and dense products; the routing of tokens, whose counts the host reads, stays outside.
    Seconds host = software.layer_host_time * (1 - software.cuda_graphs);
    if (block.expert_parameters > 0)
        host += software.moe_host_time + software.expert_host_time * static_cast<double>(model.experts / plan.ep);
    // Graphs hold attention and dense products; the routing of tokens, whose counts the host reads, stays outside.
    // Megatron's fused softmax takes batches of four heads.
    const bool fallback =
        software.attention == AttentionImplementation::materialised && plan.mbs * model.heads / plan.tp % 4 != 0;
    if (fallback) host += software.softmax_host_time;
    host *= share * (pass == Pass::forward ? 1 : kBackwardHost) * (1 + software.host_growth * std::log2(plan.tp));
    const Seconds device = phase.compute + phase.exposed();
    const double together =
        std::pow(std::pow(device.value(), kRunAheadPower) + std::pow(host.value(), kRunAheadPower), 1 / kRunAheadPower);
    phase.other = Seconds(together) - device + software.blocking_time * share;
}

UnitCost CostModel::compute_unit(std::int64_t chain_index, const Plan& plan, Recompute recompute,
                                 const Groups& groups) {
    const Software& software = scenario_.software;
    const Block block = build_block(scenario_.workload, chain_index, shard_of(plan, software));
    UnitCost cost;
    cost.forward = phase(block, Pass::forward, plan, groups);
    cost.backward = phase(block, Pass::backward, plan, groups);
    split_backward(cost, block, plan, groups);
    cost.parameters = block.parameters;
    cost.expert_parameters = block.expert_parameters;
    cost.trained = plan.lora > 0 ? plan.lora * block.adapter : block.parameters - block.expert_parameters;
    cost.trained_experts = plan.lora > 0 ? 0 : block.expert_parameters;
    cost.boundary = block.boundary;
    Bytes saved;
    Bytes widest;    // gradient of the widest output of a product
    Bytes heaviest;  // 16-bit gradient of the largest weight, before it is added to the buffer
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph))) {
        const Operator& op = block.graph[vertex];
        saved += op.saved;
        if (op.kind == OperatorKind::gemm && op.pass == Pass::forward) {
            const Bytes gradient(plan.lora > 0 ? 0 : 2 * op.shape.n * op.shape.k);
            heaviest = std::max(heaviest, gradient);
            if (!op.head_gemm) {
                widest = std::max(widest, op.written);
                cost.placeholders += gradient;
            }
        }
        if (op.kind == OperatorKind::loss && op.pass == Pass::forward)
            cost.logits = Bytes::rounded(op.read.as_double() / 4 * software.logit_bytes *  // read: 4 B per logit
                                         (software.parallel_loss ? 1 : plan.tp));
    }
    recompute_unit(cost, block, plan, recompute, groups, saved);
    if (block.kind == BlockKind::layer && software.gradient_placeholders) heaviest = Bytes(0);
    if (block.kind == BlockKind::layer || block.kind == BlockKind::head) cost.working_set += widest + heaviest;
    if (!software.gradient_placeholders) cost.placeholders = Bytes(0);
    return cost;
}

/// Fills in what recomputation costs and what of the saved activations it leaves.
void CostModel::recompute_unit(UnitCost& cost, const Block& block, const Plan& plan, Recompute recompute,
                               const Groups& groups, Bytes saved) {
    cost.activations = saved;
    const bool layer = block.kind == BlockKind::layer;
    if (recompute == Recompute::full && (layer || block.kind == BlockKind::node)) {
        cost.recompute = cost.forward;
        const double share = plan.sequence_parallel ? plan.tp : 1;
        cost.working_set = saved;
        cost.activations = layer ? block.boundary / share : std::min(saved, block.boundary);
    } else if (recompute == Recompute::selective && layer) {
        cost.recompute = selective_recomputation(block, plan, groups);
        const bool products = contains(plan.recompute_modules, RecomputeModule::products);
        // What every second product keeps is its output; the layer's input and the attention's output stay too.
        Bytes kept = block.boundary / (plan.sequence_parallel ? plan.tp : 1);
        Bytes dropped;
        for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph))) {
            const Operator& op = block.graph[vertex];
            if (op.pass != Pass::forward) continue;
            if ((op.modules & plan.recompute_modules) != 0) dropped += op.recomputable;
            if (op.kind == OperatorKind::gemm) kept += op.written / 2;
            if (op.kind == OperatorKind::attention) kept += op.saved - op.recomputable;
        }
        if (products) dropped = std::max(dropped, saved - std::min(saved, kept));
        cost.activations = saved - dropped;
        cost.working_set = dropped;
    }
}

/// Activations wait in the memory of the host. Transfers of all offloaded layers run beside the passes of all layers of
/// the stage, `layers` per offloaded one; a share of them is never hidden, and what does not fit is not either.
void CostModel::offload_unit(UnitCost& cost, double layers) const {
    const Seconds transfer = cost.activations / scenario_.platform.accelerator.host_bandwidth;
    for (Phase* phase : {&cost.forward, &cost.backward}) {
        const Seconds excess = std::max(Seconds(0), transfer - phase->total() * (kHostWindow * layers));
        phase->other += std::max(transfer * scenario_.software.offload_exposed, excess);
    }
    cost.working_set += cost.activations;
    cost.activations = Bytes(0);
}

/// 16-bit weights come from the host beside the pass before theirs, which takes about as long.
void CostModel::stream_weights(UnitCost& cost) const {
    const Seconds transfer = Bytes(2 * cost.parameters) / scenario_.platform.accelerator.host_bandwidth;
    for (Phase* phase : {&cost.forward, &cost.backward}) {
        const Seconds excess = std::max(Seconds(0), transfer - phase->total() * kHostWindow);
        phase->other += std::max(transfer * scenario_.software.offload_exposed, excess);
    }
}

const UnitCost& CostModel::unit(std::int64_t chain_index, const Plan& plan, int stage) {
    const auto& chunks = plan.stages[static_cast<std::size_t>(stage)];
    double per_offloaded = 0;  // layers of the stage for each offloaded one, if this one is
    if (plan.offload > 0 && block_kind(scenario_.workload, chain_index) == BlockKind::layer) {
        std::int64_t before = 0;  // layers of the stage in front of this one
        std::int64_t layers = 0;
        for (const ChainRange& range : chunks) {
            layers += range.size();
            before += std::clamp<std::int64_t>(chain_index - std::max<std::int64_t>(range.first, 1), 0, range.size());
        }
        if (before < plan.offload)
            per_offloaded = static_cast<double>(layers) / static_cast<double>(std::min(layers, plan.offload));
    }
    return unit(chain_index, plan, plan.recompute_at(stage, chain_index), per_offloaded);
}

const UnitCost& CostModel::unit(std::int64_t chain_index, const Plan& plan, Recompute recompute, double per_offloaded) {
    const Groups& groups = slowest_groups(plan);
    const std::int64_t unit_class = block_class(scenario_.workload, chain_index);
    // Gradient accumulation makes the backward pass depend on whether there is more than one microbatch.
    const std::int64_t accumulates = plan.microbatches() > 1 ? 1 : 0;
    auto& entry = units_[{
        unit_class * 2 + accumulates, plan.mbs, plan.sequence_parallel, recompute, per_offloaded,
        plan.recompute_modules, plan.lora, plan.etp,
        (plan.zero == 3 ? 1 : 0) + (plan.cp_exchange == ContextExchange::ring ? 0 : 2) + (plan.offload_weights ? 4 : 0),
        is_switched() || plan.pp > 1 ? 0 : plan.dp, groups}];
    if (!entry) {
        entry = std::make_unique<UnitCost>(compute_unit(chain_index, plan, recompute, groups));
        if (per_offloaded > 0) offload_unit(*entry, per_offloaded);
        if (plan.offload_weights) stream_weights(*entry);
    }
    return *entry;
}

Seconds CostModel::optimizer_time(const Plan& plan, std::int64_t trained, std::int64_t trained_experts) const {
    const double state = scenario_.workload.optimizer == Optimizer::adam ? kAdamBytes : kSgdBytes;
    const double owned =
        static_cast<double>(trained) / plan.owners() + static_cast<double>(trained_experts) / plan.expert_owners();
    const double bytes =
        owned * state * (1 - plan.offload_optimizer) + static_cast<double>(trained + trained_experts) * kLocalBytes;
    const Seconds device = kernels_.memory_time(bytes * scenario_.software.optimizer_traffic);
    if (plan.offload_optimizer == 0) return device;
    // The host updates its share beside the device; gradients come down and weights go up while it does.
    const Platform& platform = scenario_.platform;
    const Bytes updated = Bytes::rounded(owned * plan.offload_optimizer * state);
    const Bytes moved = Bytes::rounded(owned * plan.offload_optimizer * kHostTransferBytes);
    const auto sharing = static_cast<double>(platform.devices_per_node);
    return std::max(
        {device, updated / (platform.host_memory_bandwidth / sharing), moved / platform.accelerator.host_bandwidth});
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

Seconds CostModel::dp_time(CollectiveKind kind, DataGroup group, const Plan& plan, int stage, Bytes size) {
    const std::vector<Group> groups = Layout(plan).data_groups(group, stage);
    const auto [entry, added] = dp_times_.try_emplace({kind, size.value(), groups});
    if (added)
        entry->second = concurrent_collective_time(kind, CollectiveAlgorithm::automatic, groups, size, topology_);
    return entry->second;
}

Seconds CostModel::exchange_time(const UnitCollective& call, const Group& group) {
    // Told from plain all-to-alls of the group by the sign: sizes are positive.
    const auto [entry, added] = group_times_.try_emplace({call.kind, -call.size.value() * 64 - call.top_k % 64, group});
    if (added) {
        const Decomposition exchange = expert_exchange(group, call.size, call.top_k, topology_);
        entry->second = exchange.latency + bottleneck_time(exchange.flows, topology_);
    }
    return entry->second;
}

}  // namespace plansim
