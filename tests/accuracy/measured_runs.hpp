// SPDX-License-Identifier: Apache-2.0
// Published training measurements as scenarios that can be replayed. Columns of the data: tests/accuracy/README.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/cost_model.hpp"

namespace plansim {

struct MeasuredRun {
    std::string id;
    std::string source;         // first part of the source column
    std::string configuration;  // for the table
    Seconds measured;           // of one optimizer step
    std::string skipped;        // why it cannot be predicted; empty otherwise
    std::optional<Scenario> scenario;
    std::optional<Plan> plan;
};

/// Reads every row; a row that needs what is not modelled is returned with the reason, never dropped.
std::vector<MeasuredRun> read_measured_runs(const std::filesystem::path& csv);

}  // namespace plansim
