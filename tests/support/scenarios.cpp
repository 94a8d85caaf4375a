// SPDX-License-Identifier: Apache-2.0
#include "tests/support/scenarios.hpp"

namespace plansim {
namespace {

CollectiveFigures ideal_collectives() {
    CollectiveFigures figures;
    figures.efficiency = figures.all_to_all_efficiency = 1;
    figures.latency = figures.hop_latency = figures.tree_latency = figures.p2p_latency = Seconds(0);
    figures.ramp = 0;
    return figures;
}

Accelerator ideal_accelerator() {
    Accelerator device;
    device.name = "ideal";
    device.peak = {{Precision::fp32, FlopsPerSecond(kPeak / 16)},
                   {Precision::bf16, FlopsPerSecond(kPeak)},
                   {Precision::fp8, FlopsPerSecond(2 * kPeak)}};
    device.hbm_capacity = Bytes(std::int64_t{1} << 50);
    device.hbm_bandwidth = BytesPerSecond(kMemoryRate);
    device.on_chip_memory = Bytes(1 << 26);
    device.compute_units = 128;
    device.kernel_time = Seconds(0);
    device.efficiency.sustained = {{Precision::fp32, 1}, {Precision::bf16, 1}, {Precision::fp8, 1}};
    device.efficiency.stream = device.efficiency.training_stream = 1;
    return device;
}

}  // namespace

Platform ideal_platform(int nodes, int devices_per_node, int nics) {
    Platform platform;
    platform.name = "ideal";
    platform.devices = nodes * devices_per_node;
    platform.devices_per_node = devices_per_node;
    platform.accelerator = ideal_accelerator();
    platform.node_fabric.kind = FabricKind::nvswitch;
    platform.node_fabric.bandwidth = BytesPerSecond(kNodeRate);
    platform.node_fabric.collectives = ideal_collectives();
    platform.fabric.kind = FabricKind::fat_tree;
    platform.fabric.bandwidth = BytesPerSecond(kNicRate);
    platform.fabric.nics = nics > 0 ? nics : devices_per_node;
    platform.fabric.collectives = ideal_collectives();
    return platform;
}

Software bare_software() {
    Software software;
    software.name = "bare";
    software.unfused_attention_traffic = software.elementwise_traffic = software.loss_traffic = 1;
    software.permutation_traffic = 1;
    software.optimizer_traffic = software.cast_traffic = 0;
    software.forward_kernels = software.backward_kernels = 0;
    software.layer_host_time = software.iteration_time = Seconds(0);
    software.host_growth = software.straggler_growth = software.overlap_slowdown = 0;
    software.tp_overlap = software.dp_overlap = software.pp_overlap = software.scatter_gather_p2p = false;
    software.dp_overlap_share = 1;
    software.fragmentation = 1;
    software.gradient_placeholders = false;
    software.logit_bytes = 8;
    software.context = Bytes(0);
    software.sequence_parallel = false;
    software.zero = 0;
    return software;
}

Workload chain_workload(const std::vector<int>& ticks, std::int64_t gbs, Bytes boundary, std::int64_t parameters) {
    Workload workload;
    workload.name = "chain";
    workload.gbs = gbs;
    workload.graph.emplace();
    for (std::size_t index = 0; index < ticks.size(); ++index) {
        GraphNode node;
        node.name = "node" + std::to_string(index);
        node.forward_flops = Flops(ticks[index] * kTick * kPeak);
        node.backward_flops = node.forward_flops * 2;
        node.parameters = parameters;
        node.output = node.saved = boundary;
        workload.graph->nodes.push_back(node);
        if (index > 0) workload.graph->edges.emplace_back(static_cast<int>(index) - 1, static_cast<int>(index));
    }
    return workload;
}

Workload equal_chain(int nodes, int ticks, std::int64_t gbs, Bytes boundary, std::int64_t parameters) {
    return chain_workload(std::vector<int>(static_cast<std::size_t>(nodes), ticks), gbs, boundary, parameters);
}

Workload split_chain(int nodes, int f, int b, int w, std::int64_t gbs, Bytes boundary) {
    Workload workload = equal_chain(nodes, f, gbs, boundary);
    for (GraphNode& node : workload.graph->nodes) {
        node.weight_flops = Flops(w * kTick * kPeak);
        node.backward_flops = Flops((b + w) * kTick * kPeak);
    }
    return workload;
}

Workload small_transformer(std::int64_t gbs) {
    Workload workload;
    workload.name = "small";
    workload.seq = 256;
    workload.gbs = gbs;
    Transformer model;
    model.layers = 8;
    model.hidden = 512;
    model.heads = model.kv_heads = 8;
    model.head_dim = 64;
    model.ffn = 2048;
    model.gated = true;
    model.vocab = 4096;
    workload.transformer = model;
    return workload;
}

Scenario realistic(const Workload& workload, int nodes, int devices_per_node) {
    Scenario scenario{workload, ideal_platform(nodes, devices_per_node), Software{}};
    scenario.software.name = "realistic";
    scenario.software.context = Bytes(0);
    scenario.platform.accelerator.kernel_time = Seconds(2.9e-6);
    scenario.platform.accelerator.efficiency = AcceleratorEfficiency{};
    scenario.platform.node_fabric.collectives = CollectiveFigures{};
    scenario.platform.fabric.collectives = CollectiveFigures{};
    return scenario;
}

Workload catalogue_workload(const std::string& name) {
    Diagnostics problems;
    Workload workload =
        read_workload(Reader::open(std::string(PLANSIM_SOURCE_ROOT) + "/workloads/" + name + ".yaml", {}, problems));
    problems.throw_if_any();
    return workload;
}

Plan plan_of(const Scenario& scenario, const std::string& text) {
    Diagnostics problems;
    Plan plan = read_plan(Reader::parse(inline_plan_to_yaml(text), "plan", {}, problems), scenario.workload,
                          scenario.platform, scenario.software);
    problems.throw_if_any();
    return plan;
}

}  // namespace plansim
