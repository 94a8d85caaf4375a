// SPDX-License-Identifier: Apache-2.0
// The units of a transformer. Notation: T tokens of one microbatch on one rank, Tn tokens that norms and residuals see
// (T / tp with sequence parallelism), 2 bytes per activation.
//
// Traffic (least bytes, before the framework's multiplier): a norm reads and writes its tensor, backward it reads two
// and writes one with the statistics (5 passes in all); a residual addition reads two and writes one (3 passes each
// way); rotary embedding reads and writes q, k, v (backward with the transposes 1.5 times that); an activation reads w
// tensors and writes one, backward reads w + 1 and writes w (w = 2 if gated).
// Memory: what each operator keeps for its backward pass; see sim/cost/README.md for what measured peaks say of it.
#include "sim/graph/transformer.hpp"

#include <algorithm>

#include "sim/graph/builder.hpp"

namespace plansim {
namespace {

using Vertex = BlockBuilder::Vertex;

/// The sizes that every operator of a layer is made of.
struct Sizes {
    const Transformer& model;
    const Shard& shard;
    std::int64_t tokens;     // T
    double norm_tokens;      // Tn
    std::int64_t query;      // width of q on one rank
    std::int64_t key_value;  // width of k and v together on one rank
    Bytes hidden_tensor;     // T x hidden

    Sizes(const Workload& workload, const Shard& s) : model(*workload.transformer), shard(s) {
        tokens = s.mbs * workload.seq / s.cp;
        norm_tokens = static_cast<double>(tokens) / static_cast<double>(s.sequence_parallel ? s.tp : 1);
        query = model.heads * model.head_dim / s.tp;
        // Fewer key/value heads than ranks: every rank keeps a copy of one.
        key_value = 2 * std::max(model.kv_heads, s.tp) * model.head_dim / s.tp;
        hidden_tensor = Bytes(2 * tokens * model.hidden);
    }
    [[nodiscard]] double norm_bytes() const { return 2 * norm_tokens * static_cast<double>(model.hidden); }
    [[nodiscard]] std::int64_t norm_parameters() const {
        return model.norm == Norm::rmsnorm ? model.hidden : 2 * model.hidden;
    }
};

Vertex add_norm(BlockBuilder& builder, const std::string& name, const Sizes& sizes, const std::vector<Vertex>& inputs) {
    const double pass = sizes.norm_bytes();
    const auto norm = builder.elementwise(name, 2 * pass, 5 * pass, sizes.norm_parameters(), 2 * pass, inputs);
    builder.quantise(norm, static_cast<std::int64_t>(sizes.norm_tokens) * sizes.model.hidden, 0);
    return norm;
}

Vertex add_residual(BlockBuilder& builder, const std::string& name, const Sizes& sizes,
                    const std::vector<Vertex>& inputs) {
    const double pass = sizes.norm_bytes();
    const double dropout_masks =
        sizes.shard.dropout ? 1.5 * pass / 2 : 0;  // one byte per element, and its share of slack
    return builder.elementwise(name, 3 * pass, 3 * pass, 0, dropout_masks, inputs);
}

/// Enters a tensor-parallel region: nothing to do forward without sequence parallelism, an all-gather with it.
Vertex enter(BlockBuilder& builder, const std::string& name, const Sizes& sizes, Vertex input) {
    if (sizes.shard.tp == 1) return input;
    if (sizes.shard.sequence_parallel)
        return builder.collective(name + ".all_gather", CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                  sizes.hidden_tensor, {input});
    return input;
}

/// Leaves it: all-reduce of the partial sums, or a reduce-scatter with sequence parallelism.
Vertex leave(BlockBuilder& builder, const std::string& name, const Sizes& sizes, Vertex input) {
    if (sizes.shard.tp == 1) return input;
    if (sizes.shard.sequence_parallel)
        return builder.collective(name + ".reduce_scatter", CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
                                  sizes.hidden_tensor, {input});
    Operator forward;
    forward.name = name + ".all_reduce";
    forward.kind = OperatorKind::collective;
    forward.size = sizes.hidden_tensor;
    return builder.add(forward, {}, {input}, sizes.hidden_tensor);
}

/// Without sequence parallelism the gradient of the region's input is summed over the ranks.
void sum_input_gradient(BlockBuilder& builder, const std::string& name, const Sizes& sizes, Vertex first_product) {
    if (sizes.shard.tp > 1 && !sizes.shard.sequence_parallel)
        builder.backward_collective(name + ".gradient.all_reduce", CollectiveKind::all_reduce, sizes.hidden_tensor,
                                    first_product);
}

Vertex add_attention_core(BlockBuilder& builder, const Workload& workload, const Sizes& sizes, Vertex input) {
    const Transformer& model = sizes.model;
    const Shard& shard = sizes.shard;
    const bool fused = shard.attention == AttentionImplementation::fused;
    const double sequence = static_cast<double>(workload.seq);
    const std::int64_t heads = model.heads / shard.tp;
    const double scores = static_cast<double>(sizes.tokens) * sequence * static_cast<double>(heads);
    const double products =
        4 * scores * static_cast<double>(model.head_dim);  // q k^T and p v, two FLOPs a multiply-add
    Operator forward;
    forward.name = "attention.core";
    forward.kind = OperatorKind::attention;
    forward.shape = {shard.mbs * heads, workload.seq / shard.cp, workload.seq, model.head_dim};
    forward.flops = Flops(fused && model.causal ? products / 2 : products);
    forward.read = Bytes(2 * sizes.tokens * (sizes.query + sizes.key_value));
    forward.written = Bytes(2 * sizes.tokens * sizes.query);
    Operator backward = forward;
    backward.name += ".gradient";
    backward.flops = forward.flops * (fused ? 2.5 : 2);  // a fused kernel computes the scores once more
    forward.saved = Bytes(2 * sizes.tokens * sizes.query);
    if (!fused) {
        // Softmax output, its dropout mask and dropped copy: 5 bytes per score (Korthikanti et al. 2022).
        forward.recomputable = Bytes::rounded(5 * scores);
        forward.saved += forward.recomputable;
        forward.read += Bytes::rounded(5.5 * scores);  // 11 passes over the scores forward, 19 backward
        forward.written += Bytes::rounded(5.5 * scores);
        backward.read += Bytes::rounded(9.5 * scores);
        backward.written += Bytes::rounded(9.5 * scores);
    }
    const auto core = builder.add(forward, {backward}, {input}, Bytes(2 * sizes.tokens * sizes.query));
    builder.quantise(core, sizes.tokens * sizes.query, sizes.tokens * model.hidden);
    return core;
}

/// Context parallelism: every rank attends its queries to the keys and values of the whole sequence. Backward they are
/// gathered once more and their gradients reduced. A ring passes the same volume (Liu et al. 2023).
Vertex gather_keys(BlockBuilder& builder, const Workload& workload, const Sizes& sizes, Vertex input) {
    if (sizes.shard.cp == 1) return input;
    const Bytes keys_and_values(2 * sizes.shard.mbs * workload.seq * sizes.key_value);
    const Vertex gathered = builder.collective("attention.keys.all_gather", CollectiveKind::all_gather,
                                               CollectiveKind::reduce_scatter, keys_and_values, {input}, Axis::cp);
    builder.backward_collective("attention.keys.gradient.all_gather", CollectiveKind::all_gather, keys_and_values,
                                gathered, Axis::cp);
    return gathered;
}

Vertex add_attention(BlockBuilder& builder, const Workload& workload, const Sizes& sizes, Vertex input) {
    const Transformer& model = sizes.model;
    const std::int64_t qkv_width = sizes.query + sizes.key_value;
    const Vertex norm = add_norm(builder, "attention.norm", sizes, {input});
    const Vertex entered = enter(builder, "attention", sizes, norm);
    const Vertex qkv = builder.gemm("attention.qkv", {1, sizes.tokens, qkv_width, model.hidden},
                                    model.qkv_bias ? qkv_width : 0, {entered});
    sum_input_gradient(builder, "attention", sizes, qkv);
    const double qkv_bytes = 2.0 * static_cast<double>(sizes.tokens * qkv_width);
    const Vertex rotary =
        builder.elementwise("attention.rotary", 2 * qkv_bytes, 3 * qkv_bytes, 0, 1.5 * qkv_bytes, {qkv});
    builder.quantise(rotary, 0, sizes.tokens * qkv_width);
    const Vertex core = add_attention_core(builder, workload, sizes, gather_keys(builder, workload, sizes, rotary));
    const Vertex output = builder.gemm("attention.output", {1, sizes.tokens, model.hidden, sizes.query},
                                       model.output_bias ? model.hidden : 0, {core});
    return add_residual(builder, "attention.residual", sizes, {input, leave(builder, "attention", sizes, output)});
}

Vertex add_dense_products(BlockBuilder& builder, const std::string& name, std::int64_t ffn, const Sizes& sizes,
                          Vertex input, bool sums_gradient = true) {
    const Transformer& model = sizes.model;
    const std::int64_t width = ffn / sizes.shard.tp;
    const std::int64_t gates = model.gated ? 2 : 1;
    const double bytes = 2.0 * static_cast<double>(sizes.tokens * width);
    const Vertex up = builder.gemm(name + ".up", {1, sizes.tokens, gates * width, model.hidden},
                                   model.ffn_bias ? gates * width : 0, {input});
    if (sums_gradient) sum_input_gradient(builder, name, sizes, up);
    const auto w = static_cast<double>(gates);
    const Vertex activation =
        builder.elementwise(name + ".activation", (w + 1) * bytes, (2 * w + 1) * bytes, 0, 2 * w * bytes, {up});
    builder.quantise(activation, sizes.tokens * width, sizes.tokens * gates * width);
    const Vertex down = builder.gemm(name + ".down", {1, sizes.tokens, model.hidden, width},
                                     model.ffn_bias ? model.hidden : 0, {activation});
    builder.quantise(down, 0, sizes.tokens * model.hidden);
    return down;
}

Vertex add_experts(BlockBuilder& builder, const Sizes& sizes, Vertex input) {
    const Transformer& model = sizes.model;
    const std::int64_t width = model.ffn / sizes.shard.tp;
    const std::int64_t gates = model.gated ? 2 : 1;
    const std::int64_t copies = sizes.tokens * model.top_k;
    const std::int64_t per_expert = (copies + model.experts - 1) / model.experts;  // balanced routing
    const double copy_bytes = 2.0 * static_cast<double>(copies * model.hidden);
    const double act_bytes = 2.0 * static_cast<double>(copies * width);
    const auto w = static_cast<double>(gates);
    const Vertex router = builder.gemm("ffn.router", {1, sizes.tokens, model.experts, model.hidden}, 0, {input});
    sum_input_gradient(builder, "ffn", sizes, router);
    const Vertex permute = builder.elementwise("ffn.permute", 3 * copy_bytes, 4 * copy_bytes, 0, copy_bytes, {router});
    const Vertex up = builder.gemm("ffn.experts.up", {model.experts, per_expert, gates * width, model.hidden},
                                   model.ffn_bias ? gates * width : 0, {permute});
    const Vertex activation = builder.elementwise("ffn.experts.activation", (w + 1) * act_bytes,
                                                  (2 * w + 1) * act_bytes, 0, 2 * w * act_bytes, {up});
    builder.quantise(activation, copies * width, copies * gates * width);
    const Vertex down = builder.gemm("ffn.experts.down", {model.experts, per_expert, model.hidden, width},
                                     model.ffn_bias ? model.hidden : 0, {activation});
    const Vertex unpermute =
        builder.elementwise("ffn.unpermute", 3 * copy_bytes, 4 * copy_bytes, 0, copy_bytes, {down});
    if (model.shared_experts == 0) return unpermute;
    const Vertex shared =
        add_dense_products(builder, "ffn.shared", model.shared_experts * model.ffn, sizes, input, false);
    return builder.elementwise("ffn.sum", 3 * copy_bytes / static_cast<double>(model.top_k), 0, 0, 0,
                               {unpermute, shared});
}

OperatorGraph layer_graph(const Workload& workload, const Shard& shard) {
    const Sizes sizes(workload, shard);
    BlockBuilder builder;
    Operator input;
    input.name = "input";
    const Vertex source = builder.add(input, {}, {}, sizes.hidden_tensor);
    const Vertex attended = add_attention(builder, workload, sizes, source);
    const Vertex norm = add_norm(builder, "ffn.norm", sizes, {attended});
    const Vertex entered = enter(builder, "ffn", sizes, norm);
    const Vertex products = sizes.model.experts > 0
                                ? add_experts(builder, sizes, entered)
                                : add_dense_products(builder, "ffn", sizes.model.ffn, sizes, entered);
    // The saved input is kept in shares: it is gathered once more for the weight gradient.
    if (shard.tp > 1 && shard.sequence_parallel)
        builder.backward_collective("ffn.input.all_gather", CollectiveKind::all_gather, sizes.hidden_tensor, products);
    add_residual(builder, "ffn.residual", sizes, {attended, leave(builder, "ffn", sizes, products)});
    return builder.finish();
}

OperatorGraph embedding_graph(const Workload& workload, const Shard& shard) {
    const Sizes sizes(workload, shard);
    const Transformer& model = sizes.model;
    BlockBuilder builder;
    const double tensor = sizes.hidden_tensor.as_double();
    const std::int64_t table = (model.vocab + shard.tp - 1) / shard.tp * model.hidden;  // padded to the ranks
    const std::int64_t positions = model.positions == Positions::learned ? model.max_positions * model.hidden : 0;
    // Forward reads a row and writes it; backward reads the gradient and updates the row in fp32: 12 bytes per element.
    Vertex last =
        builder.elementwise("embedding", 2 * tensor, 4 * tensor, table + positions + model.token_types * model.hidden,
                            0, {}, OperatorKind::embedding);
    if (shard.tp > 1)
        last = shard.sequence_parallel ? builder.collective("embedding.reduce_scatter", CollectiveKind::reduce_scatter,
                                                            CollectiveKind::all_gather, sizes.hidden_tensor, {last})
                                       : leave(builder, "embedding", sizes, last);
    if (model.embedding_norm) add_norm(builder, "embedding.norm", sizes, {last});
    return builder.finish();
}

OperatorGraph head_graph(const Workload& workload, const Shard& shard) {
    const Sizes sizes(workload, shard);
    const Transformer& model = sizes.model;
    const std::int64_t vocab = (model.vocab + shard.tp - 1) / shard.tp;
    BlockBuilder builder;
    Operator input;
    input.name = "input";
    Vertex last = builder.add(input, {}, {}, sizes.hidden_tensor);
    if (model.final_norm) last = add_norm(builder, "head.norm", sizes, {last});
    last = enter(builder, "head", sizes, last);
    last = builder.gemm("head.logits", {1, sizes.tokens, vocab, model.hidden}, 0, {last}, true);
    if (model.tied_embeddings) builder.at(last).parameters = 0;
    sum_input_gradient(builder, "head", sizes, last);
    // Cross entropy: 24 bytes per logit forward and backward together (fp32 logits, softmax, gradient).
    const auto logits = static_cast<double>(sizes.tokens * vocab);
    last = builder.elementwise("head.loss", 8 * logits, 16 * logits, 0, 0, {last}, OperatorKind::loss);
    if (model.pooler)
        builder.gemm("head.pooler", {1, shard.mbs, model.hidden, model.hidden}, model.hidden, {last}, true);
    return builder.finish();
}

}  // namespace

OperatorGraph transformer_graph(const Workload& workload, BlockKind kind, const Shard& shard) {
    if (kind == BlockKind::embedding) return embedding_graph(workload, shard);
    if (kind == BlockKind::head) return head_graph(workload, shard);
    return layer_graph(workload, shard);
}

}  // namespace plansim
