// SPDX-License-Identifier: Apache-2.0
// The units of a transformer. Notation: T tokens of one microbatch on one rank, Tn tokens that norms and residuals see
// (T / tp with sequence parallelism), 2 bytes per activation.
//
// Traffic (least bytes, before the framework's multiplier): a norm reads and writes its tensor, backward it reads two
// and writes one with the statistics (5 passes in all); a residual addition reads two and writes one (3 passes each
// way); rotary embedding reads and writes q, k, v (backward with the transposes 1.5 times that); an activation reads w
// tensors and writes one, backward reads w + 1 and writes w (w = 2 if gated). Bringing tokens to
// experts reads and writes every copy; on a rank with several experts those that arrive are sorted by expert once more,
// and back; the way back to the tokens reads the copies and writes their sum. Backward the same in reverse.
// Memory: what each operator keeps for its backward pass (Korthikanti et al. 2022): a norm its input and its output,
// from which the next product takes its weight gradient; attention q, k, v and its output; an activation its inputs and
// its output; residuals a dropout mask. See sim/cost/README.md for what measured peaks say of it.
#include "sim/graph/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "sim/graph/builder.hpp"

namespace plansim {
namespace {

using Vertex = BlockBuilder::Vertex;

// An activation that runs as separate kernels (clamp, bias, product) passes its tensors this much more often: fitted on
// published GPT-OSS runs.
constexpr double kSeparateActivation = 3;

constexpr RecomputeModules modules_of(std::initializer_list<RecomputeModule> list) {
    RecomputeModules bits = 0;
    for (const RecomputeModule module : list)
        bits |= static_cast<unsigned>(module);
    return bits;
}

/// The sizes that every operator of a layer is made of.
struct Sizes {
    const Transformer& model;
    const Shard& shard;
    std::int64_t tokens;     // T
    double norm_tokens;      // Tn
    std::int64_t query;      // width of q on one rank
    std::int64_t key_value;  // width of k and v together on one rank
    std::int64_t context;    // width of what attention puts out on one rank
    std::int64_t head_dim;   // of queries and keys
    std::int64_t value_dim;  // of values
    Bytes hidden_tensor;     // T x hidden

    Sizes(const Workload& workload, const Shard& s) : model(*workload.transformer), shard(s) {
        tokens = s.mbs * workload.seq / s.cp;
        norm_tokens = static_cast<double>(tokens) / static_cast<double>(s.sequence_parallel ? s.tp : 1);
        head_dim = model.latent ? model.latent->nope_dim + model.latent->rope_dim : model.head_dim;
        value_dim = model.latent ? model.latent->value_dim : model.head_dim;
        query = model.heads * head_dim / s.tp;
        // Fewer key/value heads than ranks: every rank keeps a copy of one.
        const std::int64_t kv_heads = model.latent ? model.heads : std::max(model.kv_heads, s.tp);
        key_value = kv_heads * (head_dim + value_dim) / s.tp;
        context = model.heads * value_dim / s.tp;
        hidden_tensor = Bytes(2 * tokens * model.hidden);
    }
    [[nodiscard]] double norm_bytes() const { return 2 * norm_tokens * static_cast<double>(model.hidden); }
    [[nodiscard]] std::int64_t norm_parameters() const {
        return model.norm == Norm::rmsnorm ? model.hidden : 2 * model.hidden;
    }
};

Vertex add_norm(BlockBuilder& builder, const std::string& name, const Sizes& sizes, const std::vector<Vertex>& inputs) {
    const double pass = sizes.norm_bytes();
    const auto elements = static_cast<std::int64_t>(sizes.norm_tokens) * sizes.model.hidden;
    builder.modules(modules_of({RecomputeModule::layernorm, RecomputeModule::elementwise}));
    const double copies = sizes.shard.norm_copy_bytes * static_cast<double>(elements);
    const auto norm = builder.elementwise(name, 2 * pass, 5 * pass, sizes.norm_parameters(), 2 * pass + copies, inputs,
                                          OperatorKind::norm, elements);
    builder.at(norm).recomputable = Bytes::rounded(pass + copies);  // its output; the input is kept
    builder.quantise(norm, elements, 0);
    builder.modules(0);
    return norm;
}

Vertex add_residual(BlockBuilder& builder, const std::string& name, const Sizes& sizes,
                    const std::vector<Vertex>& inputs) {
    const double pass = sizes.norm_bytes();
    const double dropout_masks = sizes.shard.dropout ? pass / 2 : 0;  // one byte per element
    builder.modules(modules_of({RecomputeModule::elementwise}));
    const auto residual = builder.elementwise(name, 3 * pass, 3 * pass, 0, dropout_masks, inputs);
    builder.modules(0);
    return residual;
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

/// Keys that a query sees on average, of `seq`: a causal mask halves them, a window cuts them off.
double visible_keys(const Workload& workload, std::int64_t layer, bool skips_masked) {
    const Transformer& model = *workload.transformer;
    const auto sequence = static_cast<double>(workload.seq);
    if (!skips_masked || !model.causal) return sequence;
    const double window = static_cast<double>(model.sliding_window);
    if (!model.slides(layer) || window >= sequence) return sequence / 2;
    return window - window * window / (2 * sequence);
}

Vertex add_attention_core(BlockBuilder& builder, const Workload& workload, std::int64_t layer, const Sizes& sizes,
                          Vertex input) {
    const Transformer& model = sizes.model;
    const Shard& shard = sizes.shard;
    const bool fused = shard.attention == AttentionImplementation::fused;
    const double sequence = static_cast<double>(workload.seq);
    const std::int64_t heads = model.heads / shard.tp;
    const double scores = static_cast<double>(sizes.tokens) * sequence * static_cast<double>(heads);
    // q k^T and p v, two FLOPs a multiply-add; a fused kernel skips what the mask hides.
    const double products = 2 * static_cast<double>(sizes.tokens) * visible_keys(workload, layer, fused) *
                            static_cast<double>(heads) * static_cast<double>(sizes.head_dim + sizes.value_dim);
    Operator forward;
    forward.name = "attention.core";
    forward.kind = OperatorKind::attention;
    const std::int64_t queries = shard.cp_all_to_all ? workload.seq : workload.seq / shard.cp;
    forward.shape = {sizes.tokens * heads / queries, queries, workload.seq, sizes.head_dim};
    forward.flops = Flops(products);
    forward.read = Bytes(2 * sizes.tokens * (sizes.query + sizes.key_value));
    forward.written = Bytes(2 * sizes.tokens * sizes.context);
    Operator backward = forward;
    backward.name += ".gradient";
    backward.flops = forward.flops * (fused ? 2.5 : 2);  // a fused kernel computes the scores once more
    forward.saved = Bytes(2 * sizes.tokens * sizes.context);
    if (!fused) {
        // Softmax output, its dropout mask and dropped copy: 5 bytes per score (Korthikanti et al. 2022).
        forward.recomputable = Bytes::rounded(shard.score_bytes * scores);
        forward.saved += forward.recomputable;
        forward.read += Bytes::rounded(5.5 * scores);  // 11 passes over the scores forward, 19 backward
        forward.written += Bytes::rounded(5.5 * scores);
        backward.read += Bytes::rounded(9.5 * scores);
        backward.written += Bytes::rounded(9.5 * scores);
    }
    builder.modules(modules_of({RecomputeModule::core_attn, RecomputeModule::elementwise}));
    const auto core = builder.add(forward, {backward}, {input}, Bytes(2 * sizes.tokens * sizes.context));
    builder.modules(0);
    builder.quantise(core, sizes.tokens * sizes.context, sizes.tokens * model.hidden);
    return core;
}

/// Context parallelism by heads: a rank hands its part of the sequence of all heads on and gets the whole sequence of
/// some; every one of cp ranks needs at least one key/value head.
Vertex deal_heads(BlockBuilder& builder, const std::string& name, const Sizes& sizes, std::int64_t width,
                  Vertex input) {
    if (!sizes.shard.cp_all_to_all) return input;
    return builder.collective(name + ".all_to_all", CollectiveKind::all_to_all, CollectiveKind::all_to_all,
                              Bytes(2 * sizes.tokens * width), {input}, Axis::cp);
}

/// Context parallelism by a ring: every rank attends its queries to the keys and values of the whole sequence. Backward
/// they are gathered once more and their gradients reduced. A ring passes the same volume (Liu et al. 2023).
Vertex gather_keys(BlockBuilder& builder, const Workload& workload, const Sizes& sizes, Vertex input) {
    if (sizes.shard.cp == 1 || sizes.shard.cp_all_to_all) return input;
    const Bytes keys_and_values(2 * sizes.shard.mbs * workload.seq * sizes.key_value);
    const Vertex gathered = builder.collective("attention.keys.all_gather", CollectiveKind::all_gather,
                                               CollectiveKind::reduce_scatter, keys_and_values, {input}, Axis::cp);
    builder.backward_collective("attention.keys.gradient.all_gather", CollectiveKind::all_gather, keys_and_values,
                                gathered, Axis::cp);
    return gathered;
}

/// Queries, keys and values by way of latents; the products into the latents are the same on every tensor-parallel
/// rank.
Vertex add_latent_products(BlockBuilder& builder, const Sizes& sizes, Vertex input) {
    const Transformer& model = sizes.model;
    const LatentAttention& latent = *model.latent;
    const std::int64_t heads = model.heads / sizes.shard.tp;
    const std::int64_t narrow = latent.query_rank + latent.key_value_rank + latent.rope_dim;
    const Vertex down = builder.gemm("attention.latent", {1, sizes.tokens, narrow, model.hidden}, 0, {input});
    builder.modules(modules_of({RecomputeModule::mla_up_proj}));
    const std::int64_t query_inputs = latent.query_rank > 0 ? latent.query_rank : model.hidden;
    const Vertex query = builder.gemm("attention.query", {1, sizes.tokens, sizes.query, query_inputs}, 0, {down});
    const std::int64_t width = heads * (latent.nope_dim + latent.value_dim);
    const Vertex keys =
        builder.gemm("attention.key_value", {1, sizes.tokens, width, latent.key_value_rank}, 0, {query});
    builder.modules(0);
    return keys;
}

Vertex add_attention(BlockBuilder& builder, const Workload& workload, std::int64_t layer, const Sizes& sizes,
                     Vertex input) {
    const Transformer& model = sizes.model;
    const std::int64_t qkv_width = sizes.query + sizes.key_value;
    const Vertex norm = add_norm(builder, "attention.norm", sizes, {input});
    const Vertex entered = enter(builder, "attention", sizes, norm);
    const Vertex qkv = model.latent ? add_latent_products(builder, sizes, entered)
                                    : builder.gemm("attention.qkv", {1, sizes.tokens, qkv_width, model.hidden},
                                                   model.qkv_bias ? qkv_width : 0, {entered});
    builder.at(qkv).adapter = model.hidden + qkv_width;
    sum_input_gradient(builder, "attention", sizes, qkv);
    const double qkv_bytes = 2.0 * static_cast<double>(sizes.tokens * qkv_width);
    builder.modules(modules_of({RecomputeModule::mla_up_proj, RecomputeModule::elementwise}));
    const Vertex rotary = builder.elementwise("attention.rotary", 2 * qkv_bytes, 3 * qkv_bytes, 0, qkv_bytes, {qkv});
    builder.modules(0);
    if (model.latent) builder.at(rotary).recomputable = Bytes::rounded(qkv_bytes);
    builder.quantise(rotary, 0, sizes.tokens * qkv_width);
    const std::int64_t kv_heads = sizes.key_value / (sizes.head_dim + sizes.value_dim);
    const std::int64_t dealt = sizes.query + sizes.key_value / kv_heads * std::max(kv_heads, sizes.shard.cp);
    const Vertex heads = deal_heads(builder, "attention.heads", sizes, dealt, rotary);
    const Vertex attended =
        add_attention_core(builder, workload, layer, sizes, gather_keys(builder, workload, sizes, heads));
    const Vertex core = deal_heads(builder, "attention.context", sizes, sizes.context, attended);
    const Vertex output = builder.gemm("attention.output", {1, sizes.tokens, model.hidden, sizes.context},
                                       model.output_bias ? model.hidden : 0, {core});
    builder.at(output).adapter = model.hidden + sizes.context;
    return add_residual(builder, "attention.residual", sizes, {input, leave(builder, "attention", sizes, output)});
}

/// An activation function of `tokens` over `width` columns: its traffic is w + 1 tensors forward and 2 w + 1 backward;
/// it keeps its w inputs and its output, and the activated gate too if the product with it is a kernel of its own.
Vertex add_activation(BlockBuilder& builder, const std::string& name, double tokens, std::int64_t width,
                      const Sizes& sizes, RecomputeModules modules, Vertex input) {
    const double gates = sizes.model.gated ? 2 : 1;
    const double bytes = 2 * tokens * static_cast<double>(width);
    const double passes = sizes.model.fused_activation ? 1 : kSeparateActivation;
    const double outputs = sizes.model.gated && !sizes.shard.fused_activation ? 2 : 1;
    builder.modules(modules | modules_of({RecomputeModule::elementwise}));
    const Vertex activation = builder.elementwise(name, passes * (gates + 1) * bytes, passes * (2 * gates + 1) * bytes,
                                                  0, (gates + outputs) * bytes, {input});
    builder.at(activation).recomputable = Bytes::rounded(outputs * bytes);
    builder.quantise(activation, std::llround(bytes / 2), std::llround(gates * bytes / 2));
    return activation;
}

Vertex add_dense_products(BlockBuilder& builder, const std::string& name, std::int64_t ffn, const Sizes& sizes,
                          Vertex input, bool sums_gradient = true) {
    const Transformer& model = sizes.model;
    const std::int64_t width = ffn / sizes.shard.tp;
    const std::int64_t gates = model.gated ? 2 : 1;
    constexpr RecomputeModules kModules = modules_of({RecomputeModule::mlp});
    builder.modules(kModules);
    const Vertex up = builder.gemm(name + ".up", {1, sizes.tokens, gates * width, model.hidden},
                                   model.ffn_bias ? gates * width : 0, {input});
    if (sums_gradient) sum_input_gradient(builder, name, sizes, up);
    const Vertex activation =
        add_activation(builder, name + ".activation", static_cast<double>(sizes.tokens), width, sizes, kModules, up);
    builder.at(activation).recomputable = builder.at(activation).saved;
    builder.modules(kModules);
    const Vertex down = builder.gemm(name + ".down", {1, sizes.tokens, model.hidden, width},
                                     model.ffn_bias ? model.hidden : 0, {activation});
    builder.quantise(down, 0, sizes.tokens * model.hidden);
    builder.modules(0);
    return down;
}

/// The busiest rank of an expert group, for which the others wait.
Vertex add_experts(BlockBuilder& builder, const Sizes& sizes, Vertex input) {
    const Transformer& model = sizes.model;
    const Shard& shard = sizes.shard;
    const std::int64_t width = model.ffn / shard.etp;
    const std::int64_t gates = model.gated ? 2 : 1;
    // Tokens that this rank sends to experts, and copies that it receives for its own.
    const std::int64_t tokens = sizes.tokens / shard.tp * shard.etp;
    const std::int64_t copies = tokens * model.top_k;
    const double load = model.busiest_rank_load(shard.ep);
    const double received = load * static_cast<double>(copies);
    const std::int64_t local = model.experts / shard.ep;
    const auto per_expert = static_cast<std::int64_t>(std::ceil(received / static_cast<double>(local)));
    const double token_bytes = 2.0 * static_cast<double>(tokens * model.hidden);
    const double copy_bytes = token_bytes * static_cast<double>(model.top_k);
    const double received_bytes = load * copy_bytes;
    const auto exchanged = Bytes::rounded(load * token_bytes);
    const auto permute = [&](const std::string& name, double bytes, double saved, Vertex from) {
        return builder.elementwise(name, bytes, bytes, 0, saved, {from}, OperatorKind::permutation);
    };
    const bool sorts = shard.ep > 1 && local > 1;
    constexpr RecomputeModules kModules = modules_of({RecomputeModule::moe});
    builder.modules(kModules);
    const Vertex router = builder.gemm("ffn.router", {1, tokens, model.experts, model.hidden}, 0, {input});
    if (shard.etp == shard.tp) sum_input_gradient(builder, "ffn", sizes, router);
    Vertex last = permute("ffn.permute", 2 * copy_bytes, received_bytes, router);
    if (shard.ep > 1) last = builder.exchange("ffn.dispatch", exchanged, model.top_k, {last});
    if (sorts) last = permute("ffn.sort", 2 * received_bytes, 0, last);
    builder.experts(true);
    last = builder.gemm("ffn.experts.up", {local, per_expert, gates * width, model.hidden},
                        model.ffn_bias ? gates * width : 0, {last});
    last = add_activation(builder, "ffn.experts.activation", received, width, sizes,
                          kModules | modules_of({RecomputeModule::moe_act}), last);
    builder.modules(kModules);
    last = builder.gemm("ffn.experts.down", {local, per_expert, model.hidden, width}, model.ffn_bias ? model.hidden : 0,
                        {last});
    builder.experts(false);
    if (sorts) last = permute("ffn.unsort", 2 * received_bytes, 0, last);
    if (shard.ep > 1) last = builder.exchange("ffn.combine", exchanged, model.top_k, {last});
    // The gates weigh the copies before the second product, so that what it puts out need not be kept.
    const Vertex unpermute = permute("ffn.unpermute", copy_bytes + token_bytes, 0, last);
    builder.modules(0);
    return unpermute;
}

Vertex add_mixture(BlockBuilder& builder, const Sizes& sizes, Vertex norm) {
    const Transformer& model = sizes.model;
    const bool split = sizes.shard.etp < sizes.shard.tp;  // tokens stay split over the tensor-parallel ranks
    const Vertex whole = split ? norm : enter(builder, "ffn", sizes, norm);
    Vertex last = add_experts(builder, sizes, whole);
    if (model.shared_experts > 0) {
        const Vertex input = split ? enter(builder, "ffn.shared", sizes, norm) : whole;
        Vertex shared =
            add_dense_products(builder, "ffn.shared", model.shared_experts * model.ffn, sizes, input, false);
        if (split) shared = leave(builder, "ffn.shared", sizes, shared);
        last = builder.elementwise("ffn.sum", 3 * sizes.norm_bytes(), 0, 0, 0, {last, shared});
    }
    return split ? last : leave(builder, "ffn", sizes, last);
}

}  // namespace

OperatorGraph layer_graph(const Workload& workload, std::int64_t layer, const Shard& shard) {
    const Sizes sizes(workload, shard);
    BlockBuilder builder;
    if (shard.frozen) builder.freeze();
    Operator input;
    input.name = "input";
    const Vertex source = builder.add(input, {}, {}, sizes.hidden_tensor);
    const Vertex attended = add_attention(builder, workload, layer, sizes, source);
    const Vertex norm = add_norm(builder, "ffn.norm", sizes, {attended});
    const bool mixture = sizes.model.is_mixture(layer);
    const bool split = mixture && shard.etp < shard.tp;
    Vertex last;
    if (mixture) {
        last = add_mixture(builder, sizes, norm);
    } else {
        const bool of_mixture = sizes.model.experts > 0;
        const Vertex products = add_dense_products(builder, "ffn", of_mixture ? sizes.model.dense_ffn : sizes.model.ffn,
                                                   sizes, enter(builder, "ffn", sizes, norm));
        last = leave(builder, "ffn", sizes, products);
    }
    // The saved input is kept in shares: it is gathered once more for the weight gradient.
    if (shard.tp > 1 && shard.sequence_parallel && !split && !shard.frozen)
        builder.backward_collective("ffn.input.all_gather", CollectiveKind::all_gather, sizes.hidden_tensor, last);
    add_residual(builder, "ffn.residual", sizes, {attended, last});
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
    const std::int64_t rows = sizes.tokens * (1 + model.mtp_layers);  // every prediction layer has logits of its own
    BlockBuilder builder;
    if (shard.frozen) builder.freeze();
    Operator input;
    input.name = "input";
    Vertex last = builder.add(input, {}, {}, sizes.hidden_tensor);
    if (model.final_norm) last = add_norm(builder, "head.norm", sizes, {last});
    last = enter(builder, "head", sizes, last);
    last = builder.gemm("head.logits", {1, rows, vocab, model.hidden}, 0, {last}, true);
    if (model.tied_embeddings) builder.at(last).parameters = 0;
    sum_input_gradient(builder, "head", sizes, last);
    // Cross entropy: 24 bytes per logit forward and backward together (fp32 logits, softmax, gradient).
    const auto logits = static_cast<double>(rows * vocab);
    last = builder.elementwise("head.loss", 8 * logits, 16 * logits, 0, 0, {last}, OperatorKind::loss);
    if (model.pooler)
        builder.gemm("head.pooler", {1, shard.mbs, model.hidden, model.hidden}, model.hidden, {last}, true);
    return builder.finish();
}

}  // namespace plansim
