// SPDX-License-Identifier: Apache-2.0
// plansim plan: searches by formula only.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "planner/search.hpp"
#include "sim/app/commands.hpp"
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
};

void plan(const CommonOptions& common, const PlanOptions& options) {
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
    command->add_option("-o,--output", options->file, "write the best plan")->type_name("FILE");
    command->add_option("--top", options->top, "number of plans to show")
        ->check(CLI::Range(1, 1000))
        ->type_name("K")
        ->capture_default_str();
    add_output_options(*command, common);
    command->footer("Example: plansim plan llama3-70b dgx-h100 --devices 64 --top 5 -o plan.yaml");
    command->callback([&common, options] { plan(common, *options); });
}

}  // namespace plansim
