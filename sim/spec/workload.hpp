// SPDX-License-Identifier: Apache-2.0
// The workload document: what is trained, as a transformer description or as an explicit operator graph.
// Schema with every key, unit and default: workloads/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/reader.hpp"
#include "sim/base/units.hpp"
#include "sim/spec/platform.hpp"

namespace plansim {

enum class Norm { rmsnorm, layernorm };
enum class Positions { rotary, learned, none };
enum class Optimizer { adam, sgd };

/// Multi-head latent attention (DeepSeek-AI 2024): queries and keys/values pass through narrow latents.
struct LatentAttention {
    std::int64_t query_rank = 0;      // latent of the queries; 0: queries are projected directly
    std::int64_t key_value_rank = 0;  // latent shared by keys and values
    std::int64_t nope_dim = 0;        // per head, without positions
    std::int64_t rope_dim = 0;        // per head, with rotary positions; the keys of all heads share one
    std::int64_t value_dim = 0;       // per head
};

struct Transformer {
    std::int64_t layers = 0;
    std::int64_t hidden = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;        // default: heads
    std::int64_t head_dim = 0;        // default: hidden / heads
    std::int64_t ffn = 0;             // width of the feed-forward, of one expert if there are experts
    bool gated = false;               // gated feed-forward (SwiGLU): two products up, one down
    std::int64_t experts = 0;         // 0: dense
    std::int64_t top_k = 0;           // experts per token
    std::int64_t shared_experts = 0;  // experts that see every token, each of width ffn
    std::int64_t dense_layers = 0;    // first layers of a mixture that have a dense feed-forward instead
    std::int64_t dense_ffn = 0;       // width of that
    std::int64_t moe_period = 1;      // behind them, one layer in so many is a mixture (the last of each period)
    double capacity_factor = 0;       // copies that an expert takes / its even share, padded to that; 0: dropless
    double routing_skew = 0;          // exponent of Zipf's law that the loads of experts follow; 0: balanced
    std::vector<std::int64_t> expert_loads;  // relative load of each expert instead; empty: routing_skew
    std::int64_t mtp_layers = 0;  // multi-token prediction: more layers behind the last, each with its own logits
    std::optional<LatentAttention> latent;
    std::int64_t sliding_window = 0;  // tokens that the sliding layers see; 0: none slides
    std::int64_t sliding_period = 1;  // one layer in so many sees everything, the others slide
    bool fused_activation = true;     // false: clamped or biased variants that run as separate kernels
    std::int64_t vocab = 0;
    bool tied_embeddings = false;
    Positions positions = Positions::rotary;
    std::int64_t max_positions = 0;  // rows of a learned position table; default: seq
    Norm norm = Norm::rmsnorm;
    bool final_norm = true;
    bool embedding_norm = false;
    bool qkv_bias = false;
    bool output_bias = false;  // of the attention output projection
    bool ffn_bias = false;
    bool causal = true;
    std::int64_t token_types = 0;  // rows of a token type table (BERT)
    bool pooler = false;           // dense hidden x hidden on the first token (BERT)

    /// Layers of the pipeline chain.
    [[nodiscard]] std::int64_t all_layers() const { return layers + mtp_layers; }
    /// Copies of tokens that the busiest of `ep` expert-parallel ranks computes, over the even share: at least 1. The
    /// other ranks wait for it in the exchange. Listed loads lie on the ranks in blocks, as the experts do; those of
    /// a skew are dealt to the ranks in the order of popularity. With a capacity factor C every expert computes C times
    /// its even share, since what is missing is padded, and what is over is dropped.
    [[nodiscard]] double busiest_rank_load(std::int64_t ep) const;
    [[nodiscard]] bool is_mixture(std::int64_t layer) const {
        return experts > 0 && layer >= dense_layers && (layer - dense_layers) % moe_period == moe_period - 1;
    }
    [[nodiscard]] std::int64_t mixtures() const { return experts > 0 ? (all_layers() - dense_layers) / moe_period : 0; }
    [[nodiscard]] bool slides(std::int64_t layer) const {
        return sliding_window > 0 && layer % sliding_period != sliding_period - 1;
    }
};

/// One operator of an explicit graph; amounts are those of one sample.
struct GraphNode {
    std::string name;
    bool matrix = true;  // runs on the matrix units (else on the vector units at the fp32 rate)
    Flops forward_flops;
    Flops backward_flops;  // default: twice forward if there are parameters or it is a matrix operator, else once
    Flops weight_flops;    // part of it that computes weight gradients; default: what exceeds forward if there are any
    Bytes reads;           // activations read by the forward pass
    Bytes writes;          // activations written by the forward pass
    std::int64_t parameters = 0;
    Bytes output;  // what each successor receives
    Bytes saved;   // kept for the backward pass; default: output
};

struct ExplicitGraph {
    std::vector<GraphNode> nodes;            // in topological order (the reader sorts, stable)
    std::vector<std::pair<int, int>> edges;  // indices into nodes
};

struct Workload {
    std::string name;
    std::optional<Transformer> transformer;  // exactly one of the two is set
    std::optional<ExplicitGraph> graph;
    std::int64_t seq = 1;               // tokens per sample
    std::int64_t gbs = 0;               // samples per optimizer step
    Precision dtype = Precision::bf16;  // of matrix products; fp8 keeps weights and activations in bf16 besides
    Optimizer optimizer = Optimizer::adam;

    /// Units of the pipeline chain: embedding, layers, head; or the nodes of the graph.
    [[nodiscard]] std::int64_t chain_length() const {
        return transformer ? transformer->all_layers() + 2 : static_cast<std::int64_t>(graph->nodes.size());
    }
    [[nodiscard]] std::int64_t tokens_per_step() const { return seq * gbs; }
};

inline constexpr double kMostSamples = 1 << 30;  // of a global batch

Workload read_workload(Reader document);
/// Why a global batch of this size is too large to count in; nothing if it is not.
std::optional<std::string> batch_problem(const Workload& workload, std::int64_t gbs);
std::string to_yaml(const Workload& workload);

}  // namespace plansim
