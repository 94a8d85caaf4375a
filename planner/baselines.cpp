// SPDX-License-Identifier: Apache-2.0
#include "planner/baselines.hpp"

#include <algorithm>

namespace plansim {
namespace {

/// The widest tensor-parallel degree inside a node that the model allows.
int node_wide_tp(const Scenario& scenario) {
    if (!scenario.workload.transformer) return 1;
    const Transformer& model = *scenario.workload.transformer;
    int tp = std::min(scenario.platform.devices_per_node, scenario.platform.devices);
    while (tp > 1 && (model.heads % tp != 0 || model.ffn % tp != 0 ||
                      (model.kv_heads % tp != 0 && tp % model.kv_heads != 0) || scenario.platform.devices % tp != 0))
        --tp;
    return tp;
}

}  // namespace

std::optional<Plan> megatron_baseline(CostModel& model) {
    const Scenario& scenario = model.scenario();
    Plan plan;
    plan.workload = scenario.workload.name;
    plan.platform = scenario.platform.name;
    plan.software = scenario.software.name;
    plan.gbs = scenario.workload.gbs;
    plan.tp = node_wide_tp(scenario);
    plan.etp = plan.tp;
    plan.sequence_parallel = plan.tp > 1 && scenario.software.sequence_parallel && scenario.workload.seq % plan.tp == 0;
    const int rest = scenario.platform.devices / plan.tp;
    const std::int64_t units =
        scenario.workload.transformer ? scenario.workload.transformer->all_layers() : scenario.workload.chain_length();
    for (const Recompute recompute : {Recompute::none, Recompute::full})
        for (int pp = 1; pp <= std::min<std::int64_t>(rest, units); ++pp) {
            if (rest % pp != 0 || plan.gbs % (rest / pp) != 0) continue;
            plan.pp = pp;
            plan.dp = rest / pp;
            plan.zero = plan.dp > 1 ? static_cast<int>(scenario.software.zero) : 0;
            plan.recompute.assign(static_cast<std::size_t>(pp), recompute);
            plan.stages = even_stages(scenario.workload, plan.shape());
            if (!estimate(model, plan, planned_capacity(scenario)).shortfall) return plan;
        }
    return std::nullopt;
}

}  // namespace plansim
