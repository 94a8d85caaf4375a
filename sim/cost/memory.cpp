// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/memory.hpp"

#include <algorithm>

namespace plansim {
namespace {

constexpr double kWeightBytes = 2;      // 16-bit weights, also when products run in fp8
constexpr double kSgdStateBytes = 4;    // fp32 weight
constexpr double kOuterStateBytes = 8;  // local SGD: fp32 parameters of the last outer step, and its momentum
constexpr double kUnitsGathered = 2;    // FSDP: the unit that computes and the one that is prefetched
constexpr double kBoundaryTensors = 2;  // one received, one to be sent
constexpr double kLogitGradient = 2;    // bytes per logit that the weight gradient of the head reads

/// Part of the logits' memory that lives on from B to W of a split backward pass.
double delayed_share(const Software& software) {
    return std::min(1.0, kLogitGradient / software.logit_bytes);
}

}  // namespace

void StageLoad::add(const UnitCost& cost) {
    parameters += static_cast<double>(cost.parameters);
    expert_parameters += static_cast<double>(cost.expert_parameters);
    trained += static_cast<double>(cost.trained);
    trained_experts += static_cast<double>(cost.trained_experts);
    largest = std::max(largest, static_cast<double>(cost.parameters));
    activations += cost.activations;
    working = std::max(working, cost.working_set + cost.logits);
    transient += cost.logits;
    placeholders = std::max(placeholders, cost.placeholders);
    boundary = std::max(boundary, cost.boundary);
}

double tied_copy(const Workload& workload, const Plan& plan, const std::vector<ChainRange>& chunks) {
    if (!workload.transformer || !workload.transformer->tied_embeddings) return 0;
    const bool has_head = chunks.back().last == workload.chain_length();
    const bool has_embedding = chunks.front().first == 0;
    if (!has_head || has_embedding) return 0;
    const Transformer& model = *workload.transformer;
    const std::int64_t rows = (model.vocab + plan.tp - 1) / plan.tp;  // padded to the ranks
    return static_cast<double>(rows * model.hidden);
}

StagePeak peak_of(const StageLoad& load, const Scenario& scenario, const Plan& plan, int stage) {
    const Software& software = scenario.software;
    const double slack = software.fragmentation;
    const double state = scenario.workload.optimizer == Optimizer::adam ? software.state_bytes : kSgdStateBytes;
    const std::int64_t in_flight = chunks_in_flight(plan.shape(), stage);
    // GPipe runs all forward passes first, so that the logits of every microbatch wait for their backward pass.
    double logits_in_flight = plan.schedule == ScheduleKind::gpipe ? static_cast<double>(in_flight) : 1;
    // ZB-H1 keeps the weight gradients of `stage` microbatches back; where zb-v and dualpipe have the head, W follows
    // B.
    if (plan.schedule == ScheduleKind::zb_h1)
        logits_in_flight +=
            static_cast<double>(std::min<std::int64_t>(stage, plan.microbatches() - 1)) * delayed_share(software);
    StagePeak peak;
    const auto shared = [&](int level, double dense, double experts) {
        return plan.zero >= level ? dense / plan.owners() + experts / plan.expert_owners() : dense + experts;
    };
    const double gradient = static_cast<double>(software.gradient_bytes);
    // FSDP keeps its share in fp32 and casts what it gathers; frozen weights have no fp32 copy.
    const double weights = plan.zero == 3 && plan.lora == 0
                               ? 0
                               : shared(3, load.parameters - load.expert_parameters, load.expert_parameters);
    // A pipeline adds up the gradients of many microbatches before they are reduced, and gathers weights once for all.
    const bool stays = plan.pp > 1 || !plan.reshard_after_forward;
    const double gradients = plan.pp > 1 && plan.zero == 3 ? load.trained + load.trained_experts
                                                           : shared(2, load.trained, load.trained_experts);
    const double whole = plan.zero < 3 ? 0 : stays ? load.parameters : load.largest * kUnitsGathered;
    // Of weights that wait in the host, two units are on the device.
    const double resident = plan.offload_weights ? std::min(weights, load.largest * kUnitsGathered) : weights + whole;
    peak.weights = Bytes::rounded(resident * kWeightBytes * slack);
    peak.gradients =
        Bytes::rounded((gradients + (plan.zero >= 2 && plan.lora == 0 ? load.largest : 0)) * gradient * slack);
    const double outer =
        plan.outer_steps == 0 ? 0 : load.trained / plan.data_ranks() + load.trained_experts / plan.expert_data_ranks();
    peak.optimizer =
        Bytes::rounded((shared(1, load.trained, load.trained_experts) * state * (1 - plan.offload_optimizer) +
                        outer * kOuterStateBytes) *
                       slack);
    peak.buffers = software.context + (load.boundary * kBoundaryTensors + load.placeholders) * slack;
    peak.activations = load.activations * (slack * static_cast<double>(in_flight) / plan.vpp) +
                       (load.working + load.transient * (logits_in_flight - 1)) * slack;
    return peak;
}

StageMemory stage_memory(CostModel& model, const Plan& plan, int stage) {
    const auto& chunks = plan.stages[static_cast<std::size_t>(stage)];
    const double slack = model.scenario().software.fragmentation;
    StageMemory memory;
    StageLoad all;
    for (const ChainRange& range : chunks) {
        StageLoad load;
        for (std::int64_t index = range.first; index < range.last; ++index) {
            const UnitCost& cost = model.unit(index, plan, stage);
            load.add(cost);
            all.add(cost);
        }
        memory.chunk_activations.push_back(load.activations * slack);
        memory.chunk_working.push_back((load.working - load.transient) * slack);
        memory.chunk_transient.push_back(load.transient * slack);
        memory.chunk_delayed.push_back(load.transient * (slack * delayed_share(model.scenario().software)));
    }
    const double copy = tied_copy(model.scenario().workload, plan, chunks);
    all.parameters += copy;
    all.trained += plan.lora > 0 ? 0 : copy;
    const StagePeak fixed = peak_of(all, model.scenario(), plan, stage);
    memory.weights = fixed.weights;
    memory.gradients = fixed.gradients;
    memory.optimizer = fixed.optimizer;
    memory.buffers = fixed.buffers;
    return memory;
}

std::int64_t chunks_in_flight(const PipelineShape& shape, int stage) {
    const std::int64_t microbatches = shape.microbatches;
    const std::int64_t stages = shape.stages;
    switch (shape.kind) {
        case ScheduleKind::gpipe:
            return microbatches;
        case ScheduleKind::interleaved:
            if (shape.chunks > 1)
                return std::min(microbatches * shape.chunks,
                                2 * (stages - stage - 1) + (shape.chunks - 1) * stages + 1);
            [[fallthrough]];
        case ScheduleKind::one_f_one_b:
            return std::min(microbatches, stages - stage);
        case ScheduleKind::zb_h1:
            return std::min(microbatches, stages);
        case ScheduleKind::zb_v:
            return std::min(microbatches, 2 * stages - stage - 1) + std::min<std::int64_t>(microbatches, stage + 1);
        case ScheduleKind::dualpipe:
            return stages + 1;
    }
    return microbatches;
}

StagePeak stage_peak(CostModel& model, const Plan& plan, int stage) {
    const auto& chunks = plan.stages[static_cast<std::size_t>(stage)];
    StageLoad load;
    for (const ChainRange& range : chunks)
        for (std::int64_t index = range.first; index < range.last; ++index)
            load.add(model.unit(index, plan, stage));
    const double copy = tied_copy(model.scenario().workload, plan, chunks);
    load.parameters += copy;
    load.trained += plan.lora > 0 ? 0 : copy;
    return peak_of(load, model.scenario(), plan, stage);
}

}  // namespace plansim
