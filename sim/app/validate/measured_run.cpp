// SPDX-License-Identifier: Apache-2.0
#include "sim/app/validate/measured_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/app/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/graph/block.hpp"

namespace plansim {
namespace {

bool mentions(const std::string& text, const char* pattern) {
    return std::regex_search(text, std::regex(pattern, std::regex::icase));
}

/// First number that follows a pattern with one group; nothing if there is none.
std::optional<std::string> captured(const std::string& text, const char* pattern) {
    std::smatch match;
    if (!std::regex_search(text, match, std::regex(pattern))) return std::nullopt;
    return match[1].str();
}

/// Gathers what a row says as overrides of documents, and what it does not say as a list of assumptions.
class RowReader {
  public:
    RowReader(const MeasuredRow& row, bool tpu) : row_(row), tpu_(tpu) {}

    /// The number of a column, or what is assumed instead.
    std::int64_t number(const std::string& column, std::int64_t fallback, const std::string& rule) {
        const auto given = row_.number(column);
        if (given) return std::llround(*given);
        inferred.push_back(fmt::format("{}: {} ({})", column, fallback, rule));
        return fallback;
    }

    std::string workload() {
        const std::int64_t heads = row_.required_integer("heads");
        const std::int64_t hidden = row_.required_integer("hidden");
        const bool gated = row_.text("gated_ffn") == "yes";
        const std::int64_t seq = row_.required_integer("seq");
        std::string model =
            fmt::format("layers: {}, hidden: {}, heads: {}, kv_heads: {}, ffn: {}, gated: {}, vocab: {}",
                        row_.required_integer("layers"), hidden, heads, row_.integer("kv_heads").value_or(heads),
                        row_.required_integer("ffn"), gated, row_.required_integer("vocab"));
        const auto head_dim = column("head_dim");
        if (head_dim) model += fmt::format(", head_dim: {}", *head_dim);
        if (const auto experts = column("experts"))
            model += fmt::format(", experts: {}, top_k: {}", *experts, row_.required_integer("topk"));
        // The GPT family: LayerNorm, biases, learned positions, tied embeddings.
        if (!gated)
            model +=
                ", norm: layernorm, qkv_bias: on, output_bias: on, ffn_bias: on, positions: learned, tied_embeddings: "
                "on";
        return fmt::format("{{format: 1, name: \"{}\", seq: {}, gbs: {}, dtype: {}, transformer: {{{}}}}}",
                           row_.text("model"), seq, row_.required_integer("gbs"), dtype(), model);
    }

    std::vector<std::string> platform(const Platform& reference) {
        std::vector<std::string> sets;
        int domain = reference.devices_per_node;
        // Racks that are one scale-up domain count their trays as nodes; only a domain of another width is a new node.
        const bool rack = mentions(row_.text("intra_fabric"), "NVL\\d|torus");
        if (const auto devices = column("gpus_per_node"); devices && !rack && reference.devices_per_node > 1) {
            domain = static_cast<int>(*devices);
            sets.push_back(fmt::format("platform.node.devices={}", domain));
        }
        const std::int64_t gpus = row_.required_integer("gpus");
        if (gpus > domain && gpus % domain != 0) {
            // A rack that is used in full, or in part.
            domain = static_cast<int>(gpus % 72 == 0 ? 72 : std::gcd(gpus, std::int64_t{domain}));
            sets.push_back(fmt::format("platform.node.devices={}", domain));
        }
        if (const auto rate = row_.number("intra_bw_GBps_per_gpu");
            rate && reference.node_fabric.kind == FabricKind::nvswitch)
            sets.push_back(fmt::format("platform.node.fabric.bandwidth={} GB/s", *rate));
        const bool switched =
            reference.fabric.kind == FabricKind::fat_tree || reference.fabric.kind == FabricKind::spine_leaf;
        if (switched) sets.push_back(fmt::format("platform.fabric.nics={}", domain));
        if (const auto rate = row_.number("inter_bw_GBps_per_gpu"); rate && switched)
            sets.push_back(fmt::format("platform.fabric.bandwidth={} GB/s", *rate));
        return sets;
    }

    std::string plan(const Workload& workload, std::int64_t microbatches_per_stage) {
        const std::int64_t gpus = row_.required_integer("gpus");
        const std::int64_t gbs = workload.gbs;
        std::int64_t tp = number("tp", 1, "not stated");
        const std::int64_t pp = number("pp", 1, "not stated");
        const std::int64_t cp = number("cp", 1, "not stated");
        const std::int64_t ep = number("ep", 1, "not stated");
        // Chips that outnumber the batch share samples.
        if (row_.text("tp").empty() && gpus / (pp * cp) > gbs) tp = gpus / (pp * cp) / gbs;
        const std::int64_t dp = gpus / std::max<std::int64_t>(1, tp * pp * cp);
        const std::int64_t per_rank = std::max<std::int64_t>(1, gbs / std::max<std::int64_t>(1, dp));
        // On TPU the column is the batch of a chip, and a replica takes it in one pass.
        std::int64_t mbs = tpu_ ? per_rank : number("mbs", 1, "not stated");
        if (pp > 1 && microbatches_per_stage > 0)
            mbs = std::max<std::int64_t>(1, per_rank / (pp * microbatches_per_stage));
        if (per_rank % mbs != 0) mbs = per_rank;
        const std::int64_t chunks = std::max<std::int64_t>(
            1, std::llround(static_cast<double>(workload.transformer->layers) / static_cast<double>(pp) / 2));
        const bool interleaves = pp > 1 && row_.text("vpp").empty() && gbs / dp / mbs % pp == 0;
        const std::int64_t vpp = number("vpp", interleaves ? chunks : 1, "two layers per chunk of a pipeline");
        std::string text =
            fmt::format("tp={} pp={} cp={} dp={} ep={} vpp={} mbs={} {}", tp, pp, cp, dp, ep, vpp, mbs, zero(dp * cp));
        if (pp > 1 && vpp > 1 && gbs / dp / mbs % pp != 0) text += " schedule=1f1b";
        if (const auto etp = column("etp"); etp && ep > 1) text += fmt::format(" etp={}", *etp);
        const bool spread_experts = ep > 1 && tp > 1 && row_.integer("etp").value_or(1) == 1;
        text +=
            fmt::format(" sequence_parallel={}", tp > 1 && (row_.text("sp") == "yes" || spread_experts) ? "on" : "off");
        return text + " " + recompute();
    }

    std::vector<std::string> inferred;

  private:
    std::optional<std::int64_t> column(const std::string& name) const {
        if (const auto value = row_.number(name); value && *value > 0) return std::llround(*value);
        return std::nullopt;
    }

    std::string dtype() const {
        const std::string& text = row_.text("dtype");
        if (mentions(text, "nvfp4|fp4")) return "fp4";
        if (mentions(text, "mxfp8|fp8.*\\bmx|mx/block")) return "mxfp8";
        if (mentions(text, "fp8|int8")) return "fp8";  // int8 has the rate of fp8
        return text == "fp16" ? "fp16" : "bf16";
    }

    std::string zero(std::int64_t data_ranks) {
        const std::string& text = row_.text("zero_or_fsdp");
        if (data_ranks == 1) return "zero=0";
        if (text.empty()) {
            inferred.emplace_back("zero_or_fsdp: as the framework does (not stated)");
            return "";
        }
        if (mentions(text, "none|baseline")) return "zero=0";
        std::string result = "zero=1";
        if (mentions(text, "FSDP|ZeRO-3")) result = "zero=3";
        if (mentions(text, "SHARD_GRAD_OP|ZeRO-2")) result = "zero=3 reshard_after_forward=off";
        std::optional<std::string> shard = captured(text, "shard (\\d+)");
        if (!shard) shard = captured(text, "in node \\((\\d+)");
        if (!shard) shard = captured(text, "in (\\d+)-chip");
        if (shard && std::stoll(*shard) < data_ranks && data_ranks % std::stoll(*shard) == 0)
            result += " fsdp=" + *shard;
        return result;
    }

    std::string recompute() {
        const std::string& text = row_.text("recompute");
        if (text.empty()) {
            inferred.push_back(fmt::format("recompute: {} (not stated)", tpu_ ? "full" : "none"));
            return tpu_ ? "recompute=full" : "recompute=none";
        }
        if (text == "none" || text == "selective []") return "recompute=none";
        if (const auto layers = captured(text, "full \\(block, (\\d+)"))
            return "recompute=full recompute_layers=" + *layers;
        if (mentions(text, "^full|offload")) return "recompute=full";
        if (text == "selective") return "recompute=selective";
        if (auto modules = captured(text, "selective [\\[(]([a-z_, ]+)[\\])]")) {
            std::erase(*modules, ' ');
            return "recompute=selective recompute_modules=[" + *modules + "]";
        }
        throw InputError(fmt::format("recomputation '{}' is not known", text));
    }

    const MeasuredRow& row_;
    bool tpu_;
};

}  // namespace

MeasurementRules MeasurementRules::load() {
    MeasurementRules result;
    Diagnostics problems;
    Reader document = Reader::open(find_document("training-runs", DocumentKind::rules), {}, problems);
    document.integer("format", Range{1, 1});
    for (Reader& entry : document.maps("rules")) {
        MeasurementRule rule;
        Reader when = entry.map("when");
        for (const std::string& column : when.keys())
            rule.when.emplace_back(column, std::regex(when.text(column)));
        when.finish();
        rule.software = entry.text("software", "");
        if (entry.has("set")) rule.sets = entry.texts("set");
        rule.microbatches_per_stage = entry.integer_or("microbatches_per_stage", 0, Range{0, 1e6});
        rule.because = entry.text("because");
        entry.finish();
        result.rules_.push_back(std::move(rule));
    }
    document.finish();
    problems.throw_if_any();
    return result;
}

std::vector<const MeasurementRule*> MeasurementRules::matching(const MeasuredRow& row) const {
    std::vector<const MeasurementRule*> result;
    for (const MeasurementRule& rule : rules_)
        if (std::all_of(rule.when.begin(), rule.when.end(), [&](const auto& condition) {
                const auto cell = row.cells.find(condition.first);
                return cell != row.cells.end() && std::regex_search(cell->second, condition.second);
            }))
            result.push_back(&rule);
    return result;
}

MeasuredRun measured_run(const MeasuredRow& row, const MeasurementRules& rules, const std::vector<std::string>& sets,
                         const DocumentValues& values) {
    const std::string& gpu = row.text("gpu_type");
    const auto accelerator = accelerator_named(gpu);
    if (!accelerator) throw InputError(fmt::format("no accelerator document for '{}'", gpu));
    const auto platform_name = platform_with(*accelerator);
    if (!platform_name) throw InputError(fmt::format("no platform of accelerator {}", *accelerator));
    for (const char* needed : {"layers", "hidden", "heads", "ffn", "vocab", "seq", "gbs", "gpus"})
        if (row.text(needed).empty()) throw InputError(fmt::format("the row does not state {}", needed));

    RowReader reader(row, gpu.starts_with("TPU"));
    std::string software = "megatron-core";
    std::vector<std::string> all;
    MeasuredRun run;
    Diagnostics problems;
    const std::filesystem::path platform_file = find_document(*platform_name, DocumentKind::platform);
    const Platform reference = load_platform(platform_file, {}, 0, problems);
    for (auto& set : reader.platform(reference))
        all.push_back(std::move(set));
    std::int64_t microbatches_per_stage = 0;
    for (const MeasurementRule* rule : rules.matching(row)) {
        if (rule->microbatches_per_stage > 0) microbatches_per_stage = rule->microbatches_per_stage;
        if (!rule->software.empty()) software = rule->software;
        all.insert(all.end(), rule->sets.begin(), rule->sets.end());
    }
    all.insert(all.end(), sets.begin(), sets.end());
    run.documents = {"accelerators/" + *accelerator, *platform_name, "software/" + software};
    if (values) {
        const auto base = values(run.documents);
        all.insert(all.begin(), base.begin(), base.end());
    }
    const Overrides overrides = parse_sets(all);
    run.scenario.workload =
        read_workload(Reader::parse(reader.workload(), row.text("id"), overrides.workload, problems));
    run.scenario.platform =
        load_platform(platform_file, overrides.platform, static_cast<int>(row.required_integer("gpus")), problems);
    run.scenario.software =
        read_software(Reader::open(find_document(software, DocumentKind::software), overrides.software, problems));
    problems.throw_if_any();
    run.plan = load_plan(reader.plan(run.scenario.workload, microbatches_per_stage), run.scenario, overrides.plan);
    run.inferred = std::move(reader.inferred);
    return run;
}

Seconds measured_step(const MeasuredRow& row, const MeasuredRun& run) {
    const double value = row.required_number("value");
    const std::string& metric = row.text("metric");
    if (metric == "iter_time_s") return Seconds(value);
    const Workload& workload = run.scenario.workload;
    const Transformer& model = *workload.transformer;
    const auto number = [](std::int64_t integer) { return static_cast<double>(integer); };
    const double gpus = number(row.required_integer("gpus"));
    const double tokens = number(workload.tokens_per_step());
    if (metric == "tokens_per_s_per_gpu") return Seconds(tokens / (value * gpus));
    const double l = number(model.layers);
    const double h = number(model.hidden);
    const double s = number(workload.seq);
    const double v = number(model.vocab);
    // Narayanan et al. 2021, equation 3: FLOPs of a step with full recomputation.
    if (metric == "hardware_TFLOPs_per_gpu")
        return Seconds(96 * tokens * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)) / (value * 1e12 * gpus));
    // Products of weights and the whole square of attention, three times, without recomputation (Korthikanti et al.
    // 2022, appendix A).
    const double heads = number(model.heads) * number(model.head_dim);
    const double key_values = 2 * number(model.kv_heads) * number(model.head_dim);
    const double layer = h * (2 * heads + key_values) + (model.gated ? 3 : 2) * h * number(model.ffn);
    const double flops = 3 * tokens * (2 * (l * layer + v * h) + 4 * l * s * heads);
    if (metric == "model_TFLOPs_per_gpu") return Seconds(flops / (value * 1e12 * gpus));
    if (metric == "MFU_percent") {
        const FlopsPerSecond rate = run.scenario.platform.accelerator.peak_rate(workload.dtype);
        return Seconds(flops / (value / 100 * rate.value() * gpus));
    }
    throw InputError(fmt::format("metric '{}' is not known", metric));
}

std::string describe_run(const MeasuredRow& row, const MeasuredRun& run) {
    return fmt::format("{} on {} {}, {}", row.text("model"), row.text("gpus"), row.text("gpu_type"), summary(run.plan));
}

}  // namespace plansim
