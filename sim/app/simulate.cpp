// SPDX-License-Identifier: Apache-2.0
// plansim simulate: replays one plan.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "sim/app/commands.hpp"
#include "sim/app/report_folder.hpp"
#include "sim/app/text_report.hpp"
#include "sim/base/error.hpp"

namespace plansim {
namespace {

struct SimulateOptions {
    std::string plan_file;
    std::string inline_plan;
    std::string out;
    bool allow_oom = false;
};

void simulate(const CommonOptions& common, const SimulateOptions& options) {
    if (options.plan_file.empty() == options.inline_plan.empty())
        throw UsageError("simulate: give one plan, as a file or with --plan \"tp=8 pp=4 ...\"");
    const std::string& text = options.plan_file.empty() ? options.inline_plan : options.plan_file;
    const Scenario scenario = load_scenario(common.documents);
    const Plan plan = load_plan(text, scenario, parse_sets(common.documents.sets).plan);
    if (!options.out.empty()) {
        check_report_folder(options.out);
        make_report_folder(options.out);
    }
    Json outcome = simulate_plan(scenario, plan, {common.replay, options.out});
    outcome["format"] = 1;
    warn_about_idle_overrides(common.documents, text);
    if (!options.out.empty()) write_report(options.out, outcome, to_yaml(plan, scenario.workload));
    if (common.format == OutputFormat::json)
        std::cout << json_text(outcome);
    else
        std::cout << simulate_text(outcome);
    const Json& memory = outcome["memory"];
    if (memory["fits"].get<bool>() || options.allow_oom) return;
    std::cout.flush();
    const Json* fullest = &memory["per_stage"].front();
    for (const Json& stage : memory["per_stage"])
        if (stage["peak_bytes"].get<std::int64_t>() > (*fullest)["peak_bytes"].get<std::int64_t>()) fullest = &stage;
    const std::int64_t missing =
        memory["peak_bytes"].get<std::int64_t>() - memory["capacity_bytes"].get<std::int64_t>();
    throw InfeasibleError(fmt::format(
        "the plan does not fit: stage {} needs {} bytes of {}; {} bytes ({}) are short (--allow-oom shows the "
        "result all the same)",
        (*fullest)["stage"].get<int>(), memory["peak_bytes"].get<std::int64_t>(),
        memory["capacity_bytes"].get<std::int64_t>(), missing, bytes_text(missing)));
}

}  // namespace

void add_simulate(CLI::App& app, CommonOptions& common) {
    CLI::App* command = app.add_subcommand("simulate", "replay one plan event by event");
    auto options = std::make_shared<SimulateOptions>();
    add_document_options(*command, common);
    command->add_option("PLAN", options->plan_file, "plan file");
    command->add_option("--plan", options->inline_plan,
                        "inline plan, e.g. \"tp=8 pp=8 dp=16 mbs=1 schedule=1f1b recompute=full\"");
    add_replay_options(*command, common);
    command->add_option("--out", options->out, "write the report folder")->type_name("DIR");
    command->add_flag("--allow-oom", options->allow_oom, "exit code 0 even if the plan does not fit into memory");
    add_output_options(*command, common);
    command->footer(
        "Example: plansim simulate gpt3-175b dgx-a100 --devices 1024 --plan \"tp=8 pp=8 dp=16 mbs=1 recompute=full\"");
    command->callback([&common, options] { simulate(common, *options); });
}

}  // namespace plansim
