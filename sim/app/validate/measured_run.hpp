// SPDX-License-Identifier: Apache-2.0
// A row of a table of training or memory measurements as a scenario and a plan.
//
// The columns say what was trained, on what and how; what they leave open is filled in by the rules of
// platforms/measured/training-runs.yaml, one for each kind of source, and by the defaults stated in
// tests/accuracy/README.md. Nothing is chosen by row.
#pragma once

#include <functional>
#include <regex>

#include "sim/app/validate/validate.hpp"
#include "sim/cost/cost_model.hpp"

namespace plansim {

/// What rows of a kind have in common: if every column of `when` matches, `software` and `sets` apply.
struct MeasurementRule {
    std::vector<std::pair<std::string, std::regex>> when;
    std::string software;           // name of a profile, or empty
    std::vector<std::string> sets;  // KEY=VALUE of workload., platform., software. or plan.
    std::string because;
};

class MeasurementRules {
  public:
    /// Reads platforms/measured/training-runs.yaml of the catalogue.
    static MeasurementRules load();
    /// All rules that a row meets, in the order of the file: later ones win.
    [[nodiscard]] std::vector<const MeasurementRule*> matching(const MeasuredRow& row) const;

  private:
    std::vector<MeasurementRule> rules_;
};

struct MeasuredRun {
    Scenario scenario;
    Plan plan;
    std::vector<std::string> inferred;   // what the row does not say, and what was assumed
    std::vector<std::string> documents;  // that it uses, see DocumentValues
};

/// Overrides (KEY=VALUE) of the documents that a row uses, named relative to platforms/: "accelerators/h200",
/// "software/bloom", "dgx-h100". They come before the rules.
using DocumentValues = std::function<std::vector<std::string>(const std::vector<std::string>& documents)>;

/// Throws InputError with the reason if the row cannot be predicted. `sets` override documents after the rules.
MeasuredRun measured_run(const MeasuredRow& row, const MeasurementRules& rules,
                         const std::vector<std::string>& sets = {}, const DocumentValues& values = {});

/// Seconds of one optimizer step that a training row publishes, in whatever metric (see design of the sources in
/// tests/accuracy/README.md). InputError if the metric is not known.
Seconds measured_step(const MeasuredRow& row, const MeasuredRun& run);

/// "GPT-3 175B on 1024 A100, tp8 pp8 ...", for tables.
std::string describe_run(const MeasuredRow& row, const MeasuredRun& run);

}  // namespace plansim
