// SPDX-License-Identifier: Apache-2.0
#include "sim/app/nest/nest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/nest/chain.hpp"
#include "sim/base/error.hpp"
#include "sim/base/table.hpp"

namespace plansim {
namespace {

using nest::ChainPlan;
using nest::Costs;

/// Sequences per unit of time.
double throughput(double batch_time) {
    return nest::kSequencesPerBatch / batch_time;
}

std::vector<Costs> costs_of(const nest::Case& planned) {
    std::vector<Costs> costs;
    for (const nest::Profile& profile : planned.profiles)
        costs.emplace_back(planned, profile);
    return costs;
}

Json chain_json(const ChainPlan& plan, const std::vector<Costs>& costs) {
    const Costs& own = costs[plan.profile];
    Json stages = Json::array();
    for (std::size_t stage = 0; stage + 1 < plan.cuts.size(); ++stage)
        stages.push_back(plan.cuts[stage + 1] - plan.cuts[stage]);
    return {{"pp", plan.pp()},
            {"tp", own.profile().tp},
            {"dp", plan.dp},
            {"devices", plan.pp() * plan.dp * own.profile().group},
            {"stage_nodes", stages}};
}

/// Throughput, plan and memory of a chain plan by the formula of these costs.
Json scored(const ChainPlan& plan, const std::vector<Costs>& costs) {
    const Costs& own = costs[plan.profile];
    const std::int64_t peak = nest::chain_bytes(own, plan);
    Json json{{"throughput", throughput(nest::chain_time(own, plan))}};
    json.update(chain_json(plan, costs));
    json["peak_memory_bytes"] = peak;
    json["fits"] = peak <= own.planned().memory_bytes;
    return json;
}

Json rivals_json(const std::vector<nest::Rival>& rivals, const std::vector<Costs>& costs) {
    Json json = Json::array();
    for (const nest::Rival& rival : rivals) {
        const std::optional<nest::RivalScore> found = nest::score(rival, costs);
        if (!found) continue;
        Json row{{"name", rival.name}};
        if (found->shipped) row["shipped"] = throughput(*found->shipped);
        if (found->fair) row["fair"] = throughput(*found->fair);
        row["pp"] = rival.pp;
        row["tp"] = rival.tp;
        row["dp"] = found->plan.dp;
        json.push_back(row);
    }
    return json;
}

/// One formula: the given plan of NEST, and the best of NEST's space by this formula.
Json formula_json(const char* name, const ChainPlan& nest_plan, const std::vector<Costs>& costs,
                  const std::vector<nest::Rival>& rivals) {
    const double start = cpu_seconds();
    const ChainPlan best = nest::best_chain(costs);
    Json json{{"formula", name}, {"nest", scored(nest_plan, costs)}};
    if (std::isfinite(best.time)) {
        json["ours"] = {{"throughput", throughput(best.time)}, {"plan", chain_json(best, costs)}};
        json["proven_optimal"] = true;  // over NEST's space, by this formula
        json["bound"] = throughput(best.time);
    }
    json["baselines"] = rivals_json(rivals, costs);
    json["cpu_s"] = cpu_seconds() - start;
    return json;
}

[[noreturn]] void explain_infeasible(const nest::Case& planned, const std::vector<Costs>& costs) {
    std::string text = fmt::format("{}: nothing fits into {} bytes on {} devices:", planned.name, planned.memory_bytes,
                                   planned.devices);
    for (const Costs& each : costs) {
        std::int64_t most = 0;
        for (std::size_t node = 0; node < each.nodes(); ++node)
            most = std::max(most, nest::stage_bytes(each, node, node + 1, 1));
        text += most > planned.memory_bytes
                    ? fmt::format(" width {}: one node alone takes {} bytes", each.profile().tp, most)
                    : fmt::format(" width {}: {} groups are too few stages", each.profile().tp, each.groups());
    }
    throw InfeasibleError(text);
}

}  // namespace

Json nest_report(const NestRequest& request) {
    const nest::Case shipped = nest::read_case(request.file, request.devices);
    const std::vector<Costs> costs = costs_of(shipped);
    const std::vector<nest::Rival> rivals = nest_rivals(shipped);
    const ChainPlan nest_plan = nest::best_chain(costs);
    if (!std::isfinite(nest_plan.time)) explain_infeasible(shipped, costs);

    Json report{{"format", 1}, {"case", shipped.name}, {"devices", shipped.devices}, {"cases", Json::array()}};
    const auto wanted = [&](const char* formula) { return request.formula.empty() || request.formula == formula; };
    if (wanted("as-shipped")) report["cases"].push_back(formula_json("as-shipped", nest_plan, costs, rivals));
    if (wanted("corrected")) {
        const nest::Case corrected = nest::correct(shipped, {}, nest_heads());
        ChainPlan moved = nest_plan;
        if (corrected.profiles[moved.profile].nodes.size() > moved.cuts.back()) ++moved.cuts.back();  // the head
        Json json = formula_json("corrected", moved, costs_of(corrected), rivals);
        json["head_known"] = corrected.head_known;
        report["cases"].push_back(json);
    }
    report["cpu_s"] = cpu_seconds();
    return report;
}

std::string nest_text(const Json& report) {
    std::string text = fmt::format("{} on {} devices, {:.2f} s of CPU\n", report["case"].get<std::string>(),
                                   report["devices"].get<std::int64_t>(), report["cpu_s"].get<double>());
    Table table({"formula", "plan of", ">pp", ">tp", ">dp", ">throughput", ">of NEST's"});
    for (const Json& each : report["cases"]) {
        const std::string formula = each["formula"];
        const double reference = each["nest"]["throughput"];
        const auto add = [&](const std::string& who, const Json& plan, double value) {
            table.add({formula, who, fmt::format("{}", plan["pp"].get<std::int64_t>()),
                       fmt::format("{}", plan["tp"].get<std::int64_t>()),
                       fmt::format("{}", plan["dp"].get<std::int64_t>()), fmt::format("{:.6g}", value),
                       fmt::format("{:.3f}", value / reference)});
        };
        add("NEST", each["nest"], reference);
        if (each.contains("ours")) add("plansim", each["ours"]["plan"], each["ours"]["throughput"]);
        for (const Json& rival : each["baselines"])
            for (const char* how : {"shipped", "fair"})
                if (rival.contains(how))
                    add(fmt::format("{} ({})", rival["name"].get<std::string>(), how), rival, rival[how]);
    }
    return text + table.str();
}

}  // namespace plansim
