// SPDX-License-Identifier: Apache-2.0
// The command line: options shared by the commands, dispatch, exit codes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "sim/app/commands.hpp"
#include "sim/app/report_folder.hpp"
#include "sim/base/error.hpp"
#include "sim/base/log.hpp"
#include "sim/base/names.hpp"

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
        ->check(CLI::Range(1, static_cast<int>(kMostDevices)))
        ->type_name("N");
    command
        .add_option("--set", options.documents.sets, "override a key of a document, e.g. workload.seq=8192; repeatable")
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
}

namespace {

/// An option whose values have names; numbers of the enumeration are no names.
template <class E>
CLI::Option* add_choice(CLI::App& command, const std::string& option, E& target,
                        const std::vector<std::pair<std::string_view, E>>& choices, const std::string& meaning) {
    const auto choose = [option, &target, choices](const std::string& given) {
        std::vector<std::string_view> names;
        for (const auto& [name, value] : choices) {
            names.push_back(name);
            if (name != given) continue;
            target = value;
            return;
        }
        throw CLI::ValidationError(
            option, fmt::format("unknown value {} (one of {})", in_quotes(given), fmt::join(names, ", ")));
    };
    return command.add_option_function<std::string>(option, choose, meaning)->type_name("NAME");
}

}  // namespace

void add_replay_options(CLI::App& command, CommonOptions& options) {
    add_choice<Fidelity>(command, "--fidelity", options.replay.fidelity,
                         {{"stage", Fidelity::stage}, {"layer", Fidelity::layer}},
                         "one delay per stage and pass, or per layer: stage, layer (default)");
    add_choice<Replicas>(command, "--replicas", options.replay.replicas,
                         {{"auto", Replicas::automatic}, {"all", Replicas::all}, {"folded", Replicas::folded}},
                         "replicas to simulate: auto (default: one if they cannot meet), all, folded");
}

void add_output_options(CLI::App& command, CommonOptions& options) {
    add_choice<OutputFormat>(command, "--format", options.format,
                             {{"text", OutputFormat::text}, {"json", OutputFormat::json}},
                             "text (default) or json, on stdout");
    command.add_flag("-v,--verbose", options.verbose, "say more on stderr");
    command.add_flag("-q,--quiet", options.quiet, "no progress and no warnings on stderr");
    command.parse_complete_callback([&options] {
        set_verbosity(options.quiet ? Verbosity::quiet : options.verbose > 0 ? Verbosity::verbose : Verbosity::normal);
    });
}

namespace {

/// CLI11 says of an unknown command only that one is required.
void check_command(const CLI::App& app, int argc, char** argv) {
    if (argc < 2 || argv[1][0] == '-') return;
    const std::string given = argv[1];
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(command->get_name());
        if (names.back() == given) return;
    }
    const std::string guess = nearest_name(given, names);
    throw UsageError(fmt::format("unknown command {}{} (one of {})", in_quotes(given),
                                 guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess),
                                 fmt::join(names, ", ")));
}

/// "plansim simulate --help": the command that the line got to.
std::string help_command(const CLI::App& app) {
    const auto chosen = app.get_subcommands();
    return chosen.empty() ? "plansim --help" : fmt::format("plansim {} --help", chosen.front()->get_name());
}

void run_main(int argc, char** argv) {
    CLI::App app{"plansim plans how to train a neural network on a cluster and proves the plan by simulation.",
                 "plansim"};
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
    add_validate(app, options);
    add_calibrate(app, options);
    check_command(app, argc, argv);
    remember_command_line(argc, argv);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success))
            throw UsageError(fmt::format("{}; see {}", error.what(), help_command(app)));
        app.exit(error, std::cout, std::cerr);  // --help, --version
    }
}

/// Reports what ended the command, and says with which exit code.
ExitCode reported(const std::exception& error) {
    if (dynamic_cast<const InputError*>(&error) != nullptr) {
        // Each line of a document's problems already reads "file:line:column: error: ...".
        const std::string text = error.what();
        if (text.find(": error: ") != std::string::npos)
            std::cerr << text << '\n';
        else
            log_error(text);
        return ExitCode::input;
    }
    log_error(error.what());
    const auto* known = dynamic_cast<const Error*>(&error);
    return known != nullptr ? known->code() : ExitCode::bug;
}

}  // namespace
}  // namespace plansim

int main(int argc, char** argv) {
    using plansim::ExitCode;
    ExitCode code = ExitCode::ok;
    try {
        plansim::run_main(argc, argv);
    } catch (const std::exception& error) {
        code = plansim::reported(error);
    }
    // A result that could not be printed (a full disk, say) is lost: no exit code may hide that.
    if (!std::cout.flush()) {
        plansim::log_error("cannot write to the standard output");
        if (code == ExitCode::ok) code = ExitCode::input;
    }
    return static_cast<int>(code);
}
