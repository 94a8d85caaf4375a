// SPDX-License-Identifier: Apache-2.0
// hbm_attention.csv: rates of memory streams and of attention kernels.
//
// Streams: data sheet x efficiency.stream for kernels that read and write alike (copy, mul, add, triad) and for dot. An
// attention row names its kernel; shapes that the row does not state are those of its benchmark.
#include <fmt/format.h>

#include <regex>

#include "sim/app/validate/validate.hpp"
#include "sim/base/error.hpp"
#include "sim/cost/kernel_time.hpp"

namespace plansim {
namespace {

struct AttentionRun {
    std::string kernel;  // generation, as in efficiency.attention; empty: scores are materialised
    std::int64_t batch = 2;
    std::int64_t heads = 16;
    std::int64_t seq = 8192;
    std::int64_t head_dim = 128;
    double forward = 0;  // shares of the forward and the backward pass in the published rate
    double backward = 0;
};

/// "FlashAttention2 head_dim 64 batch 2 seq 8192", "SDPA cuDNN bf16 fwd+bwd"; a reason why not goes into row.skipped.
std::optional<AttentionRun> read_run(const std::string& metric, ValidatedRow& row) {
    AttentionRun run;
    if (metric.starts_with("standard attention")) {
        row.skipped = "shape given by another row, and PyTorch's own softmax is not in any profile";
        return std::nullopt;
    }
    if (metric.find("fp8") != std::string::npos) {
        row.skipped = "attention in fp8 is not modelled";
        return std::nullopt;
    }
    if (metric.starts_with("FlashAttention2")) {
        static const std::regex pattern(R"(head_dim (\d+) batch (\d+) seq (\d+))");
        std::smatch match;
        if (std::regex_search(metric, match, pattern)) {
            run.head_dim = std::stoll(match[1]);
            run.batch = std::stoll(match[2]);
            run.seq = std::stoll(match[3]);
        }
        run.kernel = "flash-2";
        run.forward = 1;
        row.inferred.emplace_back("forward, not causal (benchmark's default)");
        return run;
    }
    if (!metric.starts_with("SDPA ")) {
        row.skipped = fmt::format("unknown metric '{}'", metric);
        return std::nullopt;
    }
    run.kernel = metric.find("cuDNN") != std::string::npos ? "cudnn" : "sdpa";
    row.inferred.emplace_back("head dim 128, 8192 tokens (benchmark's default)");
    if (metric.find("fwd") != std::string::npos) run.forward = 1;
    if (metric.find("bwd") != std::string::npos) run.backward = 1;
    return run;
}

/// Attention FLOPs of a pass per second, in TFLOPS; a backward pass has 2.5 times the FLOPs of a forward one.
double attention_rate(const Accelerator& accelerator, const AttentionRun& run) {
    Software software;
    software.attention_kernel = run.kernel;
    const KernelTime kernels(accelerator, software, Precision::bf16);
    const double forward_flops = 4.0 * static_cast<double>(run.batch * run.heads * run.head_dim) *
                                 static_cast<double>(run.seq) * static_cast<double>(run.seq);
    double flops = 0;
    double time_s = 0;
    for (const auto& [pass, weight] : {std::pair{Pass::forward, run.forward}, {Pass::backward, 2.5 * run.backward}}) {
        if (weight == 0) continue;
        Operator op;
        op.kind = OperatorKind::attention;
        op.pass = pass;
        op.shape = {run.batch * run.heads, run.seq, run.seq, run.head_dim};
        op.flops = Flops(forward_flops * weight);
        flops += op.flops.value();
        time_s += kernels.time(op).value();
    }
    return flops / time_s / 1e12;
}

void predict(const MeasuredRow& measured, const ValidateOptions& options, ValidatedRow& row) {
    row.id = fmt::format("hbm-{:03}", measured.line - 1);  // the table has no ids
    const std::string metric = measured.text("metric");
    row.metric = fmt::format("{} {}", metric, measured.text("unit"));
    row.measured = measured.required_number("value");
    const bool stream = metric.starts_with("HBM_");
    row.group = stream ? "stream" : "attention";
    const auto document = accelerator_named(row.gpu);
    if (!document) {
        row.skipped = fmt::format("no accelerator '{}' in the catalogue", row.gpu);
        return;
    }
    const Accelerator accelerator = load_accelerator(*document);
    if (stream) {
        row.baseline = accelerator.hbm_bandwidth.value() / 1e12;
        row.predicted = row.baseline * accelerator.efficiency.stream;
    } else if (const auto run = read_run(metric, row)) {
        row.baseline = accelerator.peak.at(Precision::bf16).value() / 1e12;
        row.predicted = attention_rate(accelerator, *run);
    }
    if (!options.baseline) row.baseline = std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::vector<ValidatedRow> validate_attention(const MeasuredTable& table, const ValidateOptions& options) {
    return validate_rows(table,
                         [&](const MeasuredRow& measured, ValidatedRow& row) { predict(measured, options, row); });
}

}  // namespace plansim
