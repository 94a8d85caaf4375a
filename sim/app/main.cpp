// SPDX-License-Identifier: Apache-2.0
// The command line: options shared by the commands, dispatch, exit codes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "sim/app/commands.hpp"
#include "sim/app/report_folder.hpp"
#include "sim/base/error.hpp"
#include "sim/base/log.hpp"

namespace plansim {

void add_document_options(CLI::App& command, CommonOptions& options) {
    command.add_option("WORKLOAD", options.documents.workload, "workload: a file, or a name of the catalogue")
        ->required();
    command.add_option("PLATFORM", options.documents.platform, "platform: a file, or a name of the catalogue")
        ->required();
    command
        .add_option("--software", options.documents.software, "software profile: a file, or a name of the catalogue")
        ->capture_default_str();
    command.add_option("--devices", options.documents.devices, "scale the platform to N devices")
        ->check(CLI::Range(1, 1 << 24))
        ->type_name("N");
    command
        .add_option("--set", options.documents.sets, "override a key of a document, e.g. workload.seq=8192; repeatable")
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
}

void add_replay_options(CLI::App& command, CommonOptions& options) {
    static const std::map<std::string, Fidelity> fidelities{{"stage", Fidelity::stage}, {"layer", Fidelity::layer}};
    static const std::map<std::string, Replicas> replicas{
        {"auto", Replicas::automatic}, {"all", Replicas::all}, {"folded", Replicas::folded}};
    command
        .add_option("--fidelity", options.replay.fidelity,
                    "one delay per stage and pass, or per layer: stage, layer (default)")
        ->transform(CLI::CheckedTransformer(fidelities))
        ->type_name("NAME");
    command
        .add_option("--replicas", options.replay.replicas,
                    "replicas to simulate: auto (default: one if they cannot meet), all, folded")
        ->transform(CLI::CheckedTransformer(replicas))
        ->type_name("NAME");
}

void add_output_options(CLI::App& command, CommonOptions& options) {
    static const std::map<std::string, OutputFormat> formats{{"text", OutputFormat::text},
                                                             {"json", OutputFormat::json}};
    command.add_option("--format", options.format, "text (default) or json, on stdout")
        ->transform(CLI::CheckedTransformer(formats))
        ->type_name("NAME");
    command.add_flag("-v,--verbose", options.verbose, "say more on stderr");
    command.add_flag("-q,--quiet", options.quiet, "no progress and no warnings on stderr");
    command.parse_complete_callback([&options] {
        set_verbosity(options.quiet ? Verbosity::quiet : options.verbose > 0 ? Verbosity::verbose : Verbosity::normal);
    });
}

namespace {

int run_main(int argc, char** argv) {
    CLI::App app{"plansim plans how to train a neural network on a cluster and proves the plan by simulation."};
    app.set_version_flag("--version", PLANSIM_VERSION);
    app.require_subcommand(1);
    app.footer(
        "Example: plansim run llama3-70b dgx-h100 --devices 64\nExit codes: 0 ok, 1 bug, 2 usage, 3 input, 4 "
        "infeasible, 5 simulation");
    CommonOptions options;
    add_run(app, options);
    add_plan(app, options);
    add_simulate(app, options);
    add_compare(app, options);
    add_describe(app, options);
    remember_command_line(argc, argv);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const bool asked = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);  // --help, --version
        const int code = app.exit(error, std::cout, std::cerr);
        return asked ? code : static_cast<int>(ExitCode::usage);
    }
    return std::cout.flush() ? 0 : static_cast<int>(ExitCode::input);
}

}  // namespace
}  // namespace plansim

int main(int argc, char** argv) {
    using plansim::ExitCode;
    try {
        return plansim::run_main(argc, argv);
    } catch (const plansim::InputError& error) {
        // Each line of a document's problems already reads "file:line:column: error: ...".
        const std::string text = error.what();
        if (text.find(": error: ") != std::string::npos)
            std::cerr << text << '\n';
        else
            plansim::log_error(text);
        return static_cast<int>(ExitCode::input);
    } catch (const plansim::Error& error) {
        plansim::log_error(error.what());
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        plansim::log_error(error.what());
        return static_cast<int>(ExitCode::bug);
    }
}
