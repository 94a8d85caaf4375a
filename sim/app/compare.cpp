// SPDX-License-Identifier: Apache-2.0
// plansim compare: several plans side by side, simulated.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>

#include "planner/baselines.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/report_folder.hpp"
#include "sim/app/text_report.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/log.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/table.hpp"

namespace plansim {
namespace {

constexpr std::string_view kBaseline = "megatron";

struct CompareOptions {
    std::vector<std::string> plans;  // files, inline plans, baselines by name
    std::string grid;
    std::string out;
};

/// "tp=1,2 pp=1,2" -> "tp=1 pp=1", "tp=1 pp=2", ...
std::vector<std::string> expand_grid(const std::string& grid) {
    std::vector<std::string> cells{""};
    std::stringstream words(grid);
    for (std::string word; words >> word;) {
        const auto equals = word.find('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
            throw UsageError(
                fmt::format("--grid: '{}' is not KEY=VALUE,VALUE; write it like \"tp=1,2,4 pp=1,2\"", word));
        std::vector<std::string> next;
        for (const std::string& cell : cells) {
            std::stringstream values(word.substr(equals + 1));
            for (std::string value; std::getline(values, value, ',');) {
                if (value.empty()) throw UsageError(fmt::format("--grid: an empty value in '{}'", word));
                next.push_back(fmt::format("{}{}{}={}", cell, cell.empty() ? "" : " ", word.substr(0, equals), value));
            }
        }
        cells = std::move(next);
    }
    if (cells.size() == 1 && cells.front().empty())
        throw UsageError("--grid is empty; write it like \"tp=1,2,4 pp=1,2\"");
    return cells;
}

/// First line of an input error without its place: the reason why a cell is illegal.
std::string reason_of(const InputError& error) {
    std::string text = error.what();
    text = text.substr(0, text.find('\n'));
    const auto marker = text.find("error: ");
    return marker == std::string::npos ? text : text.substr(marker + 7);
}

Plan cell_plan(const std::string& name, const Scenario& scenario, const std::vector<Override>& overrides) {
    if (name != kBaseline) return load_plan(name, scenario, overrides);
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    auto plan = megatron_baseline(model);
    if (!plan) throw InputError("no plan by Megatron's rule of thumb fits");
    stamp(*plan, scenario);
    return *plan;
}

Json compare_cell(const std::string& name, const Scenario& scenario, const CommonOptions& common,
                  const std::vector<Override>& overrides) {
    Json cell{{"name", name}};
    Plan plan;
    try {
        plan = cell_plan(name, scenario, overrides);
    } catch (const InputError& error) {
        const bool file = name != kBaseline && name.find('=') == std::string::npos;
        if (file) throw;  // a broken file is the user's mistake, not an illegal cell
        cell["status"] = "illegal";
        cell["reason"] = reason_of(error);
        return cell;
    }
    const Json outcome = simulate_plan(scenario, plan, {common.replay, ""});
    const Json& memory = outcome["memory"];
    cell["plan"] = outcome["plan"];
    const bool fits = memory["fits"].get<bool>();
    cell["status"] = fits ? "ok" : "oom";
    if (fits) {
        cell["iteration_time_s"] = outcome["iteration_time_s"];
        cell["tokens_per_s"] = outcome["tokens_per_s"];
        cell["mfu"] = outcome["mfu"];
        cell["breakdown_s"] = outcome["breakdown_s"];
    } else {
        const std::int64_t missing =
            memory["peak_bytes"].get<std::int64_t>() - memory["capacity_bytes"].get<std::int64_t>();
        cell["reason"] = fmt::format("{} short of {}", bytes_text(missing), bytes_text(memory["capacity_bytes"]));
    }
    cell["peak_memory_bytes"] = memory["peak_bytes"];
    return cell;
}

std::string compare_text(const Json& cells) {
    Table table({"plan", "status", ">time", ">tokens/s", ">MFU", ">peak memory", "reason"});
    const Json* best = nullptr;
    for (const Json& cell : cells)
        if (cell["status"] == "ok" && (best == nullptr || cell["iteration_time_s"] < (*best)["iteration_time_s"]))
            best = &cell;
    for (const Json& cell : cells) {
        const bool ran = cell["status"] == "ok";
        table.add({cell["name"].get<std::string>(), cell["status"].get<std::string>() + (&cell == best ? " *" : ""),
                   ran ? seconds_text(cell["iteration_time_s"]) : "",
                   ran ? fmt::format("{:.0f}", cell["tokens_per_s"].get<double>()) : "",
                   ran ? fmt::format("{:.1f} %", 100 * cell["mfu"].get<double>()) : "",
                   cell.contains("peak_memory_bytes") ? bytes_text(cell["peak_memory_bytes"]) : "",
                   cell.value("reason", "")});
    }
    std::string text;
    if (best != nullptr)
        text = fmt::format("fastest: {} with {} per step\n\n", (*best)["name"].get<std::string>(),
                           seconds_text((*best)["iteration_time_s"]));
    return text + table.str();
}

void compare(const CommonOptions& common, const CompareOptions& options) {
    std::vector<std::string> names = options.plans;
    if (!options.grid.empty())
        for (auto& cell : expand_grid(options.grid))
            names.push_back(std::move(cell));
    if (names.empty()) throw UsageError("compare: name plans, or give --grid \"tp=1,2,4,8 pp=1,2,4\"");
    const Scenario scenario = load_scenario(common.documents);
    const Overrides overrides = parse_sets(common.documents.sets);
    if (!options.out.empty()) check_report_folder(options.out);
    Json json{{"format", 1}, {"cells", Json::array()}};
    std::string runnable;
    {
        Progress progress("replaying", names.size());
        for (const std::string& name : names) {
            Json cell = compare_cell(name, scenario, common, overrides.plan);
            if (cell["status"] != "illegal" && runnable.empty()) runnable = name;
            json["cells"].push_back(std::move(cell));
            progress.advance();
        }
    }
    if (!runnable.empty() && runnable != kBaseline) warn_about_idle_overrides(common.documents, runnable);
    const bool any = std::any_of(json["cells"].begin(), json["cells"].end(),
                                 [](const Json& cell) { return cell["status"] == "ok"; });
    if (!options.out.empty()) {
        make_report_folder(options.out);
        write_file(std::filesystem::path(options.out) / "compare.json", json_text(json));
    }
    std::cout << (common.format == OutputFormat::json ? json_text(json) : compare_text(json["cells"]));
    std::cout.flush();
    if (!any) throw InfeasibleError("no plan of the comparison fits and is legal");
}

}  // namespace

void add_compare(CLI::App& app, CommonOptions& common) {
    CLI::App* command = app.add_subcommand("compare", "simulate several plans side by side");
    auto options = std::make_shared<CompareOptions>();
    add_document_options(*command, common);
    command->add_option("PLAN", options->plans, "plan files, inline plans, or the baseline 'megatron'");
    command->add_option("--grid", options->grid, "all combinations, e.g. \"tp=1,2,4,8 pp=1,2,4 mbs=1,2\"");
    add_replay_options(*command, common);
    command->add_option("--out", options->out, "write compare.json")->type_name("DIR");
    add_output_options(*command, common);
    command->footer(
        "Example: plansim compare llama3-70b dgx-h100 --devices 64 --grid \"tp=1,2,4,8 pp=1,2,4,8 mbs=1,2\"");
    command->callback([&common, options] { compare(common, *options); });
}

}  // namespace plansim
