// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/estimate.hpp"

#include <algorithm>

namespace plansim {
namespace {

void add(Phase& sum, const Phase& part) {
    sum.compute += part.compute;
    sum.other += part.other;
    sum.tp_exposed += part.tp_exposed;
    sum.cp_exposed += part.cp_exposed;
    sum.ep_exposed += part.ep_exposed;
    sum.flops += part.flops;
}

/// Time of data-parallel collectives that nothing hides: what is once per step, and what every microbatch adds.
struct DataParallel {
    Seconds step;
    Seconds microbatch;
};

DataParallel exposed_data_parallel(CostModel& model, const Plan& plan, int stage,
                                   const std::vector<ChunkCost>& chunks) {
    DataParallel result;
    const Software& software = model.scenario().software;
    DataParameters parameters;
    Seconds backward;
    Seconds forward;
    for (const ChunkCost& chunk : chunks) {
        parameters.add(chunk.parameters);
        // Reductions run beside the pass that completes the gradients.
        backward += splits_backward(plan.schedule) ? chunk.backward_weight.total()
                                                   : chunk.backward.total() + chunk.recompute.total();
        forward += chunk.forward.total();
    }
    const double share = software.dp_overlap ? software.dp_overlap_share : 0;
    const auto exposed = [&](Seconds collectives, Seconds window) {
        // What is hidden slows down the compute beside it.
        const Seconds hidden = std::min(collectives, window * share);
        return collectives - hidden + hidden * software.overlap_slowdown;
    };
    const Seconds reduce = data_time(model, plan, stage, reductions(plan, software, parameters));
    const Seconds gather = data_time(model, plan, stage, gatherings(plan, software, parameters));
    Seconds& of_gather = gathers_every_pass(plan) ? result.microbatch : result.step;
    of_gather += exposed(gather, forward);
    const Seconds again = gathers_again(plan) ? gather : Seconds(0);
    if (reduces_every_pass(plan)) {
        result.microbatch += exposed(reduce + again, backward);
    } else {
        result.step += exposed(reduce, backward);
        if (again > Seconds(0)) result.microbatch += exposed(again, backward);
    }
    return result;
}

}  // namespace

ChunkCost chunk_cost(CostModel& model, const Plan& plan, int virtual_stage) {
    const ChainRange& range = plan.range(virtual_stage);
    const int stage = plan.shape().stage_of(virtual_stage);
    ChunkCost sum;
    for (std::int64_t index = range.first; index < range.last; ++index) {
        const UnitCost& cost = model.unit(index, plan, stage);
        add(sum.forward, cost.forward);
        add(sum.backward, cost.backward);
        add(sum.backward_input, cost.backward_input);
        add(sum.backward_weight, cost.backward_weight);
        add(sum.recompute, cost.recompute);
        sum.parameters.add(cost);
        sum.boundary = cost.boundary;
    }
    return sum;
}

Seconds step_host_time(const Software& software, const Plan& plan) {
    // Inside a node the broadcasts run side by side on its switch.
    constexpr int kOwnersOfNode = 8;
    return software.iteration_time + software.owner_time * std::max(0, plan.owners() - kOwnersOfNode);
}

Bytes planned_capacity(const Scenario& scenario) {
    return scenario.platform.accelerator.hbm_capacity * (1 - scenario.software.memory_headroom);
}

namespace {

/// One transfer from virtual stage `front` to the next one, forward or backward, while all other stages send too.
Seconds boundary_transfer(CostModel& model, const Plan& plan, int front) {
    const PipelineShape shape = plan.shape();
    if (front < 0 || !shape.apart(front, shape.target(front, false))) return Seconds(0);
    const int from = shape.stage_of(front);
    const ChainRange& range = plan.range(front);
    const Bytes boundary = model.unit(range.last - 1, plan, from).boundary;
    return model.p2p_latency(plan, from, shape.stage_of(front + 1), boundary) + model.boundary_load(plan, boundary);
}

/// What a stage contributes to the step.
struct StageTimes {
    Seconds compute;  // of one microbatch, all chunks that it passes, both passes
    Seconds sends;    // of one microbatch
    Seconds forward;  // the parts of `compute`; recomputation belongs to the backward pass of the input
    Seconds input;
    Seconds weight;
    DataParallel data_parallel;
    Seconds optimizer;
};

/// What a stage adds to filling and draining under a schedule that splits the backward pass; `delayed` is the W pass of
/// the slowest stage, which fills the gaps.
Seconds split_ramp(const Plan& plan, const StageTimes& stage, Seconds delayed) {
    switch (plan.schedule) {
        case ScheduleKind::zb_h1:
            return std::max(stage.forward, stage.forward + stage.input - delayed);
        case ScheduleKind::zb_v:
            // No stage waits if F = B = W, but the gradient norm makes the first stage wait for the last, which started
            // p - 1 forward passes of a chunk later. The other terms are not published: they were fitted to runs of the
            // order with unequal times, and are exact for some ratios only.
            return std::max({stage.forward, stage.input, (stage.input - delayed) * 2}) / 2;
        case ScheduleKind::dualpipe:
            // Published for the whole pipeline, spread over the stages; a pair takes F + B.
            return std::max(stage.forward * 2, stage.forward + stage.input * 2 - delayed) * (0.5 * plan.pp - 1) /
                   (plan.pp - 1.0);
        default:
            return Seconds(0);
    }
}

/// Time beyond m * t_max: the longest over all stages of their own work and what the others add to it. Fewer
/// microbatches than stages leave fewer weight gradients to fill gaps with.
Seconds split_bubble(const Plan& plan, const std::vector<StageTimes>& stages, Seconds bottleneck) {
    const auto microbatches = static_cast<double>(plan.microbatches());
    const double fillers = std::min(1.0, (microbatches - 1) / std::max(1, plan.pp - 1));
    Seconds longest;
    for (const StageTimes& slowest : stages) {
        Seconds total = slowest.compute * microbatches;
        for (const StageTimes& other : stages)
            if (&other != &slowest) total += split_ramp(plan, other, slowest.weight * fillers);
        longest = std::max(longest, total);
    }
    return longest - bottleneck * microbatches;
}

StageTimes stage_times(CostModel& model, const Plan& plan, int stage) {
    StageTimes times;
    std::vector<ChunkCost> chunks;
    DataParameters parameters;
    for (int chunk = 0; chunk < plan.vpp; ++chunk) {
        const int virtual_stage = plan.shape().virtual_stage(stage, chunk);
        chunks.push_back(chunk_cost(model, plan, virtual_stage));
        const ChunkCost& cost = chunks.back();
        times.forward += cost.forward.total() / plan.copies();
        times.input += (cost.backward_input.total() + cost.recompute.total()) / plan.copies();
        times.weight += cost.backward_weight.total() / plan.copies();
        times.compute += cost.total(plan.schedule) / plan.copies();
        times.sends +=
            (boundary_transfer(model, plan, virtual_stage) + boundary_transfer(model, plan, virtual_stage - 1)) /
            plan.copies();
        parameters.add(cost.parameters);
    }
    times.data_parallel = exposed_data_parallel(model, plan, stage, chunks);
    times.compute += times.data_parallel.microbatch;
    const OuterStep outer = outer_step(model, plan, stage, parameters, times.compute);
    times.data_parallel.step += outer.exposed;
    times.optimizer = model.optimizer_time(plan, parameters.trained, parameters.trained_experts) + outer.optimizer;
    return times;
}

/// Time that the busiest link of the stage boundaries needs per microbatch: overlapped sends cannot be faster.
Seconds link_load(CostModel& model, const Plan& plan) {
    Bytes largest;
    for (int front = 0; front + 1 < plan.virtual_stages(); ++front)
        largest =
            std::max(largest, model.unit(plan.range(front).last - 1, plan, plan.shape().stage_of(front)).boundary);
    return model.boundary_load(plan, largest) * plan.vpp / plan.copies();
}

}  // namespace

Estimate estimate(CostModel& model, const Plan& plan, std::optional<Bytes> limit) {
    const Scenario& scenario = model.scenario();
    const Bytes capacity = limit.value_or(scenario.platform.accelerator.hbm_capacity);
    const bool overlap = model.sends_overlap(plan);
    Estimate result;
    std::vector<StageTimes> stages;
    Seconds sum_of_stages;
    Seconds steady;  // time per microbatch once the pipeline is full
    for (int stage = 0; stage < plan.pp; ++stage) {
        stages.push_back(stage_times(model, plan, stage));
        const StageTimes& times = stages.back();
        sum_of_stages += times.compute;
        if (times.compute > result.bottleneck) {
            result.bottleneck = times.compute;
            result.slowest_stage = stage;
        }
        steady = std::max(steady, overlap ? times.compute : times.compute + times.sends);
        result.dp_exposed = std::max(result.dp_exposed, times.data_parallel.step);
        result.optimizer = std::max(result.optimizer, times.optimizer);
        const Bytes peak = stage_peak(model, plan, stage).total();
        if (peak > result.peak_memory) {
            result.peak_memory = peak;
            result.fullest_stage = stage;
        }
    }
    if (overlap) steady = std::max(steady, link_load(model, plan));
    const auto microbatches = static_cast<double>(plan.microbatches());
    result.bubble = splits_backward(plan.schedule) ? split_bubble(plan, stages, result.bottleneck)
                                                   : (sum_of_stages - result.bottleneck) / plan.vpp;
    result.p2p = (steady - result.bottleneck) * microbatches;
    for (int front = 0; front + 1 < plan.pp; ++front)
        result.p2p += boundary_transfer(model, plan, front) * 2;  // to fill and to drain the pipeline
    result.iteration_time = result.bottleneck * microbatches + result.bubble + result.p2p + result.dp_exposed +
                            result.optimizer + step_host_time(scenario.software, plan);
    if (result.peak_memory > capacity) result.shortfall = Shortfall{result.fullest_stage, result.peak_memory, capacity};
    return result;
}

}  // namespace plansim
