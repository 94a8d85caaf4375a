// SPDX-License-Identifier: Apache-2.0
// Step times of published training runs, replayed.
#include <fmt/format.h>

#include "sim/app/outcome.hpp"
#include "sim/app/validate/measured_run.hpp"
#include "sim/base/error.hpp"

namespace plansim {
namespace {

/// Model FLOPs at the data-sheet rate of all devices: what a planner without a cost model would say.
double roofline(const MeasuredRun& run) {
    const Scenario& scenario = run.scenario;
    const auto& peaks = scenario.platform.accelerator.peak;
    const auto peak = peaks.find(scenario.workload.dtype);
    const FlopsPerSecond rate = peak == peaks.end() ? peaks.at(Precision::bf16) : peak->second;
    const double flops = model_totals(scenario.workload).training_flops_per_token.value() *
                         static_cast<double>(scenario.workload.tokens_per_step());
    return flops / (rate.value() * scenario.platform.devices);
}

std::string group_of(const Workload& workload) {
    const bool narrow = workload.dtype != Precision::bf16 && workload.dtype != Precision::fp16;
    return std::string(workload.transformer->experts > 0 ? "MoE " : "dense ") +
           (narrow ? std::string(name_of(workload.dtype)) : "16 bit");
}

/// A cell that should hold a number and does not is a fault of the table, not a run that cannot be predicted.
void check_numbers(const MeasuredRow& row) {
    for (const char* column : {"gpus",
                               "gpus_per_node",
                               "intra_bw_GBps_per_gpu",
                               "inter_bw_GBps_per_gpu",
                               "layers",
                               "hidden",
                               "heads",
                               "kv_heads",
                               "head_dim",
                               "ffn",
                               "experts",
                               "topk",
                               "vocab",
                               "seq",
                               "tp",
                               "pp",
                               "vpp",
                               "cp",
                               "dp",
                               "ep",
                               "etp",
                               "mbs",
                               "gbs"})
        static_cast<void>(row.number(column));  // throws with the place of the cell
    if (row.required_number("value") <= 0) row.fail("value", "must be above 0");
}

}  // namespace

std::vector<ValidatedRow> validate_training(const MeasuredTable& table, const ValidateOptions& options) {
    const MeasurementRules rules = MeasurementRules::load();
    std::vector<ValidatedRow> result;
    for (const MeasuredRow& row : table.rows) {
        ValidatedRow& validated = result.emplace_back();
        validated.id = row.text("id");
        validated.source = row.source();
        validated.gpu = row.text("gpu_type");
        validated.metric = "iteration_time_s";
        check_numbers(row);
        try {
            const MeasuredRun run = measured_run(row, rules, options.sets);
            validated.group = group_of(run.scenario.workload);
            validated.inferred = run.inferred;
            validated.sweep = fmt::format("{} {} {} tokens {} {}", row.source(), row.text("model"), row.text("seq"),
                                          row.text("gpus"), row.text("gpu_type"));
            validated.samples = static_cast<double>(run.plan.gbs);
            validated.measured = measured_step(row, run).value();
            validated.predicted = options.formula
                                      ? estimate_plan(run.scenario, run.plan).iteration_time.value()
                                      : simulate_plan(run.scenario, run.plan, {})["iteration_time_s"].get<double>();
            if (options.baseline) validated.baseline = roofline(run);
        } catch (const Error& error) {
            validated.skipped = error.what();
        }
    }
    return result;
}

}  // namespace plansim
