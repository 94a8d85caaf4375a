// SPDX-License-Identifier: Apache-2.0
// Peak memory of published runs, and whether they fitted, by the closed form (sim/cost/memory.hpp) of the fullest
// stage.
//
// Sources count different things. Allocated: what the framework asked for. Reserved: what its allocator took from the
// device for that. Device: all of it, the context of the process included.
#include <algorithm>
#include <optional>
#include <regex>

#include "sim/app/validate/measured_run.hpp"
#include "sim/base/error.hpp"
#include "sim/cost/memory.hpp"

namespace plansim {
namespace {

enum class Counted { allocated, reserved, device };

std::optional<Counted> counted_by(const std::string& metric) {
    if (metric.starts_with("peak_allocated")) return Counted::allocated;
    // litgpt prints the allocator's largest reservation.
    if (metric == "peak_reserved_memory" || metric == "peak_memory_reserved_max_over_ranks" || metric == "max_gpu_ram")
        return Counted::reserved;
    if (metric == "gpu_memory_max_first_last_node" || metric == "gpu_memory" || metric == "fits")
        return Counted::device;
    return std::nullopt;
}

/// Bytes of the unit that a row is given in. Tools that show the memory of a device count in powers of two, so that
/// what is called a GB there is a GiB; litgpt divides by 1e9.
double bytes_per_unit(const MeasuredRow& row) {
    if (row.text("unit") == "MiB") return Bytes(1 << 20).as_double();
    return row.text("metric") == "max_gpu_ram" ? 1e9 : kGiB.as_double();
}

/// The columns of a training table that rows of memory leave out, so that the same rules apply to both.
MeasuredRow as_training_row(const MeasuredRow& row, std::vector<std::string>& inferred) {
    MeasuredRow result = row;
    result.cells["overlap_notes"] = row.text("notes");
    if (row.text("gbs").empty() && row.number("gpus") && row.number("mbs")) {
        // Peak memory depends on the number of microbatches only as far as they fill the pipeline.
        const std::int64_t pp = row.integer("pp").value_or(1);
        const std::int64_t replicas = row.required_integer("gpus") / (row.integer("tp").value_or(1) * pp);
        std::smatch stated;
        const std::int64_t microbatches =
            std::regex_search(row.text("notes"), stated, std::regex("micro_num (\\d+)")) ? std::stoll(stated[1]) : pp;
        result.cells["gbs"] = std::to_string(microbatches * row.required_integer("mbs") * replicas);
        inferred.push_back("gbs: " + result.cells["gbs"] + " (not stated)");
    }
    return result;
}

struct Peak {
    double allocated = 0;
    double reserved = 0;
    double device = 0;
    double capacity = 0;
};

Peak peak_of_run(const MeasuredRun& run) {
    const Topology topology(run.scenario.platform);
    CostModel model(run.scenario, topology);
    Bytes fullest;
    for (int stage = 0; stage < run.plan.pp; ++stage)
        fullest = std::max(fullest, stage_peak(model, run.plan, stage).total());
    const Software& software = run.scenario.software;
    Peak peak;
    peak.device = fullest.as_double();
    peak.reserved = (fullest - software.context).as_double();
    peak.allocated = peak.reserved / software.fragmentation;
    peak.capacity = run.scenario.platform.accelerator.hbm_capacity.as_double();
    return peak;
}

}  // namespace

std::vector<ValidatedRow> validate_memory(const MeasuredTable& table, const ValidateOptions& options) {
    const MeasurementRules rules = MeasurementRules::load();
    return validate_rows(table, [&](const MeasuredRow& row, ValidatedRow& validated) {
        validated.metric = row.text("metric") == "fits" ? "fits" : row.text("metric") + "_GiB";
        validated.group = row.text("metric");
        const double value = row.required_number("value");
        if (value < 0) row.fail("value", "must be at least 0");
        try {
            const auto counted = counted_by(row.text("metric"));
            if (!counted) throw InputError("metric '" + row.text("metric") + "' is not one of a run");
            const MeasuredRun run = measured_run(as_training_row(row, validated.inferred), rules, options.sets);
            validated.inferred.insert(validated.inferred.end(), run.inferred.begin(), run.inferred.end());
            const Peak peak = peak_of_run(run);
            const double predicted = *counted == Counted::allocated  ? peak.allocated
                                     : *counted == Counted::reserved ? peak.reserved
                                                                     : peak.device;
            if (validated.metric == "fits") {
                validated.measured = value;
                validated.predicted = predicted <= peak.capacity ? 1 : 0;
            } else {
                validated.measured = value * bytes_per_unit(row) / kGiB.as_double();
                validated.predicted = predicted / kGiB.as_double();
            }
        } catch (const InputError& error) {
            validated.skipped = error.what();
        }
    });
}

}  // namespace plansim
