// SPDX-License-Identifier: Apache-2.0
// Exit codes, streams, options and output places of the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_command.hpp"

namespace plansim::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void expect_error(const std::vector<std::string>& arguments, int exit_code, const std::string& message) {
    const CommandResult result = run_plansim(arguments);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, message + "\n");
}

TEST(Usage, EveryCommandHasHelpWithAnExampleOnStdout) {
    for (const char* command : {"", "run", "plan", "simulate", "compare", "describe"}) {
        std::vector<std::string> arguments;
        if (*command != '\0') arguments.emplace_back(command);
        arguments.emplace_back("--help");
        const CommandResult result = run_plansim(arguments);
        EXPECT_EQ(result.exit_code, 0) << command;
        EXPECT_EQ(result.err, "") << command;
        EXPECT_THAT(result.out, HasSubstr("Example: plansim ")) << command;
    }
}

TEST(Usage, NoArgumentIsAUsageError) {
    expect_error({}, 2, "error: A subcommand is required; see plansim --help");
}

TEST(Usage, UnknownCommandIsNamedWithTheNearestOne) {
    expect_error({"smulate"}, 2,
                 "error: unknown command 'smulate'; did you mean 'simulate'? (one of run, plan, simulate, compare, "
                 "describe, validate, calibrate)");
    expect_error({"zzz"}, 2,
                 "error: unknown command 'zzz' (one of run, plan, simulate, compare, describe, validate, calibrate)");
}

TEST(Usage, UnknownOptionIsNamed) {
    expect_error({"describe", "bert-large", "--nope"}, 2,
                 "error: The following argument was not expected: --nope; see plansim describe --help");
}

TEST(Usage, ValueOfAChoiceIsItsNameAndNotItsNumber) {
    expect_error({"describe", "bert-large", "--format", "xml"}, 2,
                 "error: --format: unknown value 'xml' (one of text, json); see plansim describe --help");
    expect_error({"describe", "bert-large", "--format", "1"}, 2,
                 "error: --format: unknown value '1' (one of text, json); see plansim describe --help");
    expect_error({"simulate", "bert-large", "dgx-h100", "--plan", "tp=1", "--fidelity", "atom"}, 2,
                 "error: --fidelity: unknown value 'atom' (one of stage, layer); see plansim simulate --help");
    expect_error({"simulate", "bert-large", "dgx-h100", "--plan", "tp=1", "--replicas", "some"}, 2,
                 "error: --replicas: unknown value 'some' (one of auto, all, folded); see plansim simulate --help");
}

TEST(Usage, DevicesMustBeAPositiveNumberThatMemoryCanHold) {
    expect_error({"describe", "dgx-h100", "--devices", "0"}, 2,
                 "error: --devices: Value 0 not in range 1 to 1048576; see plansim describe --help");
    expect_error({"describe", "dgx-h100", "--devices", "16777216"}, 2,
                 "error: --devices: Value 16777216 not in range 1 to 1048576; see plansim describe --help");
}

TEST(Usage, OnePlanIsNeededAndNotTwo) {
    const std::string message = "error: simulate: give one plan, as a file or with --plan \"tp=8 pp=4 ...\"";
    expect_error({"simulate", "bert-large", "dgx-h100"}, 2, message);
    expect_error({"simulate", "bert-large", "dgx-h100", "plan.yaml", "--plan", "tp=1"}, 2, message);
}

TEST(Usage, CompareNeedsPlansAndAWellFormedGrid) {
    expect_error({"compare", "bert-large", "dgx-h100"}, 2,
                 "error: compare: name plans, or give --grid \"tp=1,2,4,8 pp=1,2,4\"");
    expect_error({"compare", "bert-large", "dgx-h100", "--grid", "tp"}, 2,
                 "error: --grid: 'tp' is not KEY=VALUE,VALUE; write it like \"tp=1,2,4 pp=1,2\"");
    expect_error({"compare", "bert-large", "dgx-h100", "--grid", "tp=1,,2"}, 2,
                 "error: --grid: an empty value in 'tp=1,,2'");
}

TEST(Usage, SetNeedsADocumentAKeyAndAValue) {
    expect_error({"describe", "bert-large", "--set"}, 2,
                 "error: --set: 1 required KEY=VALUE missing; see plansim describe --help");
    expect_error({"describe", "bert-large", "--set", "seq"}, 2,
                 "error: --set seq: expected DOCUMENT.KEY=VALUE, such as workload.seq=8192");
    expect_error({"describe", "bert-large", "--set", "model.seq=1"}, 2,
                 "error: --set model.seq=1: unknown document 'model' (one of workload, platform, software, plan)");
}

TEST(Usage, DescribeRefusesOptionsOfAnotherKindOfDocument) {
    expect_error({"describe", "dgx-h100", "--set", "workload.seq=3"}, 2,
                 "error: --set workload.seq=3: 'dgx-h100' is a platform document");
    expect_error({"describe", "bert-large", "--devices", "8"}, 2,
                 "error: --devices 8: 'bert-large' is a workload document");
}

TEST(Usage, UnknownNameIsAnInputErrorWithTheNearestOne) {
    expect_error({"describe", "bert-larg"}, 3,
                 "error: 'bert-larg' is neither a file nor a name of the catalogue; did you mean 'bert-large'?");
    const CommandResult result = run_plansim({"plan", "bert-large", "dgx-h10"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, StartsWith("error: unknown platform 'dgx-h10'; did you mean 'dgx-h100'? (neither a file"));
}

TEST(Usage, SuccessLeavesStderrEmptyAndQuietSilencesWarnings) {
    const std::vector<std::string> idle{"simulate",  "bert-large", "dgx-h100",
                                        "--devices", "8",          "--plan",
                                        "mbs=4",     "--set",      "platform.accelerator.power.tdp=800 W"};
    EXPECT_EQ(run_plansim(idle).err,
              "warning: --set platform.accelerator.power.tdp=800 W changes neither the time nor the memory of this "
              "plan\n");
    auto quiet = idle;
    quiet.emplace_back("-q");
    const CommandResult result = run_plansim(quiet);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, StartsWith("bert-large on 8 devices of dgx-h100: "));
    const CommandResult effective = run_plansim({"simulate", "bert-large", "dgx-h100", "--devices", "8", "--plan",
                                                 "mbs=4", "--set", "platform.accelerator.hbm.bandwidth=5 TB/s"});
    EXPECT_EQ(effective.err, "");
}

TEST(Usage, RepeatingTheValueOfTheDocumentIsAWarningAndNotAnError) {
    const CommandResult result = run_plansim(
        {"simulate", "bert-large", "dgx-h100", "--devices", "8", "--plan", "mbs=4", "--set", "workload.seq=512"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "warning: --set workload.seq=512 changes neither the time nor the memory of this plan\n");
}

TEST(Usage, NameThatIsNotUtf8IsShownAndNotABug) {
    const CommandResult result = run_plansim({"compare", "bert-large", "dgx-h100", "tp=1\xff", "--format", "json"});
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_EQ(result.err, "error: no plan of the comparison fits and is legal\n");
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json["cells"][0]["name"], "tp=1\xef\xbf\xbd");
    EXPECT_EQ(json["cells"][0]["status"], "illegal");
}

TEST(Usage, ResultThatCannotBePrintedIsAnError) {
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                      {"describe", "bert-large"},
                                                      {"describe", "dgx-h100", "--format", "json"}}) {
        const CommandResult result = run_plansim(arguments, "/dev/full");
        EXPECT_EQ(result.exit_code, 3);
        EXPECT_EQ(result.err, "error: cannot write to the standard output\n");
    }
}

TEST(Usage, FolderThatCannotBeMadeIsAnInputErrorBeforeTheWork) {
    const TemporaryFolder folder;
    const std::string file = folder.write("file", "x");
    for (const std::string& out : {file, file + "/inside"}) {
        const std::string message = "error: cannot create the report folder " + out + ": " + file + " is not a folder";
        expect_error({"run", "bert-large", "dgx-h100", "--out", out}, 3, message);
        expect_error({"simulate", "bert-large", "dgx-h100", "--plan", "mbs=4", "--out", out}, 3, message);
        expect_error({"compare", "bert-large", "dgx-h100", "mbs=4", "--out", out}, 3, message);
    }
    expect_error(
        {"plan", "bert-large", "dgx-h100", "--devices", "8", "-o", folder.file("no/such/plan.yaml")}, 3,
        "error: cannot write " + folder.file("no/such/plan.yaml") + ": no such folder: " + folder.file("no/such"));
}

TEST(Usage, ModelThatFitsNowhereSaysWhatIsShortAndLeavesNothing) {
    const TemporaryFolder folder;
    const CommandResult result =
        run_plansim({"run", "llama3-405b", "dgx-a100", "--devices", "8", "--out", folder.file("out")});
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(
        result.err,
        StartsWith(
            "error: llama3-405b does not fit 8 devices of 80 GiB (76 GiB planned, the rest is headroom): none of "));
    EXPECT_THAT(result.err, HasSubstr(" bytes on stage 0 and has 81604378624: "));
    EXPECT_THAT(result.err, EndsWith(" are short\n"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
}

TEST(Usage, PlanThatDoesNotFitIsShownWithExitCodeFourUnlessAllowed) {
    const std::vector<std::string> arguments{"simulate", "llama3-8b", "dgx-h100", "--devices",  "8",    "--plan",
                                             "mbs=16",   "--format",  "json",     "--fidelity", "stage"};
    const CommandResult result = run_plansim(arguments);
    EXPECT_EQ(result.exit_code, 4);
    const auto json = nlohmann::json::parse(result.out);
    const auto& memory = json["memory"];
    EXPECT_FALSE(memory["fits"].get<bool>());
    const auto peak = memory["peak_bytes"].get<std::int64_t>();
    const auto capacity = memory["capacity_bytes"].get<std::int64_t>();
    EXPECT_THAT(result.err,
                StartsWith("error: the plan does not fit: stage 0 needs " + std::to_string(peak) + " bytes of " +
                           std::to_string(capacity) + "; " + std::to_string(peak - capacity) + " bytes ("));
    auto allowed = arguments;
    allowed.emplace_back("--allow-oom");
    const CommandResult shown = run_plansim(allowed);
    EXPECT_EQ(shown.exit_code, 0);
    EXPECT_EQ(shown.err, "");
    EXPECT_EQ(nlohmann::json::parse(shown.out)["memory"], memory);
}

}  // namespace
}  // namespace plansim::test
