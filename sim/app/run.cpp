// SPDX-License-Identifier: Apache-2.0
// plansim run: plan, replay the best plans and a textbook baseline, choose by simulated time, write the report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>

#include "planner/baselines.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/report_folder.hpp"
#include "sim/app/search_run.hpp"
#include "sim/app/text_report.hpp"
#include "sim/base/error.hpp"
#include "sim/base/log.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/table.hpp"

namespace plansim {
namespace {

constexpr int kReplayed = 3;  // best plans of the search that are replayed

struct Contestant {
    std::string name;
    Plan plan;
    Json outcome;
    [[nodiscard]] double analytic() const { return outcome["analytic"]["iteration_time_s"].get<double>(); }
    [[nodiscard]] double simulated() const { return outcome["iteration_time_s"].get<double>(); }
    [[nodiscard]] bool fits() const { return outcome["memory"]["fits"].get<bool>(); }
};

/// Spearman's rank correlation of analytic and simulated times, ties by mean rank.
double rank_correlation(const std::vector<Contestant>& contestants) {
    const auto ranks = [&](auto value) {
        std::vector<double> result;
        for (const Contestant& one : contestants) {
            double rank = 0.5;
            for (const Contestant& other : contestants)
                rank += value(other) < value(one) ? 1 : value(other) == value(one) ? 0.5 : 0;
            result.push_back(rank);
        }
        return result;
    };
    const auto formula = ranks([](const Contestant& one) { return one.analytic(); });
    const auto replay = ranks([](const Contestant& one) { return one.simulated(); });
    const double mean = (static_cast<double>(contestants.size()) + 1) / 2;
    double covariance = 0;
    double formula_variance = 0;
    double replay_variance = 0;
    for (std::size_t index = 0; index < contestants.size(); ++index) {
        covariance += (formula[index] - mean) * (replay[index] - mean);
        formula_variance += (formula[index] - mean) * (formula[index] - mean);
        replay_variance += (replay[index] - mean) * (replay[index] - mean);
    }
    return formula_variance == 0 || replay_variance == 0 ? 1
                                                         : covariance / std::sqrt(formula_variance * replay_variance);
}

std::string contest_text(const std::vector<Contestant>& contestants, std::size_t chosen) {
    Table table(
        {"", "candidate", "plan", ">formula", ">simulated", ">formula error", ">tokens/s", ">MFU", ">peak memory"});
    for (std::size_t index = 0; index < contestants.size(); ++index) {
        const Contestant& one = contestants[index];
        table.add({index == chosen ? "->" : "", one.name, summary(one.plan), to_human(Seconds(one.analytic())),
                   to_human(Seconds(one.simulated())),
                   fmt::format("{:+.1f} %", 100 * (one.analytic() / one.simulated() - 1)),
                   fmt::format("{:.0f}", one.outcome["tokens_per_s"].get<double>()),
                   fmt::format("{:.1f} %", 100 * one.outcome["mfu"].get<double>()),
                   bytes_text(one.outcome["memory"]["peak_bytes"]) + (one.fits() ? "" : " (does not fit)")});
    }
    return table.str();
}

std::vector<Contestant> assemble(const SearchRun& found, const Scenario& scenario) {
    std::vector<Contestant> contestants;
    for (std::size_t index = 0; index < found.result.best.size(); ++index)
        contestants.push_back({fmt::format("search {}", index + 1), found.result.best[index].plan, {}});
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    if (auto baseline = megatron_baseline(model)) {
        stamp(*baseline, scenario);
        contestants.push_back({"megatron baseline", std::move(*baseline), {}});
    }
    return contestants;
}

Json report_json(const std::vector<Contestant>& contestants, std::size_t chosen, const SearchRun& found,
                 const Json& recorded) {
    Json report{{"format", 1},
                {"candidates", Json::array()},
                {"chosen", chosen},
                {"rank_correlation", rank_correlation(contestants)}};
    for (const Contestant& one : contestants)
        report["candidates"].push_back({{"name", one.name},
                                        {"plan", one.outcome["plan"]},
                                        {"analytic_s", one.analytic()},
                                        {"simulated_s", one.simulated()},
                                        {"peak_memory_bytes", one.outcome["memory"]["peak_bytes"]},
                                        {"fits", one.fits()}});
    report["search"] = found.json;
    report["simulate"] = recorded;
    return report;
}

void run(const CommonOptions& common, const std::string& out) {
    const Scenario scenario = load_scenario(common.documents);
    check_report_folder(out);
    const SearchRun found = run_search(scenario, kReplayed, parse_sets(common.documents.sets).plan);
    std::vector<Contestant> contestants = assemble(found, scenario);
    {
        Progress progress("replaying", contestants.size());
        for (Contestant& one : contestants) {
            one.outcome = simulate_plan(scenario, one.plan, {common.replay, ""});
            progress.advance();
        }
    }
    std::size_t chosen = contestants.size();
    for (std::size_t index = 0; index < contestants.size(); ++index)
        if (contestants[index].fits() &&
            (chosen == contestants.size() || contestants[index].simulated() < contestants[chosen].simulated()))
            chosen = index;
    if (chosen == contestants.size())
        throw InfeasibleError("no candidate fits into memory once it is replayed: the formula was too optimistic");
    const Contestant& winner = contestants[chosen];
    make_report_folder(out);
    const Json recorded = simulate_plan(scenario, winner.plan, {common.replay, out});
    const Json report = report_json(contestants, chosen, found, recorded);
    const std::string plan_yaml = to_yaml(winner.plan, scenario.workload);
    write_report(out, report, plan_yaml);
    DocumentOptions documents = common.documents;
    // plan.* overrides constrained the search: the plan holds them anyway.
    std::erase_if(documents.sets, [](const std::string& set) { return set.starts_with("plan."); });
    warn_about_idle_overrides(documents, (std::filesystem::path(out) / "plan.yaml").string(),
                              winner.plan.gbs == scenario.workload.gbs);
    if (common.format == OutputFormat::json) {
        std::cout << json_text(report);
        return;
    }
    std::cout << simulate_text(recorded) << '\n' << contest_text(contestants, chosen);
    std::cout << fmt::format("{} plans searched, {} do not fit; rank correlation of formula and replay {:.2f}\n",
                             found.result.candidates, found.result.infeasible,
                             report["rank_correlation"].get<double>());
    std::cout << fmt::format(
        "report in {}: plan.yaml report.json trace.json devices.csv links.csv memory.csv (open trace.json in "
        "ui.perfetto.dev)\n",
        out);
}

}  // namespace

void add_run(CLI::App& app, CommonOptions& common) {
    CLI::App* command =
        app.add_subcommand("run", "plan, replay the best plans, choose by simulated time, write a report");
    auto out = std::make_shared<std::string>("plansim-out");
    add_document_options(*command, common);
    add_replay_options(*command, common);
    command->add_option("--out", *out, "report folder")->type_name("DIR")->capture_default_str();
    add_output_options(*command, common);
    command->footer("Example: plansim run llama3-70b dgx-h100 --devices 64");
    command->callback([&common, out] { run(common, *out); });
}

}  // namespace plansim
