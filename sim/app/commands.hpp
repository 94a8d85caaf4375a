// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each adds itself to the command line; its callback does the work and may throw Error.
#pragma once

#include <CLI/CLI.hpp>

#include "sim/app/scenario.hpp"
#include "sim/replay/replay.hpp"

namespace plansim {

enum class OutputFormat { text, json };

/// Options that most commands share.
struct CommonOptions {
    DocumentOptions documents;
    OutputFormat format = OutputFormat::text;
    ReplayOptions replay;
    int verbose = 0;
    bool quiet = false;
};

/// WORKLOAD and PLATFORM, --software, --devices, --set.
void add_document_options(CLI::App& command, CommonOptions& options);
void add_replay_options(CLI::App& command, CommonOptions& options);
void add_output_options(CLI::App& command, CommonOptions& options);

void add_run(CLI::App& app, CommonOptions& options);
void add_plan(CLI::App& app, CommonOptions& options);
void add_simulate(CLI::App& app, CommonOptions& options);
void add_compare(CLI::App& app, CommonOptions& options);
void add_describe(CLI::App& app, CommonOptions& options);
void add_calibrate(CLI::App& app, CommonOptions& options);
void add_validate(CLI::App& app, CommonOptions& options);

}  // namespace plansim
