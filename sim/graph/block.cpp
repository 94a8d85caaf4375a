// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/block.hpp"

#include <set>

#include "sim/graph/builder.hpp"
#include "sim/graph/transformer.hpp"

namespace plansim {
namespace {

/// One node of an explicit graph as a forward and a backward operator; `mbs` samples.
OperatorGraph node_graph(const GraphNode& node, std::int64_t mbs) {
    const auto samples = static_cast<double>(mbs);
    const Bytes weights(2 * node.parameters);
    BlockBuilder builder;
    Operator forward;
    forward.name = node.name;
    forward.kind = node.matrix ? OperatorKind::generic : OperatorKind::elementwise;
    forward.flops = node.forward_flops * samples;
    forward.read = node.reads * samples + weights;
    forward.written = node.writes * samples;
    forward.parameters = node.parameters;
    forward.saved = node.saved * samples;
    Operator backward = forward;
    backward.name += ".gradient";
    backward.flops = node.backward_flops * samples;
    // Backward reads the saved input and the output's gradient and writes the input's gradient; a weight gradient is
    // accumulated in fp32 (8 bytes per parameter).
    backward.read = (node.reads + node.writes) * samples + weights;
    backward.written = node.reads * samples + Bytes(8 * node.parameters);
    backward.parameters = 0;
    if (node.backward_flops > Flops(0)) backward.weight_share = node.weight_flops / node.backward_flops;
    backward.saved = Bytes(0);
    builder.add(forward, {backward}, {}, node.output * samples);
    return builder.finish();
}

/// Everything that is alive between unit `index` and the next one in the linear order: each producer once, whatever
/// the number of its later consumers.
Bytes cut_bytes(const ExplicitGraph& graph, std::int64_t index) {
    std::set<int> producers;
    for (const auto& [from, to] : graph.edges)
        if (from <= index && to > index) producers.insert(from);
    Bytes total;
    for (const int producer : producers)
        total += graph.nodes[static_cast<std::size_t>(producer)].output;
    return total;
}

}  // namespace

std::string_view name_of(BlockKind kind) {
    switch (kind) {
        case BlockKind::embedding:
            return "embedding";
        case BlockKind::layer:
            return "layer";
        case BlockKind::head:
            return "head";
        case BlockKind::node:
            return "node";
    }
    return "?";
}

BlockKind block_kind(const Workload& workload, std::int64_t chain_index) {
    if (!workload.transformer) return BlockKind::node;
    if (chain_index == 0) return BlockKind::embedding;
    return chain_index == workload.transformer->all_layers() + 1 ? BlockKind::head : BlockKind::layer;
}

std::int64_t block_class(const Workload& workload, std::int64_t chain_index) {
    if (!workload.transformer) return chain_index;
    const Transformer& model = *workload.transformer;
    const std::int64_t layer = chain_index - 1;
    const bool is_layer = block_kind(workload, chain_index) == BlockKind::layer;
    return static_cast<std::int64_t>(block_kind(workload, chain_index)) +
           (is_layer && model.is_mixture(layer) ? 8 : 0) + (is_layer && model.slides(layer) ? 16 : 0);
}

Shard shard_of(const Plan& plan, const Software& software) {
    Shard shard;
    shard.tp = plan.tp;
    shard.cp = plan.cp;
    shard.mbs = plan.mbs;
    shard.sequence_parallel = plan.sequence_parallel;
    shard.attention = software.attention;
    shard.dropout = software.dropout;
    shard.ep = plan.ep;
    shard.etp = plan.etp;
    shard.frozen = plan.lora > 0;
    shard.norm_copy_bytes = software.norm_copy_bytes;
    shard.fused_activation = software.fused_activation;
    shard.score_bytes = software.score_bytes;
    shard.cp_all_to_all = plan.cp > 1 && plan.cp_exchange == ContextExchange::all_to_all;
    return shard;
}

Block build_block(const Workload& workload, std::int64_t chain_index, const Shard& shard) {
    Block block;
    block.kind = block_kind(workload, chain_index);
    if (block.kind == BlockKind::node) {
        const GraphNode& node = workload.graph->nodes[static_cast<std::size_t>(chain_index)];
        block.name = node.name;
        block.graph = node_graph(node, shard.mbs);
        block.boundary = cut_bytes(*workload.graph, chain_index) * static_cast<double>(shard.mbs);
    } else {
        block.name = block.kind == BlockKind::layer ? "layer" + std::to_string(chain_index - 1)
                                                    : std::string(name_of(block.kind));
        block.graph = block.kind == BlockKind::layer  ? layer_graph(workload, chain_index - 1, shard)
                      : block.kind == BlockKind::head ? head_graph(workload, shard)
                                                      : embedding_graph(workload, shard);
        block.boundary = Bytes(2 * shard.mbs * workload.seq / shard.cp * workload.transformer->hidden);
    }
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph))) {
        const Operator& op = block.graph[vertex];
        block.parameters += op.parameters;
        if (op.expert) block.expert_parameters += op.parameters;
        block.adapter += op.adapter;
    }
    return block;
}

ModelTotals model_totals(const Workload& workload) {
    ModelTotals totals;
    const auto tokens = static_cast<double>(workload.seq);
    double forward = 0;
    double training = 0;
    double saved = 0;
    for (std::int64_t index = 0; index < workload.chain_length(); ++index) {
        const Block block = build_block(workload, index, Shard{});
        totals.parameters += block.parameters;
        for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph))) {
            const Operator& op = block.graph[vertex];
            saved += op.saved.as_double();
            if (op.pass == Pass::forward) forward += op.flops.value();
            training += op.flops.value();
        }
    }
    totals.active_parameters = totals.parameters;
    if (workload.transformer) {
        const Transformer& model = *workload.transformer;
        training = 3 * forward;  // not the scores that a fused attention kernel computes twice
        totals.active_parameters -=
            model.mixtures() * (model.experts - model.top_k) * model.hidden * model.ffn * (model.gated ? 3 : 2);
    }
    totals.forward_flops_per_token = Flops(forward / tokens);
    totals.training_flops_per_token = Flops(training / tokens);
    totals.activations_per_token = Bytes::rounded(saved / tokens);
    return totals;
}

}  // namespace plansim
