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
    const FlopsPerSecond rate = scenario.platform.accelerator.peak_rate(scenario.workload.dtype);
    const double flops = model_totals(scenario.workload).training_flops_per_token.value() *
                         static_cast<double>(scenario.workload.tokens_per_step());
    return flops / (rate.value() * scenario.platform.devices);
}

std::string group_of(const Workload& workload) {
    const bool narrow = workload.dtype != Precision::bf16 && workload.dtype != Precision::fp16;
    return std::string(workload.transformer->experts > 0 ? "MoE " : "dense ") +
           (narrow ? std::string(name_of(workload.dtype)) : "16 bit");
}

}  // namespace

std::vector<ValidatedRow> validate_training(const MeasuredTable& table, const ValidateOptions& options) {
    const MeasurementRules rules = MeasurementRules::load();
    return validate_rows(table, [&](const MeasuredRow& row, ValidatedRow& validated) {
        validated.metric = "iteration_time_s";
        const double value = row.required_number("value");
        if (value <= 0) row.fail("value", "must be above 0");
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
        } catch (const InputError& error) {
            validated.skipped = error.what();
        }
    });
}

}  // namespace plansim
