// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/memory.hpp"

#include <algorithm>

namespace plansim {
namespace {

constexpr double kWeightBytes = 2;      // 16-bit weights, also when products run in fp8
constexpr double kSgdStateBytes = 4;    // fp32 weight
constexpr double kUnitsGathered = 2;    // FSDP: the unit that computes and the one that is prefetched
constexpr double kBoundaryTensors = 2;  // one received, one to be sent

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
    const std::int64_t in_flight = chunks_in_flight(plan.schedule, stage, plan.pp, plan.vpp, plan.microbatches());
    // GPipe runs all forward passes first, so that the logits of every microbatch wait for their backward pass.
    const double logits_in_flight = plan.schedule == ScheduleKind::gpipe ? static_cast<double>(in_flight) : 1;
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
    peak.weights = Bytes::rounded((weights + whole) * kWeightBytes * slack);
    peak.gradients =
        Bytes::rounded((gradients + (plan.zero >= 2 && plan.lora == 0 ? load.largest : 0)) * gradient * slack);
    peak.optimizer = Bytes::rounded(shared(1, load.trained, load.trained_experts) * state * slack);
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

std::int64_t chunks_in_flight(ScheduleKind schedule, int stage, int pp, int vpp, std::int64_t microbatches) {
    switch (schedule) {
        case ScheduleKind::gpipe:
            return microbatches;
        case ScheduleKind::one_f_one_b:
            return std::min<std::int64_t>(microbatches, pp - stage);
        case ScheduleKind::interleaved:
            if (vpp == 1) return std::min<std::int64_t>(microbatches, pp - stage);
            return std::min<std::int64_t>(microbatches * vpp,
                                          std::int64_t{2} * (pp - stage - 1) + std::int64_t{vpp - 1} * pp + 1);
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
