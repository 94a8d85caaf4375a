// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/measured_runs.hpp"

#include <fmt/format.h>

#include <map>

#include "sim/app/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/table.hpp"

namespace plansim {
namespace {

using Row = std::map<std::string, std::string>;

std::int64_t integer(const Row& row, const std::string& column, std::int64_t fallback) {
    const std::string& text = row.at(column);
    return text.empty() ? fallback : std::get<std::int64_t>(parse_integer(text));
}

/// One software profile per source, the one that its framework and year call for; nothing is chosen by row.
std::string profile_of(const std::string& source) {
    static const std::map<std::string, std::string> profiles{{"narayanan21", "megatron-2021"},
                                                             {"nemo2407r1", "nemo-2024"}};
    return profiles.at(source);
}

std::string platform_of(const Row& row) {
    static const std::map<std::string, std::string> platforms{{"A100-SXM4-80GB", "dgx-a100"},
                                                              {"H100-SXM5-80GB", "dgx-h100"}};
    return platforms.at(row.at("gpu_type"));
}

Workload workload_of(const Row& row) {
    Workload workload;
    workload.name = row.at("model");
    Transformer model;
    model.layers = integer(row, "layers", 0);
    model.hidden = integer(row, "hidden", 0);
    model.heads = integer(row, "heads", 0);
    model.kv_heads = integer(row, "kv_heads", model.heads);
    model.head_dim = integer(row, "head_dim", model.hidden / model.heads);
    model.ffn = integer(row, "ffn", 0);
    model.gated = row.at("gated_ffn") == "yes";
    model.vocab = integer(row, "vocab", 0);
    workload.seq = integer(row, "seq", 0);
    workload.gbs = integer(row, "gbs", 0);
    workload.dtype = row.at("dtype").starts_with("fp8") ? Precision::fp8
                     : row.at("dtype") == "fp16"        ? Precision::fp16
                                                        : Precision::bf16;
    if (!model.gated) {  // the GPT family: LayerNorm, biases, learned positions, tied embeddings
        model.norm = Norm::layernorm;
        model.qkv_bias = model.output_bias = model.ffn_bias = true;
        model.positions = Positions::learned;
        model.max_positions = workload.seq;
        model.tied_embeddings = true;
    }
    workload.transformer = model;
    return workload;
}

/// Seconds of one step from what the source publishes.
Seconds measured_time(const Row& row) {
    const double value = std::get<double>(parse_number(row.at("value")));
    const auto number = [&](const char* column) { return static_cast<double>(integer(row, column, 0)); };
    const double gpus = number("gpus");
    if (row.at("metric") == "tokens_per_s_per_gpu") return Seconds(number("gbs") * number("seq") / (value * gpus));
    if (row.at("metric") != "hardware_TFLOPs_per_gpu") throw InputError("unknown metric " + row.at("metric"));
    // Narayanan et al. 2021, equation 3: FLOPs of a step with full recomputation.
    const double l = number("layers");
    const double h = number("hidden");
    const double flops =
        96 * number("gbs") * number("seq") * l * h * h * (1 + number("seq") / (6 * h) + number("vocab") / (16 * l * h));
    return Seconds(flops / (value * 1e12 * gpus));
}

MeasuredRun read_run(const Row& row) {
    MeasuredRun run;
    run.id = row.at("id");
    run.source = row.at("source").substr(0, row.at("source").find(':'));
    run.measured = measured_time(row);
    run.configuration =
        fmt::format("{} on {} {}, tp{} pp{} v{} cp{} dp{} mbs{}", row.at("model"), row.at("gpus"), row.at("gpu_type"),
                    row.at("tp"), row.at("pp"), row.at("vpp"), row.at("cp"), row.at("dp"), row.at("mbs"));
    DocumentOptions documents;
    documents.workload = "gpt3-175b";  // replaced below; only platform and software are taken from the catalogue
    documents.platform = platform_of(row);
    documents.software = profile_of(run.source);
    documents.devices = static_cast<int>(integer(row, "gpus", 0));
    Scenario scenario = load_scenario(documents);
    scenario.workload = workload_of(row);
    const std::string recompute = row.at("recompute").empty() ? "none" : row.at("recompute");
    const std::string plan = fmt::format("tp={} pp={} vpp={} cp={} dp={} mbs={} recompute={} sequence_parallel={}",
                                         row.at("tp"), row.at("pp"), integer(row, "vpp", 1), integer(row, "cp", 1),
                                         row.at("dp"), row.at("mbs"), recompute, row.at("sp") == "yes" ? "on" : "off");
    run.plan = load_plan(plan, scenario, {});
    run.scenario = std::move(scenario);
    return run;
}

}  // namespace

std::vector<MeasuredRun> read_measured_runs(const std::filesystem::path& csv) {
    const auto table = parse_csv(read_file(csv));
    std::vector<MeasuredRun> runs;
    for (std::size_t line = 1; line < table.size(); ++line) {
        Row row;
        for (std::size_t column = 0; column < table.front().size(); ++column)
            row[table.front()[column]] = table[line][column];
        runs.push_back(read_run(row));
    }
    return runs;
}

}  // namespace plansim
