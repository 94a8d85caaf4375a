// SPDX-License-Identifier: Apache-2.0
#include "sim/spec/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "sim/spec/plan_text.hpp"

namespace plansim {
namespace {

constexpr std::array<std::pair<std::string_view, RecomputeModule>, 8> kModules{
    {{"core_attn", RecomputeModule::core_attn},
     {"mlp", RecomputeModule::mlp},
     {"moe", RecomputeModule::moe},
     {"moe_act", RecomputeModule::moe_act},
     {"mla_up_proj", RecomputeModule::mla_up_proj},
     {"layernorm", RecomputeModule::layernorm},
     {"elementwise", RecomputeModule::elementwise},
     {"products", RecomputeModule::products}}};

constexpr std::array<std::pair<std::string_view, ContextExchange>, 2> kContextExchanges{
    {{"ring", ContextExchange::ring}, {"all_to_all", ContextExchange::all_to_all}}};

constexpr Range kDegree{1, kMostDevices};

void read_degrees(Reader& document, Plan& plan, const Platform& platform) {
    plan.tp = static_cast<int>(document.integer_or("tp", 1, kDegree));
    plan.pp = static_cast<int>(document.integer_or("pp", 1, kDegree));
    plan.cp = static_cast<int>(document.integer_or("cp", 1, kDegree));
    plan.ep = static_cast<int>(document.integer_or("ep", 1, kDegree));
    plan.vpp = static_cast<int>(document.integer_or("vpp", 1, kDegree));
    // Each factor is at most kMostDevices = 2^20, so three of them fit into 64 bits but not four.
    const std::int64_t others = std::int64_t{plan.tp} * plan.pp * plan.cp;
    const std::int64_t fallback = std::max<std::int64_t>(1, platform.devices / std::max<std::int64_t>(1, others));
    plan.dp = static_cast<int>(document.integer_or("dp", fallback, kDegree));
    plan.cp_exchange = document.one_of_or<ContextExchange>("cp_exchange", kContextExchanges, ContextExchange::ring);
    const bool countable = others <= static_cast<std::int64_t>(kMostDevices);
    const std::int64_t ranks = countable ? others * plan.dp : others;
    const std::string hint = "let the degrees multiply to the devices, or give --devices or idle_devices";
    if (!countable)
        return document.fail("tp",
                             fmt::format("tp {} x pp {} x cp {} = {} ranks, but the platform has {} devices", plan.tp,
                                         plan.pp, plan.cp, others, platform.devices),
                             hint);
    const std::int64_t left = platform.devices - ranks;
    std::int64_t idle = 0;
    if (document.is_flag("idle_devices"))
        idle = document.flag("idle_devices") ? std::max<std::int64_t>(left, 0) : 0;
    else
        idle = document.integer_or("idle_devices", 0, Range{0, kMostDevices});
    plan.idle_devices = static_cast<int>(idle);
    if (left == idle) return;
    std::string text = fmt::format("tp {} x pp {} x cp {} x dp {} = {} ranks, but the platform has {} devices", plan.tp,
                                   plan.pp, plan.cp, plan.dp, ranks, platform.devices);
    if (idle > 0) text += fmt::format(", {} of them idle", idle);
    document.fail(document.has("dp") ? "dp" : "tp", text, hint);
}

/// Experts are spread over consecutive ranks of a stage, with or without being split by tensor parallelism themselves.
void read_expert_degrees(Reader& document, Plan& plan, const Workload& workload) {
    const std::int64_t experts = workload.transformer ? workload.transformer->experts : 0;
    plan.etp = static_cast<int>(document.integer_or("etp", plan.ep > 1 ? 1 : plan.tp, kDegree));
    if (experts == 0) {
        if (plan.ep > 1) document.fail("ep", fmt::format("'{}' has no experts to spread", workload.name), "use ep=1");
        return;
    }
    if (plan.etp != 1 && plan.etp != plan.tp)
        document.fail("etp",
                      fmt::format("experts are split over 1 or all of the {} tp ranks, not {}", plan.tp, plan.etp),
                      fmt::format("use etp=1 or etp={}", plan.tp));
    else if (experts % plan.ep != 0)
        document.fail("ep", fmt::format("{} experts are not divisible by ep {}", experts, plan.ep),
                      "ep must divide experts");
    else if (const std::int64_t ranks = std::int64_t{plan.tp} * plan.cp * (plan.dp / plan.outer_replicas);
             ranks % (std::int64_t{plan.ep} * plan.etp) != 0)
        document.fail("ep",
                      fmt::format("{} ranks of a stage do not divide into ep {} x etp {}", ranks, plan.ep, plan.etp),
                      "ep x etp must divide tp x cp x dp");
}

void read_zero(Reader& document, Plan& plan, const Software& software) {
    plan.zero = static_cast<int>(document.integer_or("zero", plan.data_ranks() > 1 ? software.zero : 0, Range{0, 3}));
    plan.fsdp = static_cast<int>(document.integer_or("fsdp", 0, Range{0, kMostDevices}));
    if (plan.fsdp > 0 && plan.zero == 0) document.fail("fsdp", "nothing is sharded under zero=0", "use zero=1, 2 or 3");
    if (plan.fsdp > 0 && plan.data_ranks() % plan.fsdp != 0)
        document.fail(
            "fsdp", fmt::format("{} data-parallel ranks do not divide into groups of {}", plan.data_ranks(), plan.fsdp),
            "fsdp must divide dp x cp");
    if (plan.fsdp == plan.data_ranks()) plan.fsdp = 0;
    // Behind a pipeline the parameters would be gathered once per microbatch and chunk: torchtitan keeps them instead.
    plan.reshard_after_forward = document.flag_or("reshard_after_forward", plan.zero < 3 || plan.pp == 1);
    plan.lora = document.integer_or("lora", 0, Range{0, 1e6});
    plan.offload = document.integer_or("offload", 0, Range{0, 1e6});
    plan.offload_optimizer = document.number_or("offload_optimizer", 0, Range::share());
    plan.offload_weights = document.flag_or("offload_weights", false);
    if (plan.offload_weights && plan.zero == 3)
        document.fail("offload_weights", "zero=3 gathers weights from other devices, not from the host",
                      "use zero=0, 1 or 2");
}

/// Local SGD with an outer optimizer (DiLoCo).
void read_outer(Reader& document, Plan& plan) {
    plan.outer_steps = document.integer_or("outer_steps", 0, Range{0, 1e6});
    plan.outer_overlap = document.integer_or("outer_overlap", 0, Range{0, 1e6});
    const int fallback = plan.outer_steps > 0 ? plan.dp : 1;
    plan.outer_replicas = static_cast<int>(document.integer_or("outer_replicas", fallback, kDegree));
    if (plan.outer_replicas > 1 && plan.outer_steps == 0)
        document.fail("outer_replicas", "without outer steps the replicas would never meet", "give outer_steps");
    if (plan.outer_overlap > 0 && plan.outer_overlap >= plan.outer_steps)
        document.fail("outer_overlap",
                      fmt::format("an outer sum cannot take {} of {} steps", plan.outer_overlap, plan.outer_steps),
                      "outer_overlap must be less than outer_steps");
    if (plan.dp % plan.outer_replicas == 0) return;
    document.fail(
        document.has("outer_replicas") ? "outer_replicas" : "outer_steps",
        fmt::format("{} data-parallel ranks do not divide into {} outer replicas", plan.dp, plan.outer_replicas),
        "outer_replicas must divide dp");
    plan.outer_replicas = 1;
}

void read_batch(Reader& document, Plan& plan, const Workload& workload) {
    plan.mbs = document.integer_or("mbs", 1, Range{1, 1e9});
    plan.gbs = document.integer_or("gbs", workload.gbs, Range{1, kMostSamples});
    if (const auto problem = batch_problem(workload, plan.gbs)) document.fail("gbs", *problem);
    if (plan.mbs > 0 && plan.dp > 0 && plan.gbs % (plan.mbs * plan.dp) != 0)
        document.fail(
            document.has("mbs") ? "mbs" : "gbs",
            fmt::format("a global batch of {} does not divide into dp {} x mbs {}", plan.gbs, plan.dp, plan.mbs),
            fmt::format("use a gbs that is a multiple of {}", plan.mbs * plan.dp));
}

void read_recompute(Reader& document, Plan& plan) {
    const auto stages = static_cast<std::size_t>(plan.pp);
    if (!document.is_list("recompute")) {
        plan.recompute.assign(stages, document.one_of_or<Recompute>("recompute", kRecomputeNames, Recompute::none));
        return;
    }
    for (const auto& name : document.texts("recompute")) {
        const auto* found = std::find_if(kRecomputeNames.begin(), kRecomputeNames.end(),
                                         [&](const auto& entry) { return entry.first == name; });
        if (found == kRecomputeNames.end())
            document.fail("recompute", fmt::format("unknown value '{}'", name), "one of none, selective, full");
        else
            plan.recompute.push_back(found->second);
    }
    if (plan.recompute.size() != stages) {
        document.fail("recompute", fmt::format("{} values for {} stages", plan.recompute.size(), plan.pp));
        plan.recompute.assign(stages, Recompute::none);
    }
}

void read_recompute_details(Reader& document, Plan& plan) {
    const Range layers{0, 1e6};
    const auto stages = static_cast<std::size_t>(plan.pp);
    if (document.is_list("recompute_layers")) {
        plan.recompute_layers = document.integers("recompute_layers", layers);
        if (plan.recompute_layers.size() != stages)
            document.fail("recompute_layers",
                          fmt::format("{} values for {} stages", plan.recompute_layers.size(), plan.pp));
        plan.recompute_layers.resize(stages);
    } else {
        plan.recompute_layers.assign(stages, document.integer_or("recompute_layers", 0, layers));
    }
    if (std::count(plan.recompute_layers.begin(), plan.recompute_layers.end(), 0) == plan.pp)
        plan.recompute_layers.clear();
    if (!document.has("recompute_modules")) return;
    plan.recompute_modules = 0;
    std::vector<std::string> names;
    for (const auto& [name, module] : kModules)
        names.emplace_back(name);
    const auto given = document.is_list("recompute_modules") ? document.texts("recompute_modules")
                                                             : std::vector{document.text("recompute_modules")};
    for (const auto& name : given) {
        const auto* found =
            std::find_if(kModules.begin(), kModules.end(), [&](const auto& entry) { return entry.first == name; });
        if (found == kModules.end())
            document.fail("recompute_modules", fmt::format("unknown value '{}'", name),
                          fmt::format("any of {}", fmt::join(names, ", ")));
        else
            plan.recompute_modules |= static_cast<unsigned>(found->second);
    }
}

void check_model_fits(Reader& document, const Plan& plan, const Workload& workload) {
    if (!workload.transformer) {
        if (plan.cp > 1)
            document.fail("cp", fmt::format("the operators of the explicit graph '{}' have no sequence", workload.name),
                          "use cp=1");
        if (plan.tp > 1)
            document.fail("tp", fmt::format("the operators of the explicit graph '{}' cannot be split", workload.name),
                          "use tp=1");
        if (std::any_of(plan.recompute.begin(), plan.recompute.end(),
                        [](Recompute r) { return r == Recompute::selective; }))
            document.fail("recompute", "selective recomputation names attention, which an explicit graph does not have",
                          "one of none, full");
        return;
    }
    const Transformer& model = *workload.transformer;
    if (model.heads % plan.tp != 0)
        document.fail("tp", fmt::format("{} attention heads are not divisible by tp {}", model.heads, plan.tp),
                      "tp must divide heads");
    else if (model.kv_heads % plan.tp != 0 && plan.tp % model.kv_heads != 0)
        document.fail("tp", fmt::format("{} key/value heads cannot be spread over tp {}", model.kv_heads, plan.tp),
                      "tp must divide kv_heads or be a multiple of it");
    else if (model.ffn % (model.experts > 0 ? plan.etp : plan.tp) != 0)
        document.fail("tp", fmt::format("a feed-forward width of {} is not divisible by tp {}", model.ffn, plan.tp),
                      "tp must divide ffn");
    if (workload.seq % plan.cp != 0)
        document.fail("cp", fmt::format("a sequence of {} is not divisible by cp {}", workload.seq, plan.cp),
                      "cp must divide seq");
    if (plan.cp_exchange == ContextExchange::all_to_all && model.heads / plan.tp % plan.cp != 0)
        document.fail(
            "cp_exchange",
            fmt::format("{} attention heads of a rank cannot be dealt to cp {}", model.heads / plan.tp, plan.cp),
            "use cp_exchange=ring");
    if (plan.sequence_parallel && workload.seq / plan.cp % plan.tp != 0)
        document.fail("sequence_parallel",
                      fmt::format("a sequence of {} is not divisible by tp {}", workload.seq, plan.tp),
                      "use sequence_parallel=off");
}

void check_chunks(Reader& document, const Plan& plan, const std::string& key) {
    const std::string_view name = name_of(plan.schedule);
    if (v_shaped(plan.schedule)) {
        if (plan.vpp != 2)
            document.fail(key, fmt::format("schedule {} has two chunks per stage, not vpp {}", name, plan.vpp),
                          "use vpp=2 or leave it out");
        if (plan.schedule == ScheduleKind::zb_v && plan.pp == 1)
            document.fail("schedule", "schedule zb-v needs more than one stage", "use schedule=zb-h1");
        return;
    }
    if (plan.schedule != ScheduleKind::interleaved && plan.vpp > 1)
        document.fail(key, fmt::format("schedule {} has one chunk per stage, not vpp {}", name, plan.vpp),
                      "use schedule=interleaved");
    if (plan.schedule == ScheduleKind::interleaved && plan.pp == 1 && plan.vpp > 1)
        document.fail(key, "interleaving needs more than one stage", "use vpp=1");
}

/// What the schedules that split the backward pass are not modelled with (yet, or because it makes no sense).
void check_split(Reader& document, const Plan& plan) {
    const auto refuse = [&](const std::string& key, const std::string& what, const std::string& hint) {
        document.fail(document.has(key) ? key : "schedule",
                      fmt::format("{} is not modelled with schedule {}", what, name_of(plan.schedule)), hint);
    };
    const bool dualpipe = plan.schedule == ScheduleKind::dualpipe;
    if (dualpipe && plan.fsdp > 0) refuse("fsdp", "sharding over some of the data-parallel ranks", "leave fsdp out");
    if (dualpipe && plan.ep > 1) refuse("ep", fmt::format("ep {}", plan.ep), "use ep=1");
    if (plan.zero >= (dualpipe ? 2 : 3))
        refuse("zero", fmt::format("zero={}", plan.zero), dualpipe ? "use zero=0 or zero=1" : "use zero=0, 1 or 2");
    if (plan.offload > 0) refuse("offload", "offloading of activations", "leave offload out");
    if (plan.offload_weights) refuse("offload_weights", "offloading of weights", "leave offload_weights out");
    if (dualpipe && plan.outer_steps > 0) refuse("outer_steps", "local SGD", "leave outer_steps out");
    if (!plan.recompute_layers.empty())
        refuse("recompute_layers", "full recomputation of some layers", "leave recompute_layers out");
    const auto recomputes = [&](Recompute wanted) {
        return std::any_of(plan.recompute.begin(), plan.recompute.end(),
                           [&](Recompute mode) { return mode == wanted; });
    };
    const std::string reason = "what it rebuilds would have to live until the weight gradients have been computed";
    if (recomputes(Recompute::full))
        document.fail(
            "recompute",
            fmt::format("full recomputation cannot be combined with schedule {}: {}", name_of(plan.schedule), reason),
            "one of none, selective");
    // Inside of attention nothing is the input of a product with weights.
    constexpr RecomputeModules kWithoutWeights =
        static_cast<unsigned>(RecomputeModule::core_attn) | static_cast<unsigned>(RecomputeModule::mla_up_proj);
    if (recomputes(Recompute::selective) && (plan.recompute_modules & ~kWithoutWeights) != 0)
        document.fail("recompute_modules",
                      fmt::format("recomputation outside of attention cannot be combined with schedule {}: {}",
                                  name_of(plan.schedule), reason),
                      "any of core_attn, mla_up_proj");
}

void check_schedule(Reader& document, const Plan& plan, const Workload& workload) {
    const std::string key = document.has("vpp") ? "vpp" : "schedule";
    const std::int64_t units = workload.transformer ? workload.transformer->all_layers() : workload.chain_length();
    // Embedding and head may be virtual stages of their own.
    const std::int64_t most = workload.chain_length() * plan.copies();
    if (std::int64_t{plan.pp} * plan.vpp > most)
        document.fail(document.has("pp") ? "pp" : "vpp",
                      fmt::format("{} layers cannot fill {} stages of {} chunks", units, plan.pp, plan.vpp),
                      fmt::format("use pp x vpp <= {}", most));
    check_chunks(document, plan, key);
    if (splits_backward(plan.schedule)) check_split(document, plan);
    if (plan.mbs < 1 || plan.dp < 1) return;
    const std::int64_t microbatches = plan.microbatches();
    if (plan.schedule == ScheduleKind::interleaved && plan.vpp > 1 && plan.pp > 1 && microbatches % plan.pp != 0)
        document.fail(key, fmt::format("the interleaved schedule needs microbatches ({}) to be a multiple of pp ({})",
                                       microbatches, plan.pp));
    if (plan.schedule != ScheduleKind::dualpipe) return;
    if (plan.pp % 2 != 0)
        document.fail(document.has("pp") ? "pp" : "schedule",
                      fmt::format("dualpipe pairs stage s with stage pp - 1 - s, but pp is {}", plan.pp),
                      "use an even pp");
    if (microbatches % 2 != 0 || microbatches < 2 * plan.pp)
        document.fail("schedule",
                      fmt::format("dualpipe needs an even number of microbatches, at least 2 x pp = {}, not {}",
                                  2 * plan.pp, microbatches),
                      "use a larger gbs, or a smaller mbs or dp");
}

void read_placement(Reader& document, Plan& plan, const Platform& platform) {
    const auto explicit_devices = [&] {
        plan.devices = document.integers("placement", Range{0, static_cast<double>(platform.devices - 1)});
        auto sorted = plan.devices;
        std::sort(sorted.begin(), sorted.end());
        const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
        if (twice != sorted.end())
            document.fail("placement", fmt::format("device {} holds two ranks", *twice));
        else if (plan.devices.size() != static_cast<std::size_t>(plan.ranks()))
            document.fail("placement", fmt::format("{} devices for {} ranks", plan.devices.size(), plan.ranks()));
    };
    if (document.is_list("placement")) return explicit_devices();
    plan.order = document.text("placement", plan.order);
    std::vector<std::string> parts;
    std::stringstream text(plan.order);
    for (std::string part; std::getline(text, part, '-');)
        parts.push_back(part);
    std::sort(parts.begin(), parts.end());
    if (parts != std::vector<std::string>{"cp", "dp", "ep", "pp", "tp"})
        document.fail("placement", fmt::format("'{}' is not a rank order", plan.order),
                      "name tp, cp, ep, dp and pp once each, fastest first, such as tp-cp-ep-dp-pp");
}

}  // namespace

std::string_view name_of(ScheduleKind kind) {
    for (const auto& [name, value] : kScheduleNames)
        if (value == kind) return name;
    return "?";
}

std::string_view name_of(Recompute recompute) {
    for (const auto& [name, value] : kRecomputeNames)
        if (value == recompute) return name;
    return "?";
}

std::string_view name_of(ContextExchange exchange) {
    for (const auto& [name, value] : kContextExchanges)
        if (value == exchange) return name;
    return "?";
}

std::string_view name_of(RecomputeModule module) {
    for (const auto& [name, value] : kModules)
        if (value == module) return name;
    return "?";
}

Recompute Plan::recompute_at(int stage, std::int64_t chain_index) const {
    const Recompute mode = recompute[static_cast<std::size_t>(stage)];
    const std::int64_t most = recomputed_layers(stage);
    if (mode != Recompute::full || most == 0) return mode;
    for (const ChainRange& range : stages[static_cast<std::size_t>(stage)])
        if (chain_index >= range.first && chain_index < range.last)
            return chain_index - std::max<std::int64_t>(range.first, 1) < most ? mode : Recompute::none;
    return mode;
}

int Plan::device_of(const RankCoordinates& rank) const {
    if (!devices.empty())
        return static_cast<int>(
            devices[static_cast<std::size_t>(rank.tp + tp * (rank.cp + cp * (rank.dp + dp * rank.pp)))]);
    int device = 0;
    int stride = 1;
    for (std::size_t start = 0; start < order.size(); start += 3) {
        const char axis = order[start];  // the five names differ in their first letter
        const auto [index, size] = axis == 't'   ? std::pair{rank.tp, tp}
                                   : axis == 'c' ? std::pair{rank.cp, cp}
                                   : axis == 'd' ? std::pair{rank.dp, dp}
                                   : axis == 'p' ? std::pair{rank.pp, pp}
                                                 : std::pair{0, 1};  // experts are laid over dp
        device += index * stride;
        stride *= size;
    }
    return device;
}

Plan read_plan(Reader document, const Workload& workload, const Platform& platform, const Software& software) {
    Plan plan;
    document.integer_or("format", 1, Range{1, 1});
    plan.workload = document.text("workload", workload.name);
    plan.platform = document.text("platform", platform.name);
    plan.software = document.text("software", software.name);
    plan.workload_hash = document.text("workload_hash", "");
    plan.platform_hash = document.text("platform_hash", "");
    plan.software_hash = document.text("software_hash", "");
    read_degrees(document, plan, platform);
    read_batch(document, plan, workload);
    read_outer(document, plan);
    plan.sequence_parallel = document.flag_or("sequence_parallel", plan.tp > 1 && software.sequence_parallel);
    if (plan.tp == 1) plan.sequence_parallel = false;
    read_expert_degrees(document, plan, workload);
    if (plan.ep > 1 && plan.etp < plan.tp && !plan.sequence_parallel)
        document.fail("sequence_parallel", "experts that are spread over tensor-parallel ranks need it",
                      "use sequence_parallel=on or etp=tp");
    plan.schedule = document.one_of_or<ScheduleKind>(
        "schedule", kScheduleNames, plan.vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b);
    if (v_shaped(plan.schedule) && !document.has("vpp")) plan.vpp = 2;
    read_zero(document, plan, software);
    read_recompute(document, plan);
    read_recompute_details(document, plan);
    check_model_fits(document, plan, workload);
    check_schedule(document, plan, workload);
    if (const auto problem = length_problem(plan))
        document.fail(document.has("mbs") ? "mbs" : "gbs", *problem, "use a larger mbs or dp, or a smaller gbs");
    document.problems().throw_if_any();
    if (document.has("stages"))
        read_stages(document, plan, workload);
    else
        plan.stages = even_stages(workload, plan.shape());
    read_placement(document, plan, platform);
    document.finish();
    return plan;
}

std::optional<std::string> length_problem(const Plan& plan) {
    if (plan.mbs < 1 || plan.dp < 1) return std::nullopt;
    const double passes = static_cast<double>(plan.gbs) / static_cast<double>(plan.mbs) / plan.dp * plan.pp * plan.vpp;
    if (passes <= kMostPasses) return std::nullopt;
    return fmt::format("{} microbatches over {} virtual stages are too many to replay: {:.1e} of at most {:.1e} passes",
                       plan.gbs / plan.mbs / plan.dp, std::int64_t{plan.pp} * plan.vpp, passes, kMostPasses);
}

std::string summary(const Plan& plan) {
    std::string text = fmt::format("tp={} pp={} dp={} mbs={}", plan.tp, plan.pp, plan.dp, plan.mbs);
    if (plan.cp > 1) text += fmt::format(" cp={}", plan.cp);
    if (plan.cp_exchange != ContextExchange::ring) text += fmt::format(" cp_exchange={}", name_of(plan.cp_exchange));
    if (plan.ep > 1) text += fmt::format(" ep={}", plan.ep);
    if (plan.ep > 1 && plan.etp > 1) text += fmt::format(" etp={}", plan.etp);
    if (plan.vpp > 1) text += fmt::format(" vpp={}", plan.vpp);
    if (plan.schedule != ScheduleKind::one_f_one_b && (plan.pp > 1 || splits_backward(plan.schedule)))
        text += fmt::format(" schedule={}", name_of(plan.schedule));
    const bool uniform =
        std::adjacent_find(plan.recompute.begin(), plan.recompute.end(), std::not_equal_to<>()) == plan.recompute.end();
    text += fmt::format(" recompute={}", uniform ? name_of(plan.recompute.front()) : "per-stage");
    if (plan.tp > 1) text += fmt::format(" sequence_parallel={}", plan.sequence_parallel ? "on" : "off");
    if (plan.dp > 1 || plan.copies() > 1) text += fmt::format(" zero={}", plan.zero);
    if (plan.fsdp > 0) text += fmt::format(" fsdp={}", plan.fsdp);
    if (!plan.recompute_layers.empty()) {
        const auto& layers = plan.recompute_layers;
        const bool same = std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) == layers.end();
        text += fmt::format(" recompute_layers={}", same ? std::to_string(layers.front()) : "per-stage");
    }
    if (plan.lora > 0) text += fmt::format(" lora={}", plan.lora);
    if (plan.offload > 0) text += fmt::format(" offload={}", plan.offload);
    if (plan.offload_optimizer > 0) text += fmt::format(" offload_optimizer={}", plan.offload_optimizer);
    if (plan.offload_weights) text += " offload_weights=on";
    if (plan.outer_steps > 0)
        text += fmt::format(" outer_steps={} outer_replicas={}", plan.outer_steps, plan.outer_replicas);
    if (plan.outer_overlap > 0) text += fmt::format(" outer_overlap={}", plan.outer_overlap);
    if (!plan.devices.empty())
        text += " placement=explicit";
    else if (plan.order != Plan{}.order)
        text += fmt::format(" placement={}", plan.order);
    if (plan.idle_devices > 0) text += fmt::format(" idle_devices={}", plan.idle_devices);
    return text;
}

std::vector<std::vector<ChainRange>> even_stages(const Workload& workload, const PipelineShape& shape) {
    const std::int64_t length = workload.chain_length();
    const bool transformer = workload.transformer.has_value();
    const std::int64_t layers = transformer ? workload.transformer->all_layers() : length;
    const std::int64_t parts = shape.virtual_stages() / shape.copies();
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), layers / parts);
    // What is left over goes to the inner virtual stages first, one each: the outer ones also hold embedding and head.
    for (std::int64_t extra = 0; extra < layers % parts; ++extra)
        ++sizes[static_cast<std::size_t>(extra < parts - 2 ? extra + 1 : 0)];
    std::vector<std::vector<ChainRange>> stages(static_cast<std::size_t>(shape.stages));
    std::int64_t first = 0;
    for (int part = 0; part < shape.virtual_stages(); ++part) {
        if (shape.source(part, false) < 0) first = 0;
        std::int64_t last = first + sizes[static_cast<std::size_t>(part % parts)];
        if (transformer && shape.source(part, false) < 0) ++last;  // embedding
        if (transformer && shape.target(part, false) < 0) ++last;  // head
        stages[static_cast<std::size_t>(shape.stage_of(part))].push_back({first, last});
        first = last;
    }
    return stages;
}

}  // namespace plansim
