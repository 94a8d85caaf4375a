// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_documents.hpp"

#include <array>

namespace plansim {

std::int64_t pick(std::int64_t least, std::int64_t most) {
    return *rc::gen::inRange<std::int64_t>(least, most + 1);
}

bool flip() {
    return pick(0, 1) == 1;
}

double pick_real(double least, double most) {
    constexpr std::int64_t kSteps = 1'000'003;
    return least + (most - least) * static_cast<double>(pick(0, kSteps)) / static_cast<double>(kSteps);
}

Workload random_transformer() {
    Workload workload;
    workload.name = "random model";
    workload.seq = 64 * pick(1, 8);
    workload.gbs = 16 * pick(1, 3);
    workload.dtype = pick_from<Precision>({Precision::bf16, Precision::fp16, Precision::fp8});
    workload.optimizer = flip() ? Optimizer::adam : Optimizer::sgd;
    Transformer model;
    model.layers = pick(4, 12);
    model.heads = 8;
    model.kv_heads = pick_from<std::int64_t>({1, 2, 4, 8});
    model.head_dim = pick(4, 16) * 4;
    model.hidden = 64 * pick(1, 8);
    model.ffn = 64 * pick(1, 16);
    model.gated = flip();
    if (flip()) {
        model.experts = pick(2, 8);
        model.top_k = pick(1, model.experts);
        model.shared_experts = pick(0, 1);
    }
    model.vocab = pick(100, 5000);
    model.tied_embeddings = flip();
    model.positions = pick_from<Positions>({Positions::rotary, Positions::learned, Positions::none});
    if (model.positions == Positions::learned) model.max_positions = workload.seq + pick(0, 64);
    model.norm = flip() ? Norm::rmsnorm : Norm::layernorm;
    model.final_norm = flip();
    model.embedding_norm = flip();
    model.qkv_bias = flip();
    model.output_bias = flip();
    model.ffn_bias = flip();
    model.causal = flip();
    model.token_types = pick(0, 2);
    model.pooler = flip();
    workload.transformer = model;
    return workload;
}

Workload random_graph() {
    Workload workload;
    workload.name = "random: graph";
    workload.gbs = 16 * pick(1, 3);
    workload.graph.emplace();
    const auto nodes = static_cast<int>(pick(8, 14));
    for (int index = 0; index < nodes; ++index) {
        GraphNode node;
        node.name = "op " + std::to_string(index);
        node.matrix = flip();
        node.parameters = pick(0, 1'000'000);
        node.forward_flops = Flops(pick_real(0, 1e10));
        node.backward_flops = Flops(pick_real(0, 2e10));
        node.weight_flops = node.backward_flops * pick_real(0, 1);
        node.reads = Bytes(pick(0, 10'000'000));
        node.writes = Bytes(pick(0, 10'000'000));
        node.output = Bytes(pick(0, 10'000'000));
        node.saved = Bytes(pick(0, 10'000'000));
        workload.graph->nodes.push_back(node);
        if (index > 0) workload.graph->edges.emplace_back(static_cast<int>(pick(0, index - 1)), index);
    }
    return workload;
}

Software random_software() {
    Software software;
    software.name = "random profile";
    software.attention = flip() ? AttentionImplementation::fused : AttentionImplementation::materialised;
    software.attention_kernel = pick_from<std::string>({"cudnn", "flash2", "none"});
    for (double* value : {&software.unfused_attention_traffic, &software.elementwise_traffic, &software.loss_traffic,
                          &software.optimizer_traffic, &software.cast_traffic, &software.accumulation_bytes,
                          &software.forward_kernels, &software.backward_kernels})
        *value = pick_real(0, 5);
    software.dropout = flip();
    software.layer_host_time = Seconds(pick_real(0, 1e-3));
    software.host_growth = pick_real(0, 0.2);
    software.cuda_graphs = pick_real(0, 1);
    software.iteration_time = Seconds(pick_real(0, 1e-2));
    software.straggler_growth = pick_real(0, 0.01);
    for (bool* value : {&software.tp_overlap, &software.dp_overlap, &software.pp_overlap, &software.scatter_gather_p2p,
                        &software.sequence_parallel})
        *value = flip();
    software.tp_overlap_share = pick_real(0, 1);
    software.bucket_parameters = pick(0, 1'000'000);
    software.overlap_slowdown = pick_real(0, 0.5);
    software.gradient_bytes = pick(2, 4);
    software.gradient_reduce_bytes = pick(2, 4);
    for (double* value :
         {&software.norm_copy_bytes, &software.state_bytes, &software.score_bytes, &software.fragmentation})
        *value = pick_real(0.5, 2);
    software.gradient_placeholders = software.fused_activation = software.parallel_loss = !software.dropout;
    software.logit_bytes = pick_real(2, 12);
    software.context = Bytes(pick(0, 1'000'000'007));
    software.zero = pick(0, 1);
    return software;
}

Platform random_platform(int nodes, int devices_per_node) {
    Platform platform = ideal_platform(nodes, devices_per_node);
    platform.name = "random platform";
    platform.fabric.nics = flip() ? 1 : devices_per_node;
    platform.accelerator.hbm_bandwidth = BytesPerSecond(pick_real(5e11, 5e12));
    platform.accelerator.peak[Precision::bf16] = FlopsPerSecond(pick_real(5e13, 2e15));
    platform.accelerator.compute_units = static_cast<int>(pick(16, 160));
    platform.accelerator.wave_quantised = flip();
    platform.accelerator.matrix_padding = static_cast<int>(pick(1, 256));
    platform.accelerator.kernel_time = Seconds(pick_real(0, 5e-6));
    platform.accelerator.efficiency = AcceleratorEfficiency{};
    platform.accelerator.efficiency.attention["cudnn"] = pick_real(0.1, 1);
    platform.accelerator.efficiency.sustained[Precision::bf16] = pick_real(0.3, 1);
    if (flip()) platform.accelerator.aliases = {"A100", "an alias: with signs"};
    if (flip()) platform.accelerator.efficiency.short_run[Precision::bf16] = pick_real(0.3, 1);
    for (Fabric* fabric : {&platform.node_fabric, &platform.fabric}) {
        fabric->bandwidth = BytesPerSecond(pick_real(1e10, 5e11));
        fabric->collectives = CollectiveFigures{};
        fabric->collectives.efficiency = pick_real(0.3, 1);
        fabric->collectives.latency = Seconds(pick_real(0, 5e-5));
        fabric->collectives.p2p_latency = Seconds(pick_real(0, 5e-5));
        fabric->collectives.ramp = pick_real(0, 2);
        fabric->collectives.own_share = pick_real(0, 1);
        if (flip()) fabric->collectives.in_network_reduction = pick_real(0.3, 1);
    }
    return platform;
}

Case random_case() {
    const int nodes = static_cast<int>(pick_from<std::int64_t>({1, 2, 4}));
    const int per_node = static_cast<int>(pick_from<std::int64_t>({2, 4}));
    const bool transformer = pick(0, 3) > 0;
    Case result{
        {transformer ? random_transformer() : random_graph(), random_platform(nodes, per_node), random_software()}, ""};
    const std::int64_t devices = nodes * per_node;
    std::vector<std::array<std::int64_t, 3>> degrees;  // tp, pp, dp
    for (const std::int64_t tp : {1, 2, 4, 8})
        for (const std::int64_t pp : {1, 2, 4})
            if (devices % (tp * pp) == 0 && (tp == 1 || transformer)) degrees.push_back({tp, pp, devices / tp / pp});
    auto [tp, pp, dp] = pick_from(degrees);
    std::string idle;
    if (dp % 2 == 0 && pick(0, 3) == 0) {
        dp /= 2;
        idle = " idle_devices=" + std::to_string(devices / 2);
    }
    const std::int64_t mbs = pick_from<std::int64_t>({1, 2});
    std::vector<std::string> schedules{"gpipe", "1f1b", "zb-h1"};
    if (pp > 1) schedules.emplace_back("dualpipe");
    if (pp > 1 && 2 * pp <= (transformer ? 4 : 8)) schedules.insert(schedules.end(), {"interleaved", "zb-v"});
    const std::string schedule = pick_from(schedules);
    const bool dualpipe = schedule == "dualpipe";
    const auto per_stage = [&](auto value) {
        std::string list = "[";
        for (int stage = 0; stage < pp; ++stage)
            list += std::string(stage > 0 ? "," : "") + value();
        return list + "]";
    };
    const bool whole = schedule == "gpipe" || schedule == "1f1b" || schedule == "interleaved";  // backward passes
    const std::int64_t microbatches = dualpipe ? 2 * pp * pick(1, 2) : pp * pick(1, 3);
    result.plan = "tp=" + std::to_string(tp) + " pp=" + std::to_string(pp) + " dp=" + std::to_string(dp) +
                  " mbs=" + std::to_string(mbs) + " gbs=" + std::to_string(mbs * dp * microbatches) +
                  " schedule=" + schedule +
                  " recompute=" + (whole ? per_stage([] { return flip() ? "full" : "none"; }) : "none") +
                  (whole && flip() ? " recompute_layers=" + per_stage([] { return std::to_string(pick(0, 2)); }) : "") +
                  " zero=" + ((dp > 1 || dualpipe) && flip() ? "1" : "0") +
                  " placement=" + pick_from<std::string>({"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-tp-cp-ep"}) + idle;
    if (schedule == "interleaved") result.plan += " vpp=2";
    if (tp > 1) result.plan += std::string(" sequence_parallel=") + (flip() ? "on" : "off");
    return result;
}

}  // namespace plansim
