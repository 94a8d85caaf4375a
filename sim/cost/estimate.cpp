// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/estimate.hpp"

#include <algorithm>

namespace plansim {
namespace {

// Two transfers per microbatch and chunk: activations forward, gradients backward.
constexpr double kTransfersPerChunk = 2;

void add(Phase& sum, const Phase& part) {
    sum.compute += part.compute;
    sum.other += part.other;
    sum.tp_exposed += part.tp_exposed;
    sum.cp_exposed += part.cp_exposed;
    sum.flops += part.flops;
}

struct DataParallel {
    Seconds reduce;  // exposed part of the gradient reduction
    Seconds gather;  // exposed part of the parameter gathering
};

DataParallel exposed_data_parallel(CostModel& model, const Plan& plan, int stage,
                                   const std::vector<ChunkCost>& chunks) {
    DataParallel result;
    if (plan.data_ranks() == 1) return result;
    const Software& software = model.scenario().software;
    std::int64_t parameters = 0;
    Seconds backward;
    Seconds forward;
    for (const ChunkCost& chunk : chunks) {
        parameters += chunk.parameters;
        backward += chunk.backward.total() + chunk.recompute.total();
        forward += chunk.forward.total();
    }
    const auto reduction = plan.zero >= 1 ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    result.reduce = model.dp_time(reduction, plan, stage, gradient_message(software, parameters));
    if (plan.zero >= 1)
        result.gather = model.dp_time(CollectiveKind::all_gather, plan, stage, parameter_message(parameters));
    if (software.dp_overlap) {
        const Seconds zero;
        result.reduce = std::max(zero, result.reduce - backward);
        result.gather = std::max(zero, result.gather - forward);
    }
    return result;
}

}  // namespace

Bytes gradient_message(const Software& software, std::int64_t parameters) {
    return Bytes(software.gradient_reduce_bytes * parameters);
}

Bytes parameter_message(std::int64_t parameters) {
    return Bytes(2 * parameters);
}

ChunkCost chunk_cost(CostModel& model, const Plan& plan, int virtual_stage) {
    const ChainRange& range = plan.range(virtual_stage);
    const Recompute recompute = plan.recompute[static_cast<std::size_t>(virtual_stage % plan.pp)];
    ChunkCost sum;
    for (std::int64_t index = range.first; index < range.last; ++index) {
        const UnitCost& cost = model.unit(index, plan, recompute);
        add(sum.forward, cost.forward);
        add(sum.backward, cost.backward);
        add(sum.recompute, cost.recompute);
        sum.parameters += cost.parameters;
        sum.boundary = cost.boundary;
    }
    return sum;
}

Estimate estimate(CostModel& model, const Plan& plan) {
    const Scenario& scenario = model.scenario();
    Estimate result;
    Seconds sum_of_stages;
    Seconds slowest_dp;
    Seconds slowest_optimizer;
    const Bytes capacity = scenario.platform.accelerator.hbm_capacity;
    for (int stage = 0; stage < plan.pp; ++stage) {
        std::vector<ChunkCost> chunks;
        Seconds time;
        std::int64_t parameters = 0;
        for (int chunk = 0; chunk < plan.vpp; ++chunk) {
            const int virtual_stage = chunk * plan.pp + stage;
            chunks.push_back(chunk_cost(model, plan, virtual_stage));
            time += chunks.back().total();
            parameters += chunks.back().parameters;
            if (virtual_stage + 1 < plan.virtual_stages()) {
                const int next = (virtual_stage + 1) % plan.pp;
                const Seconds transfer =
                    next == stage ? Seconds(0) : model.p2p_time(plan, stage, next, chunks.back().boundary);
                result.p2p = std::max(result.p2p, transfer * (kTransfersPerChunk * plan.vpp));
            }
        }
        sum_of_stages += time;
        if (time > result.bottleneck) {
            result.bottleneck = time;
            result.slowest_stage = stage;
        }
        const DataParallel exposed = exposed_data_parallel(model, plan, stage, chunks);
        slowest_dp = std::max(slowest_dp, exposed.reduce + exposed.gather);
        slowest_optimizer =
            std::max(slowest_optimizer, model.optimizer_time(parameters, plan.zero >= 1 ? plan.data_ranks() : 1));
        const Bytes peak = stage_peak(model, plan, stage).total();
        if (peak > result.peak_memory) {
            result.peak_memory = peak;
            result.fullest_stage = stage;
        }
    }
    const auto microbatches = static_cast<double>(plan.microbatches());
    const Seconds fill = (sum_of_stages - result.bottleneck) / plan.vpp;
    // The long warm-up of the interleaved schedule hides transfers that overlap, but for those that fill the pipeline.
    const double steady = model.sends_overlap(plan) ? 0 : microbatches;
    const Seconds transfers = result.p2p * (steady + static_cast<double>(plan.pp - 1) / plan.vpp);
    result.bubble = fill;
    result.dp_exposed = slowest_dp;
    result.optimizer = slowest_optimizer;
    result.iteration_time = result.bottleneck * microbatches + fill + transfers + slowest_dp + slowest_optimizer +
                            scenario.software.iteration_time;
    result.p2p = transfers;
    if (result.peak_memory > capacity) result.shortfall = Shortfall{result.fullest_stage, result.peak_memory, capacity};
    return result;
}

}  // namespace plansim
