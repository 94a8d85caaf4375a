// SPDX-License-Identifier: Apache-2.0
// Peak memory of one stage in closed form. The replay's ledger counts the same allocations over time.
//
// peak = context + fragmentation * (weights + gradients + optimizer states + activations in flight + the most that one
// unit needs for its backward pass + stand-ins for gradients + two boundary tensors).
// States: Adam in mixed precision keeps 2 bytes of weights, gradient_bytes of gradients, state_bytes (12: fp32 weights
// and moments) per parameter; ZeRO-1 shares the last among the data ranks, ZeRO-2 the gradients too, FSDP everything,
// beside which two units are whole (one computes, the next one is gathered). FSDP keeps trained weights in fp32 only.
// A unit's backward pass needs the gradient of its widest tensor and what recomputation rebuilds; the head's needs its
// logits and the 16-bit gradient of its weight. The last layer begins when the head has given these back.
//
// Split backward pass: all activations are kept until W. Assumption: what B could free (inside of attention, inputs of
// norms) makes up for what it adds for W (gradients of the products' outputs), which is not counted. Of the logits a
// 16-bit gradient is kept; what selective recomputation rebuilds is freed by B.
#pragma once

#include "sim/cost/cost_model.hpp"

namespace plansim {

/// What a stage holds for the whole iteration, and what each microbatch adds.
struct StageMemory {
    Bytes weights;
    Bytes gradients;
    Bytes optimizer;
    Bytes buffers;                         // context, boundary tensors
    std::vector<Bytes> chunk_activations;  // one microbatch of each chunk, kept from forward to backward
    std::vector<Bytes> chunk_working;      // lives during the backward pass of the chunk only
    std::vector<Bytes> chunk_transient;    // logits: live from the forward to the backward pass of the last chunk
    std::vector<Bytes> chunk_delayed;      // part of the logits that a split backward pass leaves for the weights
    [[nodiscard]] Bytes resident() const { return weights + gradients + optimizer + buffers; }
};

struct StagePeak {
    Bytes weights;
    Bytes gradients;
    Bytes optimizer;
    Bytes activations;
    Bytes buffers;
    [[nodiscard]] Bytes total() const { return weights + gradients + optimizer + activations + buffers; }
};

StageMemory stage_memory(CostModel& model, const Plan& plan, int stage);

/// Chunks of microbatches whose activations a stage holds at most: gpipe m, 1f1b min(m, pp - stage), interleaved
/// min(m * vpp, 2 (pp - stage - 1) + (vpp - 1) pp + 1) chunks; with a split backward pass until the weight gradients
/// are computed: zb-h1 min(m, pp), zb-v min(m, 2 pp - stage - 1) + min(m, stage + 1) of half a stage, dualpipe pp + 1.
std::int64_t chunks_in_flight(const PipelineShape& shape, int stage);

/// Sums over the units that a stage holds, all chunks together.
struct StageLoad {
    double parameters = 0;
    double expert_parameters = 0;  // of them
    double trained = 0;            // experts left out
    double trained_experts = 0;
    double largest = 0;  // parameters of the largest unit: FSDP gathers and reduces unit by unit
    Bytes activations;   // of one microbatch
    Bytes working;       // largest of any unit, logits included
    Bytes transient;     // logits
    Bytes placeholders;  // largest
    Bytes boundary;      // largest
    void add(const UnitCost& cost);
};

/// Peak of a stage in closed form; its chunks weigh the same on average.
StagePeak peak_of(const StageLoad& load, const Scenario& scenario, const Plan& plan, int stage);
StagePeak stage_peak(CostModel& model, const Plan& plan, int stage);
/// Parameters of a tied embedding table of which a stage with the head but without the embedding keeps its own copy.
double tied_copy(const Workload& workload, const Plan& plan, const std::vector<ChainRange>& chunks);

}  // namespace plansim
