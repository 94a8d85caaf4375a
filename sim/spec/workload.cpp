// SPDX-License-Identifier: Apache-2.0
#include "sim/spec/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <queue>

#include "sim/spec/yaml_writer.hpp"

namespace plansim {
namespace {

constexpr std::array<std::pair<std::string_view, Norm>, 2> kNorms{
    {{"rmsnorm", Norm::rmsnorm}, {"layernorm", Norm::layernorm}}};
constexpr std::array<std::pair<std::string_view, Positions>, 3> kPositions{
    {{"rotary", Positions::rotary}, {"learned", Positions::learned}, {"none", Positions::none}}};
constexpr std::array<std::pair<std::string_view, Optimizer>, 2> kOptimizers{
    {{"adam", Optimizer::adam}, {"sgd", Optimizer::sgd}}};
constexpr std::array<std::pair<std::string_view, Precision>, 5> kTrainingPrecisions{{{"bf16", Precision::bf16},
                                                                                     {"fp16", Precision::fp16},
                                                                                     {"fp8", Precision::fp8},
                                                                                     {"mxfp8", Precision::mxfp8},
                                                                                     {"fp4", Precision::fp4}}};

constexpr Range kSize{1, 1e12};
// Far above every real model, and low enough that no product of sizes leaves 64 bits.
constexpr double kMostParameters = 1e15;
constexpr double kMostElements = 1e17;  // of the widest tensor of a global batch

/// Parameters, roughly, in floating point: the exact count could leave 64 bits.
double rough_parameters(const Transformer& model) {
    const auto number = [](std::int64_t value) { return static_cast<double>(value); };
    const double hidden = number(model.hidden);
    const double heads = number(model.heads) + 2 * number(model.kv_heads);
    const double matrices =
        number(std::max<std::int64_t>(1, model.experts) + model.shared_experts) * (model.gated ? 3 : 2);
    const double layer =
        hidden * (4 + number(model.head_dim) * (heads + number(model.heads)) + matrices * number(model.ffn));
    const double tables = number(2 * model.vocab + model.max_positions + model.token_types) + hidden;
    return number(model.layers) * layer + tables * hidden;
}

void check_size(const Reader& document, const Workload& workload) {
    double parameters = 0;
    if (workload.transformer) parameters = rough_parameters(*workload.transformer);
    if (workload.graph)
        for (const GraphNode& node : workload.graph->nodes)
            parameters += static_cast<double>(node.parameters);
    if (parameters > kMostParameters)
        document.fail(
            workload.transformer ? "transformer" : "graph",
            fmt::format("about {:.1e} parameters; more than {:.0e} are not supported", parameters, kMostParameters));
    if (const auto problem = batch_problem(workload, workload.gbs)) document.fail("gbs", *problem);
}

void check_attention(const Reader& map, const Transformer& model) {
    if (model.kv_heads > model.heads || (model.kv_heads > 0 && model.heads % model.kv_heads != 0))
        map.fail("kv_heads",
                 fmt::format("{} heads cannot share {} key/value heads evenly", model.heads, model.kv_heads),
                 "kv_heads must divide heads");
    if (model.dense_layers > model.layers)
        map.fail("dense_layers", fmt::format("{} of {} layers cannot be dense", model.dense_layers, model.layers));
    if (model.experts > 0 && model.top_k > model.experts)
        map.fail("top_k", fmt::format("a token cannot visit {} of {} experts", model.top_k, model.experts));
}

LatentAttention read_latent(Reader map) {
    LatentAttention latent;
    latent.query_rank = map.integer_or("query_rank", 0, Range{0, 1e6});
    latent.key_value_rank = map.integer("key_value_rank", Range{1, 1e6});
    latent.nope_dim = map.integer("nope_dim", Range{1, 1e6});
    latent.rope_dim = map.integer("rope_dim", Range{0, 1e6});
    latent.value_dim = map.integer("value_dim", Range{1, 1e6});
    map.finish();
    return latent;
}

/// How unevenly tokens choose their experts.
void read_routing(Reader& map, Transformer& model) {
    model.capacity_factor = map.number_or("capacity_factor", 0, Range{0, 1e6});
    model.routing_skew = map.number_or("routing_skew", 0, Range{0, 10});
    if (!map.has("expert_loads")) return;
    model.expert_loads = map.integers("expert_loads", Range{0, 1e12});
    if (map.has("routing_skew"))
        map.fail("expert_loads", "loads are given twice: one by one, and by routing_skew", "leave one of them out");
    else if (static_cast<std::int64_t>(model.expert_loads.size()) != model.experts)
        map.fail("expert_loads", fmt::format("{} loads for {} experts", model.expert_loads.size(), model.experts));
    else if (std::all_of(model.expert_loads.begin(), model.expert_loads.end(), [](auto load) { return load == 0; }))
        map.fail("expert_loads", "no expert has any load");
}

Transformer read_transformer(Reader map, std::int64_t seq) {
    Transformer model;
    model.layers = map.integer("layers", Range{1, 100000});
    model.hidden = map.integer("hidden", kSize);
    model.heads = map.integer("heads", Range{1, 1e6});
    model.kv_heads = map.integer_or("kv_heads", model.heads, Range{1, 1e6});
    if (map.has("head_dim")) {
        model.head_dim = map.integer("head_dim", Range{1, 1e6});
    } else if (model.heads > 0 && model.hidden % model.heads != 0) {
        map.fail("heads", fmt::format("hidden {} is not divisible by {} heads", model.hidden, model.heads),
                 "or give head_dim");
    } else if (model.heads > 0) {
        model.head_dim = model.hidden / model.heads;
    }
    model.ffn = map.integer("ffn", kSize);
    model.gated = map.flag("gated");
    model.experts = map.integer_or("experts", 0, Range{0, 1e6});
    if (model.experts > 0) {
        model.top_k = map.integer("top_k", Range{1, 1e6});
        model.shared_experts = map.integer_or("shared_experts", 0, Range{0, 1e6});
        model.dense_layers = map.integer_or("dense_layers", 0, Range{0, 100000});
        model.moe_period = map.integer_or("moe_period", 1, Range{1, 100000});
        read_routing(map, model);
        if (model.dense_layers > 0 || model.moe_period > 1) model.dense_ffn = map.integer("dense_ffn", kSize);
    }
    model.vocab = map.integer("vocab", kSize);
    model.tied_embeddings = map.flag_or("tied_embeddings", false);
    model.positions = map.one_of_or<Positions>("positions", kPositions, Positions::rotary);
    if (model.positions == Positions::learned) model.max_positions = map.integer_or("max_positions", seq, kSize);
    model.norm = map.one_of_or<Norm>("norm", kNorms, Norm::rmsnorm);
    model.final_norm = map.flag_or("final_norm", true);
    model.embedding_norm = map.flag_or("embedding_norm", false);
    model.qkv_bias = map.flag_or("qkv_bias", false);
    model.output_bias = map.flag_or("output_bias", false);
    model.ffn_bias = map.flag_or("ffn_bias", false);
    model.causal = map.flag_or("causal", true);
    model.token_types = map.integer_or("token_types", 0, Range{0, 1e6});
    model.pooler = map.flag_or("pooler", false);
    model.mtp_layers = map.integer_or("mtp_layers", 0, Range{0, 100});
    if (map.has("latent_attention")) model.latent = read_latent(map.map("latent_attention"));
    model.sliding_window = map.integer_or("sliding_window", 0, Range{0, 1e12});
    if (model.sliding_window > 0) model.sliding_period = map.integer_or("sliding_period", 1, Range{1, 100000});
    model.fused_activation = map.flag_or("fused_activation", true);
    check_attention(map, model);
    if (model.max_positions > 0 && model.max_positions < seq)
        map.fail("max_positions", fmt::format("{} positions cannot hold a sequence of {}", model.max_positions, seq));
    map.finish();
    return model;
}

GraphNode read_node(Reader map) {
    GraphNode node;
    node.name = map.text("name");
    node.matrix = map.flag_or("matrix", true);
    node.parameters = map.integer_or("parameters", 0, Range::not_negative());
    node.forward_flops = map.quantity<Flops>("forward_flops", Range::not_negative());
    const double backward = node.matrix || node.parameters > 0 ? 2 : 1;
    node.backward_flops =
        map.quantity_or<Flops>("backward_flops", node.forward_flops * backward, Range::not_negative());
    const double excess = node.backward_flops.value() - node.forward_flops.value();
    node.weight_flops = map.quantity_or<Flops>("weight_flops", Flops(node.parameters > 0 ? std::max(excess, 0.0) : 0),
                                               Range::not_negative());
    if (node.weight_flops > node.backward_flops)
        map.fail("weight_flops", "more than the whole backward pass", "weight_flops are part of backward_flops");
    node.reads = map.quantity<Bytes>("reads", Range::not_negative());
    node.writes = map.quantity<Bytes>("writes", Range::not_negative());
    node.output = map.quantity<Bytes>("output", Range::not_negative());
    node.saved = map.quantity_or<Bytes>("saved", node.output, Range::not_negative());
    map.finish();
    return node;
}

/// Kahn's algorithm that always takes the ready node listed first; reports a cycle by the first node left over.
void sort_topologically(ExplicitGraph& graph, Reader& map) {
    const auto count = graph.nodes.size();
    std::vector<int> incoming(count, 0);
    std::vector<std::vector<int>> successors(count);
    for (const auto& [from, to] : graph.edges) {
        ++incoming[static_cast<std::size_t>(to)];
        successors[static_cast<std::size_t>(from)].push_back(to);
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t node = 0; node < count; ++node)
        if (incoming[node] == 0) ready.push(static_cast<int>(node));
    std::vector<int> order;
    while (!ready.empty()) {
        const int node = ready.top();
        ready.pop();
        order.push_back(node);
        for (const int next : successors[static_cast<std::size_t>(node)])
            if (--incoming[static_cast<std::size_t>(next)] == 0) ready.push(next);
    }
    if (order.size() < count) {
        for (std::size_t node = 0; node < count; ++node)
            if (incoming[node] > 0)
                return map.fail("edges", fmt::format("the graph has a cycle through '{}'", graph.nodes[node].name),
                                "an operator graph must be acyclic");
    }
    std::vector<int> position(count);
    std::vector<GraphNode> sorted;
    for (const int node : order) {
        position[static_cast<std::size_t>(node)] = static_cast<int>(sorted.size());
        sorted.push_back(graph.nodes[static_cast<std::size_t>(node)]);
    }
    graph.nodes = std::move(sorted);
    for (auto& [from, to] : graph.edges) {
        from = position[static_cast<std::size_t>(from)];
        to = position[static_cast<std::size_t>(to)];
    }
}

ExplicitGraph read_graph(Reader map) {
    ExplicitGraph graph;
    std::map<std::string, int> index;
    std::vector<std::string> names;
    for (Reader& entry : map.maps("nodes")) {
        GraphNode node = read_node(entry);
        if (!index.emplace(node.name, static_cast<int>(graph.nodes.size())).second)
            entry.fail("name", fmt::format("a node named '{}' exists already", node.name));
        names.push_back(node.name);
        graph.nodes.push_back(std::move(node));
    }
    if (graph.nodes.empty() && map.is_list("nodes")) map.fail("nodes", "a graph needs at least one node");
    bool complete = true;
    if (map.has("edges"))
        for (Reader& entry : map.maps("edges")) {
            std::pair<int, int> edge;
            for (auto [key, end] : {std::pair{"from", &edge.first}, std::pair{"to", &edge.second}}) {
                const std::string name = entry.text(key);
                const auto found = index.find(name);
                if (found != index.end()) {
                    *end = found->second;
                    continue;
                }
                complete = false;
                const std::string guess = nearest_name(name, names);
                if (!name.empty())
                    entry.fail(key, fmt::format("unknown node '{}'", name),
                               guess.empty() ? "" : fmt::format("did you mean '{}'?", guess));
            }
            entry.finish();
            graph.edges.push_back(edge);
        }
    if (complete) sort_topologically(graph, map);
    map.finish();
    return graph;
}

void write_transformer(YamlWriter& out, const Transformer& model) {
    out.begin("transformer");
    out.integer("layers", model.layers);
    out.integer("hidden", model.hidden);
    out.integer("heads", model.heads);
    out.integer("kv_heads", model.kv_heads);
    out.integer("head_dim", model.head_dim);
    out.integer("ffn", model.ffn);
    out.flag("gated", model.gated);
    out.integer("experts", model.experts);
    if (model.experts > 0) {
        out.integer("top_k", model.top_k);
        out.integer("shared_experts", model.shared_experts);
        out.integer("dense_layers", model.dense_layers);
        out.integer("moe_period", model.moe_period);
        if (model.capacity_factor > 0) out.number("capacity_factor", model.capacity_factor);
        if (model.routing_skew > 0) out.number("routing_skew", model.routing_skew);
        if (!model.expert_loads.empty()) out.integers("expert_loads", model.expert_loads);
        if (model.dense_ffn > 0) out.integer("dense_ffn", model.dense_ffn);
    }
    out.integer("mtp_layers", model.mtp_layers);
    if (model.latent) {
        out.begin("latent_attention");
        out.integer("query_rank", model.latent->query_rank);
        out.integer("key_value_rank", model.latent->key_value_rank);
        out.integer("nope_dim", model.latent->nope_dim);
        out.integer("rope_dim", model.latent->rope_dim);
        out.integer("value_dim", model.latent->value_dim);
        out.end();
    }
    out.integer("sliding_window", model.sliding_window);
    if (model.sliding_window > 0) out.integer("sliding_period", model.sliding_period);
    out.flag("fused_activation", model.fused_activation);
    out.integer("vocab", model.vocab);
    out.flag("tied_embeddings", model.tied_embeddings);
    for (const auto& [name, value] : kPositions)
        if (value == model.positions) out.text("positions", name);
    if (model.positions == Positions::learned) out.integer("max_positions", model.max_positions);
    for (const auto& [name, value] : kNorms)
        if (value == model.norm) out.text("norm", name);
    out.flag("final_norm", model.final_norm);
    out.flag("embedding_norm", model.embedding_norm);
    out.flag("qkv_bias", model.qkv_bias);
    out.flag("output_bias", model.output_bias);
    out.flag("ffn_bias", model.ffn_bias);
    out.flag("causal", model.causal);
    out.integer("token_types", model.token_types);
    out.flag("pooler", model.pooler);
    out.end();
}

void write_graph(YamlWriter& out, const ExplicitGraph& graph) {
    out.begin("graph");
    out.begin("nodes");
    for (const auto& node : graph.nodes)
        out.item(
            fmt::format("{{name: {}, matrix: {}, forward_flops: {}, backward_flops: {}, weight_flops: {}, reads: {}, "
                        "writes: {}, parameters: {}, output: {}, saved: {}}}",
                        YamlWriter::quoted(node.name), node.matrix, to_text(node.forward_flops),
                        to_text(node.backward_flops), to_text(node.weight_flops), to_text(node.reads),
                        to_text(node.writes), node.parameters, to_text(node.output), to_text(node.saved)));
    out.end();
    if (!graph.edges.empty()) {
        out.begin("edges");
        for (const auto& [from, to] : graph.edges)
            out.item(fmt::format("{{from: {}, to: {}}}",
                                 YamlWriter::quoted(graph.nodes[static_cast<std::size_t>(from)].name),
                                 YamlWriter::quoted(graph.nodes[static_cast<std::size_t>(to)].name)));
        out.end();
    }
    out.end();
}

}  // namespace

double Transformer::busiest_rank_load(std::int64_t ep) const {
    if (capacity_factor > 0) return capacity_factor;
    std::vector<double> loads(expert_loads.begin(), expert_loads.end());
    std::vector<double> ranks(static_cast<std::size_t>(ep));
    const bool dealt = loads.empty();
    for (std::int64_t expert = 0; dealt && expert < experts; ++expert)
        loads.push_back(std::pow(static_cast<double>(expert + 1), -routing_skew));
    for (std::size_t expert = 0; expert < loads.size(); ++expert)
        ranks[dealt ? expert % ranks.size() : expert * ranks.size() / loads.size()] += loads[expert];
    const double sum = std::accumulate(ranks.begin(), ranks.end(), 0.0);
    return std::max(1.0, *std::max_element(ranks.begin(), ranks.end()) * static_cast<double>(ep) / sum);
}

Workload read_workload(Reader document) {
    Workload workload;
    document.integer("format", Range{1, 1});
    workload.name = document.text("name");
    workload.gbs = document.integer("gbs", Range{1, kMostSamples});
    workload.dtype = document.one_of_or<Precision>("dtype", kTrainingPrecisions, Precision::bf16);
    workload.optimizer = document.one_of_or<Optimizer>("optimizer", kOptimizers, Optimizer::adam);
    const bool is_graph = document.has("graph");
    if (is_graph == document.has("transformer")) {
        document.fail(is_graph ? "graph" : "", "a workload is either a transformer or a graph",
                      is_graph ? "remove one of the two" : "add the key 'transformer' or 'graph'");
        document.problems().throw_if_any();
    }
    workload.seq = is_graph ? document.integer_or("seq", 1, kSize) : document.integer("seq", kSize);
    if (is_graph)
        workload.graph = read_graph(document.map("graph"));
    else
        workload.transformer = read_transformer(document.map("transformer"), workload.seq);
    check_size(document, workload);
    document.finish();
    return workload;
}

std::optional<std::string> batch_problem(const Workload& workload, std::int64_t gbs) {
    double width = 1;
    if (workload.transformer) {
        const Transformer& model = *workload.transformer;
        const auto number = [](std::int64_t value) { return static_cast<double>(value); };
        const double copies = std::max(1.0, number(model.top_k + model.shared_experts));
        const double attention =
            number(model.heads + 2 * std::max(model.heads, model.kv_heads)) * number(model.head_dim);
        width =
            std::max({number(model.hidden) * copies, 2 * number(model.ffn) * copies, number(model.vocab), attention});
    }
    const double elements = static_cast<double>(workload.seq) * static_cast<double>(gbs) * width;
    if (elements <= kMostElements) return std::nullopt;
    return fmt::format("a batch of {} samples has a tensor of {:.1e} elements; more than {:.0e} are not supported", gbs,
                       elements, kMostElements);
}

std::string to_yaml(const Workload& workload) {
    YamlWriter out;
    out.integer("format", 1);
    out.text("name", workload.name);
    out.integer("seq", workload.seq);
    out.integer("gbs", workload.gbs);
    out.text("dtype", name_of(workload.dtype));
    out.text("optimizer", workload.optimizer == Optimizer::adam ? "adam" : "sgd");
    if (workload.transformer)
        write_transformer(out, *workload.transformer);
    else
        write_graph(out, *workload.graph);
    return out.str();
}

}  // namespace plansim
