// SPDX-License-Identifier: Apache-2.0
// The folder that a run leaves behind.
#pragma once

#include <filesystem>
#include <string>

#include "sim/app/outcome.hpp"

namespace plansim {

/// Called once by main, for command.txt.
void remember_command_line(int argc, char** argv);

/// InputError if the folder can neither be made nor written to; creates nothing, so that a command that ends without a
/// result leaves nothing behind.
void check_report_folder(const std::filesystem::path& folder);
/// Creates the folder if it is missing; InputError if that is impossible.
void make_report_folder(const std::filesystem::path& folder);
/// plan.yaml, report.json and command.txt; the record files are written by simulate_plan.
void write_report(const std::filesystem::path& folder, const Json& report, const std::string& plan_yaml);

}  // namespace plansim
