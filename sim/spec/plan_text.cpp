// SPDX-License-Identifier: Apache-2.0
// Text forms of a plan: the stage list, the document, the inline form and the content hash.
#include "sim/spec/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "sim/base/error.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/spec/yaml_writer.hpp"

namespace plansim {
namespace {

/// A chunk as it stands in the document: first and last layer, or names of the first and last graph node ("a..b").
std::string chunk_text(const ChainRange& range, const Workload& workload) {
    if (workload.transformer) {
        const std::int64_t first = std::max<std::int64_t>(range.first, 1) - 1;
        const std::int64_t last = std::min(range.last, workload.transformer->all_layers() + 1) - 2;
        if (last < first) return range.first == 0 ? "embedding" : "head";
        return fmt::format("{}-{}", first, last);
    }
    const auto& nodes = workload.graph->nodes;
    const std::string& first = nodes[static_cast<std::size_t>(range.first)].name;
    const std::string& last = nodes[static_cast<std::size_t>(range.last - 1)].name;
    return first == last ? first : first + ".." + last;
}

std::optional<std::pair<std::int64_t, std::int64_t>> parse_layers(const std::string& text) {
    const auto dash = text.find('-');
    const auto first = parse_integer(text.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer(text.substr(dash + 1));
    if (!std::holds_alternative<std::int64_t>(first) || !std::holds_alternative<std::int64_t>(last))
        return std::nullopt;
    return std::pair{std::get<std::int64_t>(first), std::get<std::int64_t>(last)};
}

std::optional<std::pair<std::int64_t, std::int64_t>> parse_nodes(const std::string& text, const ExplicitGraph& graph) {
    const auto dots = text.find("..");
    const auto index_of = [&](const std::string& name) -> std::int64_t {
        for (std::size_t node = 0; node < graph.nodes.size(); ++node)
            if (graph.nodes[node].name == name) return static_cast<std::int64_t>(node);
        return -1;
    };
    const std::int64_t first = index_of(text.substr(0, dots));
    const std::int64_t last = dots == std::string::npos ? first : index_of(text.substr(dots + 2));
    if (first < 0 || last < 0) return std::nullopt;
    return std::pair{first, last};
}

/// The stage lists as text, [stage][chunk]; a stage with one chunk may be written without its own list.
std::vector<std::vector<std::string>> stage_texts(Reader& document, const Plan& plan) {
    std::vector<std::vector<std::string>> result;
    if (plan.vpp == 1) {
        for (auto& text : document.texts("stages"))
            result.push_back({std::move(text)});
        return result;
    }
    const auto flat = document.texts("stages");
    for (std::size_t start = 0; start < flat.size(); start += static_cast<std::size_t>(plan.vpp))
        result.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(start),
                            flat.begin() + static_cast<std::ptrdiff_t>(
                                               std::min(flat.size(), start + static_cast<std::size_t>(plan.vpp))));
    return result;
}

}  // namespace

void read_stages(Reader& document, Plan& plan, const Workload& workload) {
    const auto texts = stage_texts(document, plan);
    const auto expected = static_cast<std::size_t>(plan.pp);
    if (texts.size() != expected || (!texts.empty() && texts.back().size() != static_cast<std::size_t>(plan.vpp))) {
        std::size_t chunks = 0;
        for (const auto& stage : texts)
            chunks += stage.size();
        document.fail(
            "stages",
            fmt::format("{} chunks listed, but pp {} x vpp {} = {}", chunks, plan.pp, plan.vpp, plan.virtual_stages()),
            "list the chunks of stage 0 first, then those of stage 1, and so on");
        return;
    }
    plan.stages.assign(expected, std::vector<ChainRange>(static_cast<std::size_t>(plan.vpp)));
    const bool transformer = workload.transformer.has_value();
    const std::int64_t units = transformer ? workload.transformer->all_layers() : workload.chain_length();
    const std::string unit = transformer ? "layer" : "node";
    std::int64_t next = 0;
    const PipelineShape shape = plan.shape();
    for (int virtual_stage = 0; virtual_stage < plan.virtual_stages(); ++virtual_stage) {
        const auto stage = static_cast<std::size_t>(shape.stage_of(virtual_stage));
        const auto chunk = static_cast<std::size_t>(shape.chunk_of(virtual_stage));
        const bool starts = shape.source(virtual_stage, false) < 0;
        const bool ends = shape.target(virtual_stage, false) < 0;
        if (starts) next = 0;
        const std::string& text = texts[stage][chunk];
        const bool alone = transformer && ((starts && text == "embedding") || (ends && text == "head"));
        const auto range = alone         ? std::optional(std::pair{next, next - 1})
                           : transformer ? parse_layers(text)
                                         : parse_nodes(text, *workload.graph);
        if (!range)
            return document.fail("stages", fmt::format("'{}' is not a range of {}s", text, unit),
                                 transformer ? "write it like '0-9'" : "write it like 'first..last'");
        if (range->first != next)
            return document.fail("stages",
                                 fmt::format("stage {} chunk {} starts at {} {}, but {} {} is next", stage, chunk, unit,
                                             range->first, unit, next),
                                 range->first > next ? fmt::format("{} {} is in no stage", unit, next)
                                                     : fmt::format("{} {} is in two stages", unit, range->first));
        if (!alone && (range->second < range->first || range->second >= units))
            return document.fail("stages", fmt::format("'{}' leaves the model's {} {}s", text, units, unit));
        next = range->second + 1;
        plan.stages[stage][chunk] = {range->first, next};
        if (transformer) plan.stages[stage][chunk] = {range->first + (starts ? 0 : 1), next + 1 + (ends ? 1 : 0)};
        if (ends && next != units)
            return document.fail("stages", fmt::format("the stages end before {} {}", unit, next),
                                 fmt::format("the model has {}", units));
        // The two copies of DualPipe are cut alike: the pair of stages that shares parameters shares all of them.
        if (virtual_stage >= shape.stages && shape.copies() > 1 &&
            plan.range(virtual_stage) != plan.range(virtual_stage - shape.stages))
            return document.fail("stages",
                                 fmt::format("stage {} chunk 1 holds '{}', but stage {} chunk 0 holds '{}'", stage,
                                             text, virtual_stage - shape.stages,
                                             texts[static_cast<std::size_t>(virtual_stage - shape.stages)][0]),
                                 "both copies of dualpipe are cut alike");
    }
}

std::vector<std::pair<std::string, PlanValue>> plan_fields(const Plan& plan, const Workload& workload) {
    std::vector<std::pair<std::string, PlanValue>> fields{
        {"format", std::int64_t{1}},           {"workload", plan.workload},
        {"workload_hash", plan.workload_hash}, {"platform", plan.platform},
        {"platform_hash", plan.platform_hash}, {"software", plan.software},
        {"software_hash", plan.software_hash},
    };
    for (const auto& [key, degree] : {std::pair{"tp", plan.tp},
                                      {"pp", plan.pp},
                                      {"dp", plan.dp},
                                      {"cp", plan.cp},
                                      {"ep", plan.ep},
                                      {"vpp", plan.vpp}})
        fields.emplace_back(key, std::int64_t{degree});
    if (plan.ep > 1 || plan.etp != plan.tp) fields.emplace_back("etp", std::int64_t{plan.etp});
    if (plan.cp_exchange != ContextExchange::ring)
        fields.emplace_back("cp_exchange", std::string(name_of(plan.cp_exchange)));
    fields.emplace_back("sequence_parallel", plan.sequence_parallel);
    fields.emplace_back("mbs", plan.mbs);
    fields.emplace_back("gbs", plan.gbs);
    fields.emplace_back("zero", std::int64_t{plan.zero});
    // What is off by default is written only where it is used.
    if (plan.fsdp > 0) fields.emplace_back("fsdp", std::int64_t{plan.fsdp});
    if (plan.zero == 3) fields.emplace_back("reshard_after_forward", plan.reshard_after_forward);
    if (plan.lora > 0) fields.emplace_back("lora", plan.lora);
    if (plan.offload > 0) fields.emplace_back("offload", plan.offload);
    if (plan.offload_optimizer > 0) fields.emplace_back("offload_optimizer", plan.offload_optimizer);
    if (plan.offload_weights) fields.emplace_back("offload_weights", true);
    if (plan.outer_steps > 0) {
        fields.emplace_back("outer_steps", plan.outer_steps);
        fields.emplace_back("outer_replicas", std::int64_t{plan.outer_replicas});
        fields.emplace_back("outer_overlap", plan.outer_overlap);
    }
    fields.emplace_back("schedule", std::string(name_of(plan.schedule)));
    std::vector<std::string> recompute;
    for (const auto mode : plan.recompute)
        recompute.emplace_back(name_of(mode));
    if (std::adjacent_find(recompute.begin(), recompute.end(), std::not_equal_to<>()) == recompute.end())
        fields.emplace_back("recompute", recompute.front());
    else
        fields.emplace_back("recompute", recompute);
    if (const auto& layers = plan.recompute_layers; !layers.empty()) {
        if (std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) == layers.end())
            fields.emplace_back("recompute_layers", layers.front());
        else
            fields.emplace_back("recompute_layers", layers);
    }
    if (plan.recompute_modules != static_cast<unsigned>(RecomputeModule::core_attn)) {
        std::vector<std::string> modules;
        for (unsigned bit = 1; bit <= static_cast<unsigned>(RecomputeModule::products); bit *= 2)
            if ((plan.recompute_modules & bit) != 0) modules.emplace_back(name_of(static_cast<RecomputeModule>(bit)));
        fields.emplace_back("recompute_modules", std::move(modules));
    }
    std::vector<std::string> chunks;
    for (const auto& stage : plan.stages)
        for (const auto& range : stage)
            chunks.push_back(chunk_text(range, workload));
    fields.emplace_back("stages", std::move(chunks));
    if (plan.devices.empty())
        fields.emplace_back("placement", plan.order);
    else
        fields.emplace_back("placement", plan.devices);
    if (plan.idle_devices > 0) fields.emplace_back("idle_devices", std::int64_t{plan.idle_devices});
    return fields;
}

std::string to_yaml(const Plan& plan, const Workload& workload) {
    YamlWriter out;
    for (const auto& [key, value] : plan_fields(plan, workload)) {
        if (const auto* number = std::get_if<std::int64_t>(&value)) out.integer(key, *number);
        if (const auto* real = std::get_if<double>(&value)) out.number(key, *real);
        if (const auto* flag = std::get_if<bool>(&value)) out.flag(key, *flag);
        if (const auto* text = std::get_if<std::string>(&value)) out.text(key, *text);
        if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value)) out.integers(key, *numbers);
        if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) out.texts(key, *texts);
    }
    return out.str();
}

std::string inline_plan_to_yaml(const std::string& text) {
    std::stringstream words(text);
    std::string yaml = "{";
    for (std::string word; words >> word;) {
        const auto equals = word.find('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
            throw UsageError(fmt::format("plan: '{}' is not KEY=VALUE; write it like \"tp=8 pp=4 mbs=1\"", word));
        const std::string value = word.substr(equals + 1);
        const bool list = value.find(',') != std::string::npos && value.front() != '[';
        yaml += (yaml.size() > 1 ? ", " : "") + word.substr(0, equals) + ": " + (list ? "[" + value + "]" : value);
    }
    if (yaml.size() == 1) throw UsageError("plan: the inline plan is empty; write it like \"tp=8 pp=4 mbs=1\"");
    return yaml + "}";
}

std::string content_hash(const std::string& text) {
    std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a, 64 bit
    for (const char c : text)
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return fmt::format("{:016x}", hash);
}

}  // namespace plansim
