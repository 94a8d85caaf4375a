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
        parameters.dense += chunk.parameters.dense;
        parameters.experts += chunk.parameters.experts;
        parameters.trained += chunk.parameters.trained;
        parameters.trained_experts += chunk.parameters.trained_experts;
        backward += chunk.backward.total() + chunk.recompute.total();
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
    ChunkCost sum;
    for (std::int64_t index = range.first; index < range.last; ++index) {
        const UnitCost& cost = model.unit(index, plan, virtual_stage % plan.pp);
        add(sum.forward, cost.forward);
        add(sum.backward, cost.backward);
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
    const int from = front % plan.pp;
    const int to = (front + 1) % plan.pp;
    if (front < 0 || front + 1 >= plan.virtual_stages() || from == to) return Seconds(0);
    const ChainRange& range = plan.range(front);
    const Bytes boundary = model.unit(range.last - 1, plan, from).boundary;
    return model.p2p_latency(plan, from, to, boundary) + model.boundary_load(plan, boundary);
}

/// What a stage contributes to the step.
struct StageTimes {
    Seconds compute;  // of one microbatch, all chunks, both passes
    Seconds sends;    // of one microbatch
    DataParallel data_parallel;
    Seconds optimizer;
};

StageTimes stage_times(CostModel& model, const Plan& plan, int stage) {
    StageTimes times;
    std::vector<ChunkCost> chunks;
    std::int64_t trained = 0;
    std::int64_t experts = 0;
    for (int chunk = 0; chunk < plan.vpp; ++chunk) {
        const int virtual_stage = chunk * plan.pp + stage;
        chunks.push_back(chunk_cost(model, plan, virtual_stage));
        times.compute += chunks.back().total();
        times.sends +=
            boundary_transfer(model, plan, virtual_stage) + boundary_transfer(model, plan, virtual_stage - 1);
        trained += chunks.back().parameters.trained;
        experts += chunks.back().parameters.trained_experts;
    }
    times.data_parallel = exposed_data_parallel(model, plan, stage, chunks);
    times.compute += times.data_parallel.microbatch;
    times.optimizer = model.optimizer_time(plan, trained, experts);
    return times;
}

/// Time that the busiest link of the stage boundaries needs per microbatch: overlapped sends cannot be faster.
Seconds link_load(CostModel& model, const Plan& plan) {
    Bytes largest;
    for (int front = 0; front + 1 < plan.virtual_stages(); ++front)
        largest = std::max(largest, model.unit(plan.range(front).last - 1, plan, front % plan.pp).boundary);
    return model.boundary_load(plan, largest) * plan.vpp;
}

}  // namespace

Estimate estimate(CostModel& model, const Plan& plan, std::optional<Bytes> limit) {
    const Scenario& scenario = model.scenario();
    const Bytes capacity = limit.value_or(scenario.platform.accelerator.hbm_capacity);
    const bool overlap = model.sends_overlap(plan);
    Estimate result;
    Seconds sum_of_stages;
    Seconds steady;  // time per microbatch once the pipeline is full
    for (int stage = 0; stage < plan.pp; ++stage) {
        const StageTimes times = stage_times(model, plan, stage);
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
    result.bubble = (sum_of_stages - result.bottleneck) / plan.vpp;
    result.p2p = (steady - result.bottleneck) * microbatches;
    for (int front = 0; front + 1 < plan.pp; ++front)
        result.p2p += boundary_transfer(model, plan, front) * 2;  // to fill and to drain the pipeline
    result.iteration_time = result.bottleneck * microbatches + result.bubble + result.p2p + result.dp_exposed +
                            result.optimizer + step_host_time(scenario.software, plan);
    if (result.peak_memory > capacity) result.shortfall = Shortfall{result.fullest_stage, result.peak_memory, capacity};
    return result;
}

}  // namespace plansim
