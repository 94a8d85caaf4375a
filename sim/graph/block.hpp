// SPDX-License-Identifier: Apache-2.0
// Builds the operator graph of one unit of the pipeline chain, sharded as a plan lays it out, collectives inserted.
//
// Assumes Megatron's tensor parallelism: columns of the first product and rows of the second one are split, so each
// half layer has one collective each way; with sequence parallelism an all-gather and a reduce-scatter take its place
// and norms and residuals see only their share of the tokens. Experts are spread over ep ranks and each of them is
// split over etp ranks (1 or tp); with etp = 1 the tokens stay split over tp and two all-to-alls bring them to their
// experts. FLOPs of causal attention are halved for a fused kernel, not for materialised scores. Source: Shoeybi et al.
// 2019, Korthikanti et al. 2022; traffic and memory per operator as derived in transformer.cpp.
#pragma once

#include "sim/graph/operator.hpp"
#include "sim/spec/plan.hpp"
#include "sim/spec/software.hpp"
#include "sim/spec/workload.hpp"

namespace plansim {

/// How one microbatch of the model lies on one rank.
struct Shard {
    std::int64_t tp = 1;
    std::int64_t cp = 1;
    std::int64_t mbs = 1;
    bool sequence_parallel = false;
    AttentionImplementation attention = AttentionImplementation::fused;
    bool dropout = false;
    std::int64_t ep = 1;
    std::int64_t etp = tp;
    bool frozen = false;  // LoRA: products have no weight gradient
    double norm_copy_bytes = 0;
    bool fused_activation = true;
    double score_bytes = 5;
    bool cp_all_to_all = false;  // context-parallel ranks deal out heads instead of passing keys round
};
Shard shard_of(const Plan& plan, const Software& software);

enum class BlockKind { embedding, layer, head, node };
std::string_view name_of(BlockKind kind);

struct Block {
    BlockKind kind = BlockKind::layer;
    std::string name;
    OperatorGraph graph;
    std::int64_t parameters = 0;         // of this rank
    std::int64_t expert_parameters = 0;  // of them, those of experts
    std::int64_t adapter = 0;            // trained parameters beside frozen ones, per unit of LoRA rank
    /// Bytes that one microbatch hands to the next unit of the chain, whole (all tp ranks together hold one copy of it,
    /// or each holds a share with sequence parallelism).
    Bytes boundary;
};

BlockKind block_kind(const Workload& workload, std::int64_t chain_index);
/// Two units of equal class have equal graphs, so that costs can be computed once per class. All layers of a
/// transformer are one class; every node of an explicit graph is its own.
std::int64_t block_class(const Workload& workload, std::int64_t chain_index);
Block build_block(const Workload& workload, std::int64_t chain_index, const Shard& shard);

/// Whole-model figures, independent of any plan.
struct ModelTotals {
    std::int64_t parameters = 0;
    std::int64_t active_parameters = 0;  // those that one token visits: top_k of the experts
    Flops forward_flops_per_token;       // matrix products and attention, causal attention counted half
    Flops training_flops_per_token;      // three times that; recomputation never counts
    Bytes activations_per_token;         // kept for the backward pass, unsharded, no recomputation, fused attention
};
ModelTotals model_totals(const Workload& workload);

}  // namespace plansim
