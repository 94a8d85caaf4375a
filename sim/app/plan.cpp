// SPDX-License-Identifier: Apache-2.0
// plansim plan: searches by formula only, but for --nest, which replays.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "planner/search.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/nest/nest.hpp"
#include "sim/app/search_run.hpp"
#include "sim/app/text_report.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/table.hpp"

namespace plansim {
namespace {

struct PlanOptions {
    std::string file;
    int top = 3;
    NestRequest nest;
};

void plan_nest(const CommonOptions& common, NestRequest request) {
    if (common.documents.devices > 0) request.devices = common.documents.devices;
    const Json report = nest_report(request);
    std::cout << (common.format == OutputFormat::json ? json_text(report) : nest_text(report));
}

void plan(const CommonOptions& common, const PlanOptions& options) {
    if (!options.nest.file.empty()) return plan_nest(common, options.nest);
    for (const auto& [name, value] :
         {std::pair{"WORKLOAD", common.documents.workload}, std::pair{"PLATFORM", common.documents.platform}})
        if (value.empty()) throw UsageError(fmt::format("{} is required; see plansim plan --help", name));
    const Scenario scenario = load_scenario(common.documents);
    const SearchRun found = run_search(scenario, options.top, parse_sets(common.documents.sets).plan);
    Json json{{"format", 1}, {"plans", Json::array()}};
    for (std::size_t index = 0; index < found.result.best.size(); ++index) {
        const Candidate& candidate = found.result.best[index];
        json["plans"].push_back({{"rank", index + 1},
                                 {"plan", plan_json(candidate.plan, scenario.workload)},
                                 {"analytic", estimate_json(candidate.estimate)},
                                 {"why", candidate.why}});
    }
    json["search"] = found.json;
    if (!options.file.empty()) write_file(options.file, to_yaml(found.result.best.front().plan, scenario.workload));
    if (common.format == OutputFormat::json) {
        std::cout << json_text(json);
        return;
    }
    std::cout << search_text(found, scenario);
    for (const Candidate& candidate : found.result.best)
        std::cout << fmt::format("\n{}\n  {}\n", summary(candidate.plan), candidate.why);
}

}  // namespace

void add_plan(CLI::App& app, CommonOptions& common) {
    CLI::App* command = app.add_subcommand("plan", "search plans by formula only");
    auto options = std::make_shared<PlanOptions>();
    add_document_options(*command, common);
    for (const char* name : {"WORKLOAD", "PLATFORM"})
        command->get_option(name)->required(false);  // --nest brings its own; plan() checks
    command->add_option("--nest", options->nest.file, "plan a layer-profile case of NEST and score it by replay too")
        ->type_name("CASE.json")
        ->excludes("WORKLOAD");
    command->add_option("--formula", options->nest.formula, "with --nest: only as-shipped, corrected or replay")
        ->check(CLI::IsMember({"as-shipped", "corrected", "replay"}))
        ->needs("--nest");
    command->add_option("-o,--output", options->file, "write the best plan")->type_name("FILE");
    command->add_option("--top", options->top, "number of plans to show")
        ->check(CLI::Range(1, 1000))
        ->type_name("K")
        ->capture_default_str();
    add_output_options(*command, common);
    command->footer(
        "Example: plansim plan llama3-70b dgx-h100 --devices 64 --top 5 -o plan.yaml\n"
        "         plansim plan --nest tests/data/nest/tpuv4_fatTree_mbs1_llama2.json --devices 64");
    command->callback([&common, options] { plan(common, *options); });
}

}  // namespace plansim
