// SPDX-License-Identifier: Apache-2.0
// plansim describe: what a document amounts to.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iostream>
#include <memory>

#include "sim/app/commands.hpp"
#include "sim/app/text_report.hpp"
#include "sim/base/error.hpp"
#include "sim/base/log.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/table.hpp"
#include "sim/graph/block.hpp"

namespace plansim {
namespace {

struct Subject {
    DocumentKind kind;
    std::filesystem::path path;
};

/// A catalogue name, or a file that is recognised by its keys.
Subject find_subject(const std::string& name_or_file) {
    const auto listed = [&](DocumentKind kind) {
        const auto names = catalogue(kind);
        return std::find(names.begin(), names.end(), name_or_file) != names.end();
    };
    for (const auto kind :
         {DocumentKind::workload, DocumentKind::platform, DocumentKind::accelerator, DocumentKind::software})
        if (listed(kind)) return {kind, find_document(name_or_file, kind)};
    std::error_code ignored;
    if (!std::filesystem::exists(name_or_file, ignored)) {
        std::vector<std::string> names;
        for (const auto kind :
             {DocumentKind::workload, DocumentKind::platform, DocumentKind::accelerator, DocumentKind::software})
            for (auto& name : catalogue(kind))
                names.push_back(std::move(name));
        const std::string guess = nearest_name(name_or_file, names);
        throw InputError(fmt::format("'{}' is neither a file nor a name of the catalogue{}", name_or_file,
                                     guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess)));
    }
    Diagnostics problems;
    const Reader document = Reader::open(name_or_file, {}, problems);
    problems.throw_if_any();
    const auto has_any = [&](std::initializer_list<std::string_view> keys) {
        return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return document.has(key); });
    };
    // Several keys of each, so that a document with a missing or misspelt one is still judged as what it is.
    if (has_any({"transformer", "graph"})) return {DocumentKind::workload, name_or_file};
    if (has_any({"peak", "hbm", "compute_units"})) return {DocumentKind::accelerator, name_or_file};
    if (has_any({"accelerator", "node", "devices", "fabric"})) return {DocumentKind::platform, name_or_file};
    if (has_any({"tp", "pp", "dp", "stages", "schedule"})) return {DocumentKind::plan, name_or_file};
    if (has_any({"seq", "gbs", "dtype", "optimizer"})) return {DocumentKind::workload, name_or_file};
    return {DocumentKind::software, name_or_file};
}

Json describe_workload(const Subject& subject, const std::vector<Override>& overrides, Diagnostics& problems) {
    const Workload workload = read_workload(Reader::open(subject.path, overrides, problems));
    problems.throw_if_any();
    const ModelTotals totals = model_totals(workload);
    return {
        {"kind", "workload"},
        {"name", workload.name},
        {"parameters", totals.parameters},
        {"active_parameters", totals.active_parameters},
        {"flops_per_token",
         {{"forward", totals.forward_flops_per_token.value()}, {"training", totals.training_flops_per_token.value()}}},
        {"activation_bytes_per_token", totals.activations_per_token.value()},
        {"layers", workload.transformer ? workload.transformer->layers : workload.chain_length()},
        {"seq", workload.seq},
        {"gbs", workload.gbs},
        {"tokens_per_step", workload.tokens_per_step()},
        {"dtype", name_of(workload.dtype)}};
}

/// Keys that documents may hold but that no model of time or memory reads yet.
std::vector<std::string> keys_without_effect(const Platform& platform) {
    std::vector<std::string> keys{"accelerator.on_chip_memory", "accelerator.name"};
    if (!platform.accelerator.aliases.empty()) keys.emplace_back("accelerator.aliases");
    if (platform.accelerator.power.tdp > Watts(0)) keys.emplace_back("accelerator.power");
    keys.emplace_back("node.cooling");
    if (platform.accelerator.wave_quantised)
        keys.emplace_back("accelerator.matrix_padding");
    else
        for (const auto* key : {"accelerator.compute_units", "accelerator.efficiency.wave_quantisation",
                                "accelerator.efficiency.tile_overhead_k"})
            keys.emplace_back(key);
    if (platform.nodes() == 1 && platform.node_fabric.kind != FabricKind::none) keys.emplace_back("fabric (one node)");
    if (platform.node_fabric.kind == FabricKind::none)
        keys.emplace_back("node.fabric.collectives (no fabric in the node)");
    return keys;
}

Json describe_platform(const Subject& subject, const std::vector<Override>& overrides, int devices,
                       Diagnostics& problems) {
    const Platform platform = load_platform(subject.path, overrides, devices, problems);
    problems.throw_if_any();
    const Topology topology(platform);
    Json peak;
    for (const auto& [precision, rate] : platform.accelerator.peak)
        peak[std::string(name_of(precision))] = rate.value();
    double inter_node = platform.fabric.bandwidth.value();
    if (platform.fabric.kind == FabricKind::fat_tree || platform.fabric.kind == FabricKind::spine_leaf)
        inter_node *= platform.fabric.nics;
    Json json{{"kind", "platform"},
              {"name", platform.name},
              {"accelerator", platform.accelerator.name},
              {"devices", platform.devices},
              {"nodes", platform.nodes()},
              {"peak_FLOPS", peak},
              {"hbm_bytes", platform.accelerator.hbm_capacity.value()},
              {"hbm_Bps", platform.accelerator.hbm_bandwidth.value()}};
    if (platform.node_fabric.kind == FabricKind::nvswitch)
        json["intra_node_Bps"] = platform.node_fabric.bandwidth.value();
    if (inter_node > 0) json["inter_node_Bps"] = inter_node;  // of one node (torus: of one link), per direction
    json["bisection_Bps"] = topology.bisection().value();
    json["links"] = topology.links().size();
    json["fabric"] = name_of(platform.fabric.kind);
    json["keys_without_effect"] = keys_without_effect(platform);
    return json;
}

Json describe_plan(const Subject& subject, DocumentOptions documents, const std::vector<Override>& overrides,
                   Diagnostics& problems) {
    const Reader document = Reader::open(subject.path, overrides, problems);
    Reader names = document;
    for (const auto& [key, target] : {std::pair{"workload", &documents.workload},
                                      {"platform", &documents.platform},
                                      {"software", &documents.software}})
        if (target->empty() || std::string_view(key) == "software") *target = names.text(key, *target);
    if (documents.workload.empty() || documents.platform.empty())
        throw UsageError("describe: the plan names no workload and platform; it cannot be described without");
    std::int64_t devices = 1;
    for (const auto* degree : {"tp", "pp", "dp", "cp"})
        devices = std::min<std::int64_t>(devices * names.integer_or(degree, 1, Range{1, kMostDevices}),
                                         static_cast<std::int64_t>(kMostDevices));
    problems.throw_if_any();
    if (documents.devices == 0) documents.devices = static_cast<int>(devices);
    const Scenario scenario = load_scenario(documents);
    const Plan plan = load_plan(subject.path.string(), scenario, overrides);
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const Estimate formula = estimate(model, plan);
    Json stages = Json::array();
    for (int stage = 0; stage < plan.pp; ++stage) {
        const StagePeak peak = stage_peak(model, plan, stage);
        stages.push_back({{"stage", stage},
                          {"weights_bytes", peak.weights.value()},
                          {"gradients_bytes", peak.gradients.value()},
                          {"optimizer_bytes", peak.optimizer.value()},
                          {"activations_bytes", peak.activations.value()},
                          {"buffers_bytes", peak.buffers.value()},
                          {"peak_bytes", peak.total().value()}});
    }
    const Bytes capacity = scenario.platform.accelerator.hbm_capacity;
    return {{"kind", "plan"},
            {"plan", plan_json(plan, scenario.workload)},
            {"analytic", estimate_json(formula)},
            {"memory",
             {{"peak_bytes", formula.peak_memory.value()},
              {"capacity_bytes", capacity.value()},
              {"fits", !formula.shortfall.has_value()},
              {"per_stage", stages}}}};
}

/// Nested objects become dotted keys; amounts get units people read.
void print_rows(const Json& json, const std::string& prefix, Table& table) {
    for (const auto& [key, value] : json.items()) {
        const std::string name = prefix.empty() ? key : fmt::format("{}.{}", prefix, key);
        if (value.is_object() || (value.is_array() && !value.empty() && value.front().is_object())) {
            print_rows(value, name, table);
            continue;
        }
        const auto ends = [&key = key](std::string_view suffix) {
            return key.size() > suffix.size() && key.ends_with(suffix);
        };
        std::string text = value.is_string() ? value.get<std::string>() : value.dump();
        if (ends("_bytes") || ends("bytes_per_token")) text = bytes_text(value);
        if (ends("_Bps")) text = to_human(BytesPerSecond(value.get<double>()));
        if (ends("_time_s")) text = seconds_text(value);
        if (prefix == "peak_FLOPS") text = to_human(FlopsPerSecond(value.get<double>()));
        if (prefix == "flops_per_token") text = fmt::format("{:.4g} GFLOP", value.get<double>() / 1e9);
        table.add({name, text});
    }
}

/// An option for another kind of document would change nothing: the user meant something else.
void check_options(const Subject& subject, const std::string& name, const DocumentOptions& options) {
    if (subject.kind == DocumentKind::plan) return;  // needs all the others
    const std::string kind = subject.kind == DocumentKind::workload      ? "workload"
                             : subject.kind == DocumentKind::platform    ? "platform"
                             : subject.kind == DocumentKind::accelerator ? "accelerator"
                                                                         : "software";
    for (const std::string& set : options.sets)
        if (!set.starts_with(kind + "."))
            throw UsageError(fmt::format("--set {}: '{}' is a {} document", set, name, kind));
    if (options.devices > 0 && subject.kind != DocumentKind::platform)
        throw UsageError(fmt::format("--devices {}: '{}' is a {} document", options.devices, name, kind));
}

void describe(const CommonOptions& common, const std::string& name_or_file) {
    const Overrides overrides = parse_sets(common.documents.sets);
    const Subject subject = find_subject(name_or_file);
    check_options(subject, name_or_file, common.documents);
    Diagnostics problems;
    Json json{{"format", 1}};
    switch (subject.kind) {
        case DocumentKind::workload:
            json.update(describe_workload(subject, overrides.workload, problems));
            break;
        case DocumentKind::platform:
            json.update(describe_platform(subject, overrides.platform, common.documents.devices, problems));
            break;
        case DocumentKind::plan:
            json.update(describe_plan(subject, common.documents, overrides.plan, problems));
            break;
        case DocumentKind::accelerator: {
            const Accelerator accelerator = read_accelerator(Reader::open(subject.path, {}, problems));
            problems.throw_if_any();
            json.update({{"kind", "accelerator"}, {"name", accelerator.name}, {"document", to_yaml(accelerator)}});
            break;
        }
        case DocumentKind::rules:  // never found by name: rules are read by validate alone
        case DocumentKind::software: {
            const Software software = read_software(Reader::open(subject.path, overrides.software, problems));
            problems.throw_if_any();
            json.update({{"kind", "software"}, {"name", software.name}, {"document", to_yaml(software)}});
            break;
        }
    }
    if (common.format == OutputFormat::json) {
        std::cout << json_text(json);
        return;
    }
    if (json.contains("document")) {
        std::cout << json["document"].get<std::string>();
        return;
    }
    json.erase("format");
    Table table({json["kind"].get<std::string>(), ""});
    json.erase("kind");
    print_rows(json, "", table);
    std::cout << table.str();
}

}  // namespace

void add_describe(CLI::App& app, CommonOptions& common) {
    CLI::App* command =
        app.add_subcommand("describe", "what a workload, platform, accelerator, software profile or plan amounts to");
    auto name = std::make_shared<std::string>();
    command->add_option("NAME_OR_FILE", *name, "a file, or a name of the catalogue")->required();
    command->add_option("--devices", common.documents.devices, "scale the platform to N devices")
        ->check(CLI::Range(1, static_cast<int>(kMostDevices)))
        ->type_name("N");
    command->add_option("--set", common.documents.sets, "override a key, e.g. workload.seq=8192; repeatable")
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    add_output_options(*command, common);
    command->footer("Example: plansim describe llama3-70b");
    command->callback([&common, name] { describe(common, *name); });
}

}  // namespace plansim
