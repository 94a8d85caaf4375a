// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/data_parallel.hpp"

#include <algorithm>

namespace plansim {
namespace {

constexpr double kOuterBytes = 4;  // per parameter of an outer sum, fp32
// Per parameter of the outer optimizer: outer parameter and momentum read and written, move read, all fp32.
constexpr double kOuterOptimizerBytes = 20;
constexpr double kParameterBytes = 2;  // 16 bit, as gathered by ZeRO-1 and 2

void append(std::vector<DataCollective>& list, CollectiveKind kind, DataGroup group, double bytes) {
    if (bytes > 0) list.push_back({kind, group, Bytes::rounded(bytes)});
}

}  // namespace

void DataParameters::add(const UnitCost& unit) {
    dense += unit.parameters - unit.expert_parameters;
    experts += unit.expert_parameters;
    trained += unit.trained;
    trained_experts += unit.trained_experts;
}

void DataParameters::add(const DataParameters& more) {
    dense += more.dense;
    experts += more.experts;
    trained += more.trained;
    trained_experts += more.trained_experts;
}

bool gathers_every_pass(const Plan& plan) {
    return plan.zero == 3 && (plan.reshard_after_forward || plan.pp == 1);
}

bool gathers_again(const Plan& plan) {
    return plan.zero == 3 && plan.reshard_after_forward;
}

bool reduces_every_pass(const Plan& plan) {
    return plan.zero >= 2 && plan.pp == 1;
}

std::vector<DataCollective> reductions(const Plan& plan, const Software& software, const DataParameters& parameters) {
    std::vector<DataCollective> result;
    const double bytes = static_cast<double>(software.gradient_reduce_bytes);
    const double dense = bytes * static_cast<double>(parameters.trained);
    if (plan.data_ranks() > 1) {
        const bool hybrid = plan.owners() < plan.data_ranks();
        if (plan.zero == 0 || (plan.zero == 1 && hybrid)) {
            append(result, CollectiveKind::all_reduce, DataGroup::all, dense);
        } else {
            append(result, CollectiveKind::reduce_scatter, hybrid ? DataGroup::shard : DataGroup::all, dense);
            if (hybrid) append(result, CollectiveKind::all_reduce, DataGroup::copies, dense / plan.owners());
        }
    }
    if (plan.expert_data_ranks() > 1)
        append(result, plan.zero == 0 ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter, DataGroup::experts,
               bytes * static_cast<double>(parameters.trained_experts));
    return result;
}

std::vector<DataCollective> gatherings(const Plan& plan, const Software& software, const DataParameters& parameters) {
    std::vector<DataCollective> result;
    if (plan.zero == 0) return result;
    const bool sharded = plan.zero == 3;
    const double bytes = sharded ? software.gathered_bytes : kParameterBytes;
    const std::int64_t dense = sharded ? parameters.dense : parameters.trained;
    const std::int64_t experts = sharded ? parameters.experts : parameters.trained_experts;
    if (plan.owners() > 1)
        append(result, CollectiveKind::all_gather,
               plan.owners() < plan.data_ranks() ? DataGroup::shard : DataGroup::all,
               bytes * static_cast<double>(dense));
    if (plan.expert_data_ranks() > 1)
        append(result, CollectiveKind::all_gather, DataGroup::experts, bytes * static_cast<double>(experts));
    return result;
}

OuterStep outer_step(CostModel& model, const Plan& plan, int stage, const DataParameters& parameters, Seconds pass) {
    if (plan.outer_steps == 0 || plan.outer_replicas == 1) return {};
    const Software& software = model.scenario().software;
    const double share = static_cast<double>(parameters.trained) / plan.data_ranks() +
                         static_cast<double>(parameters.trained_experts) / plan.expert_data_ranks();
    const Seconds sum =
        model.dp_time(CollectiveKind::all_reduce, DataGroup::outer, plan, stage, Bytes::rounded(kOuterBytes * share));
    const Seconds window = pass * static_cast<double>(plan.microbatches() * plan.outer_overlap);
    const Seconds hidden = std::min(sum, window * software.dp_overlap_share);
    const Seconds exposed = sum - hidden + hidden * software.overlap_slowdown;
    const auto steps = static_cast<double>(plan.outer_steps);
    return {exposed / steps, model.memory_time(kOuterOptimizerBytes * share) / steps};
}

Seconds data_time(CostModel& model, const Plan& plan, int stage, const std::vector<DataCollective>& collectives) {
    Seconds total;
    for (const DataCollective& collective : collectives)
        total += model.dp_time(collective.kind, collective.group, plan, stage, collective.size);
    return total;
}

}  // namespace plansim
