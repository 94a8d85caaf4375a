// SPDX-License-Identifier: Apache-2.0
// Malformed and contradictory documents: exit code 3, file:line:column, key, what is wrong, hint. Never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "run_command.hpp"

namespace plansim::test {
namespace {

using ::testing::HasSubstr;

/// `describe` of the text must fail with these lines; FILE stands for the path.
void expect_rejected(const std::string& text, const std::string& lines, const std::vector<std::string>& more = {}) {
    const TemporaryFolder folder;
    const std::string file = folder.write("doc.yaml", text);
    std::vector<std::string> arguments{"describe", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = run_plansim(arguments);
    EXPECT_EQ(result.exit_code, 3) << text.substr(0, 400);
    EXPECT_EQ(result.out, "");
    std::string err = result.err;
    for (auto at = err.find(file); at != std::string::npos; at = err.find(file))
        err.replace(at, file.size(), "FILE");
    EXPECT_EQ(err, lines + "\n");
}

std::string workload() {
    return "format: 1\nname: w\nseq: 512\ngbs: 64\ntransformer:\n  layers: 4\n  hidden: 1024\n  heads: 16\n  ffn: "
           "4096\n"
           "  gated: false\n  vocab: 32000\n";
}

std::string graph(const std::string& edges) {
    const std::string amounts = "forward_flops: 1 GFLOP, reads: 1 MB, writes: 1 MB, output: 1 MB}\n";
    return "format: 1\nname: g\ngbs: 64\ngraph:\n  nodes:\n    - {name: a, " + amounts + "    - {name: b, " + amounts +
           "  edges:\n" + edges;
}

std::string platform(const std::string& fabric, int devices = 4, int per_node = 1) {
    return "format: 1\nname: p\ndevices: " + std::to_string(devices) +
           "\naccelerator:\n  name: a\n  peak: {bf16: 100 TFLOPS, fp32: 10 TFLOPS}\n  hbm: {capacity: 80 GiB, "
           "bandwidth: "
           "2 TB/s}\n  on_chip_memory: 40 MB\n  compute_units: 100\nnode:\n  devices: " +
           std::to_string(per_node) + "\nfabric:\n" + fabric;
}

TEST(Documents, WellFormedOnesOfTheseTestsAreAccepted) {
    const TemporaryFolder folder;
    for (const std::string& text : {workload(), graph("    - {from: a, to: b}\n"),
                                    platform("  kind: torus\n  bandwidth: 50 GB/s\n  dims: [2, 2]\n")}) {
        const CommandResult result = run_plansim({"describe", folder.write("doc.yaml", text)});
        EXPECT_EQ(result.exit_code, 0) << result.err;
    }
}

TEST(Documents, KeysMustBeKnownAndGivenOnce) {
    expect_rejected(replaced(workload(), "  vocab", "  vocabs: 7\n  vocab"),
                    "FILE:11:3: error: transformer.vocabs: unknown key; did you mean 'vocab'?");
    expect_rejected(workload() + "gbs: 65\n", "FILE:12:1: error: gbs: duplicate key; first given at line 4");
    expect_rejected(replaced(workload(), "gbs: 64\n", ""), "FILE:1:1: error: gbs: missing key");
    expect_rejected(replaced(workload(), "gbs: 64\n", "gbs:\n"), "FILE:4:1: error: gbs: missing value");
}

/// A platform of one node whose accelerator is given by name or path.
std::string platform_of(const std::string& accelerator) {
    return "format: 1\nname: p\ndevices: 4\naccelerator: " + accelerator +
           "\nnode:\n  devices: 4\n  fabric: {kind: nvswitch, bandwidth: 100 GB/s}\n";
}

TEST(Documents, AnAcceleratorMayBeNamedAndOverriddenOrReplaced) {
    const TemporaryFolder folder;
    const std::string file = folder.write("doc.yaml", platform_of("h100-sxm5"));
    const auto memory = [&](const std::vector<std::string>& sets) {
        std::vector<std::string> arguments{"describe", file, "--format", "json"};
        for (const std::string& set : sets)
            arguments.insert(arguments.end(), {"--set", set});
        return json_of(arguments)["hbm_bytes"].get<std::int64_t>();
    };
    constexpr std::int64_t kGi = std::int64_t{1} << 30;
    EXPECT_EQ(memory({}), 80 * kGi);
    EXPECT_EQ(memory({"platform.accelerator.hbm.capacity=160 GiB"}), 160 * kGi);
    EXPECT_EQ(memory({"platform.accelerator=h200"}), 141 * kGi);
    EXPECT_EQ(memory({"platform.accelerator=h200", "platform.accelerator.hbm.capacity=7 GiB"}), 7 * kGi);
}

TEST(Documents, ProblemsOfANamedAcceleratorAreReportedInItsFile) {
    const TemporaryFolder folder;
    const std::string good = replaced(catalogue_text("platforms/accelerators/h100-sxm5.yaml"), "# NVIDIA", "#");
    const std::string platform_file = folder.write("p.yaml", platform_of("./part.yaml"));
    const std::string part = platform_file.substr(0, platform_file.rfind('/')) + "/./part.yaml";
    const auto problem = [&](const std::string& text) {
        static_cast<void>(folder.write("part.yaml", text));
        const CommandResult result = run_plansim({"describe", platform_file});
        EXPECT_EQ(result.exit_code, text == good ? 0 : 3);
        return result.err;
    };
    EXPECT_EQ(problem(good), "");
    EXPECT_EQ(problem(replaced(good, "compute_units: 132", "compute_units: none")),
              part + ":15:1: error: accelerator.compute_units: expected an integer, found 'none'\n");
    EXPECT_EQ(problem(replaced(good, "compute_units", "units")),
              part + ":2:1: error: accelerator.compute_units: missing key\n" + part +
                  ":15:1: error: accelerator.units: unknown key\n");
    EXPECT_EQ(problem(replaced(good, "format: 1", "format: 2")),
              part + ":2:1: error: accelerator.format: must be between 1 and 1, found 2\n");
    EXPECT_EQ(problem("- a\n"), part + ":1:1: error: expected a map, found a list\n");
}

TEST(Documents, AnUnknownAcceleratorIsReportedWithTheNearestName) {
    const TemporaryFolder folder;
    const std::string file = folder.write("doc.yaml", platform_of("h10-sxm5"));
    const CommandResult unknown = run_plansim({"describe", file});
    EXPECT_EQ(unknown.exit_code, 3);
    EXPECT_THAT(unknown.err, HasSubstr(file + ":4:1: error: accelerator: unknown accelerator 'h10-sxm5'; did you mean "
                                              "'h100-sxm5'? (neither a file nor one of a100-40gb, "));
    const CommandResult missing = run_plansim({"describe", folder.write("doc.yaml", platform_of("./no.yaml"))});
    EXPECT_EQ(missing.exit_code, 3);
    EXPECT_EQ(missing.err,
              file + ":4:1: error: accelerator: cannot read " + folder.file("./no.yaml") + ": no such file\n");
}

TEST(Documents, EveryPlatformAndAcceleratorOfTheCatalogueCanBeDescribed) {
    for (const char* name : {"b300", "h800", "gh200-96gb", "tpu7x", "v100-sxm2"})
        EXPECT_EQ(json_of({"describe", name, "--format", "json"})["kind"], "accelerator") << name;
    for (const char* name : {"charllm-hgx-h100",
                             "charllm-hgx-h200",
                             "dgx-a100",
                             "dgx-a100-40gb",
                             "dgx-b200",
                             "dgx-b300",
                             "dgx-h100",
                             "dgx-h100-spine-leaf",
                             "example-graph",
                             "gb200-nvl72",
                             "gb300-nvl72",
                             "h100-500w",
                             "hgx-h200",
                             "hypothetical-2028",
                             "mi250x",
                             "mi300x",
                             "mi325x",
                             "mi350x",
                             "mi355x",
                             "tpuv4",
                             "tpuv5e",
                             "tpuv5p",
                             "tpuv6e"})
        EXPECT_EQ(json_of({"describe", name, "--format", "json"})["kind"], "platform") << name;
}

TEST(Documents, NumbersMustBeFiniteAndPlainAndInRange) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {".nan", "'.nan' is not a number"},
        {".inf", "'.inf' is not a number"},
        {"inf", "'inf' is not a number"},
        {"0", "must be between 1 and 1073741824, found 0"},
        {"-3", "must be between 1 and 1073741824, found -3"},
        {"1000000000000000000", "must be between 1 and 1073741824, found 1000000000000000000"},
        {"1e300", "expected an integer, found '1e300'"},
        {"\"64\"", "expected an integer, found the text '64'"},
        {"yes", "expected an integer, found 'yes'"},
        {"[64]", "expected an integer, found a list"},
    };
    for (const auto& [value, message] : cases)
        expect_rejected(replaced(workload(), "gbs: 64", "gbs: " + value), "FILE:4:1: error: gbs: " + message);
}

TEST(Documents, QuantitiesNeedTheirUnit) {
    const std::string torus = "  kind: torus\n  bandwidth: 400\n  dims: [2, 2]\n";
    expect_rejected(platform(torus),
                    "FILE:14:3: error: fabric.bandwidth: missing unit in '400'; did you mean '400 Gbps'?");
    expect_rejected(replaced(platform(torus), "400", "-400 Gbps"),
                    "FILE:14:3: error: fabric.bandwidth: must be above 0, found -400 Gbps");
    expect_rejected(replaced(platform(torus), "400", "0 Gbps"),
                    "FILE:14:3: error: fabric.bandwidth: must be above 0, found 0 Gbps");
    const TemporaryFolder folder;
    const CommandResult result =
        run_plansim({"describe", folder.write("doc.yaml", replaced(platform(torus), "400", "400 GiB"))});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr("doc.yaml:14:3: error: fabric.bandwidth: "));
}

TEST(Documents, SizesThatLeaveSixtyFourBitsAreRejectedBeforeTheyAreCounted) {
    expect_rejected(replaced(workload(), "layers: 4", "layers: 1000000000000000000"),
                    "FILE:6:3: error: transformer.layers: must be between 1 and 100000, found 1000000000000000000");
    expect_rejected(replaced(workload(), "ffn: 4096", "ffn: 1000000000000"),
                    "FILE:5:1: error: transformer: about 8.2e+15 parameters; more than 1e+15 are not supported");
    expect_rejected(
        replaced(workload(), "seq: 512", "seq: 1000000000000"),
        "FILE:4:1: error: gbs: a batch of 64 samples has a tensor of 2.0e+18 elements; more than 1e+17 are not "
        "supported");
}

TEST(Documents, HeadsMustFitTheModel) {
    expect_rejected(replaced(workload(), "heads: 16", "heads: 0"),
                    "FILE:8:3: error: transformer.heads: must be between 1 and 1000000, found 0");
    expect_rejected(replaced(workload(), "heads: 16", "heads: 15"),
                    "FILE:8:3: error: transformer.heads: hidden 1024 is not divisible by 15 heads; or give head_dim");
    expect_rejected(
        replaced(workload(), "heads: 16", "heads: 16\n  kv_heads: 5"),
        "FILE:9:3: error: transformer.kv_heads: 16 heads cannot share 5 key/value heads evenly; kv_heads must "
        "divide heads");
}

TEST(Documents, GraphMustBeAcyclicWithUniqueNames) {
    expect_rejected(
        graph("    - {from: a, to: b}\n    - {from: b, to: a}\n"),
        "FILE:8:3: error: graph.edges: the graph has a cycle through 'a'; an operator graph must be acyclic");
    expect_rejected(
        replaced(graph("    - {from: a, to: a}\n"), "name: b", "name: a"),
        "FILE:7:8: error: graph.nodes[1].name: a node named 'a' exists already\n"
        "FILE:8:3: error: graph.edges: the graph has a cycle through 'a'; an operator graph must be acyclic");
    expect_rejected(graph("    - {from: a, to: c}\n"), "FILE:9:17: error: graph.edges[0].to: unknown node 'c'");
}

TEST(Documents, TorusMustHaveAxesThatMultiplyToItsDevices) {
    const auto torus = [](const std::string& dims) {
        return platform("  kind: torus\n  bandwidth: 50 GB/s\n  dims: " + dims + "\n");
    };
    expect_rejected(torus("[]"), "FILE:15:3: error: fabric.dims: a torus needs at least one axis; such as [4, 4, 4]");
    expect_rejected(torus("[1, 1, 1, 1, 1, 1, 1, 1, 4]"),
                    "FILE:15:3: error: fabric.dims: 9 axes; a torus has at most 8");
    expect_rejected(torus("[2, 3]"),
                    "FILE:3:1: error: devices: the torus has 6 devices, not 4; let fabric.dims multiply to it");
    expect_rejected(torus("[1048576, 1048576, 1048576, 16]"),
                    "FILE:3:1: error: devices: the torus has 18446744073709551616 devices, not 4; let fabric.dims "
                    "multiply to it");
    expect_rejected(torus("[0, 4]"), "FILE:15:10: error: fabric.dims[0]: must be between 1 and 1048576, found 0");
}

TEST(Documents, CablesMustJoinEndsThatExist) {
    const auto cables = [](const std::string& links) {
        return platform("  kind: graph\n  switches: [s]\n  links:\n" + links, 4, 2);
    };
    const std::string good = "    - {from: node0, to: s, bandwidth: 50 GB/s}\n";
    expect_rejected(
        cables(good + "    - {from: node1, to: t, bandwidth: 50 GB/s}\n"),
        "FILE:17:21: error: fabric.links[1].to: unknown end 't'; ends are device0 to device3, node0 to node1, s");
    expect_rejected(
        cables(good + "    - {from: node2, to: s, bandwidth: 50 GB/s}\n"),
        "FILE:17:8: error: fabric.links[1].from: unknown end 'node2'; ends are device0 to device3, node0 to "
        "node1, s");
    expect_rejected(
        cables(good + "    - {from: device, to: s, bandwidth: 50 GB/s}\n"),
        "FILE:17:8: error: fabric.links[1].from: unknown end 'device'; ends are device0 to device3, node0 to "
        "node1, s");
    expect_rejected(
        cables(good),
        "FILE:15:3: error: fabric.links: no route from device0 to device2; device2 has no link; add one that "
        "ends at 'device2' or 'node1'");
}

TEST(Documents, DevicesMustFillNodesAndStayWithinAGraph) {
    const CommandResult odd = run_plansim({"describe", "dgx-h100", "--devices", "12"});
    EXPECT_EQ(odd.exit_code, 3);
    EXPECT_THAT(odd.err,
                HasSubstr("dgx-h100.yaml:5:1: error: devices: 12 devices do not fill nodes of 8; use a multiple "
                          "of 8, or fewer than one node\n"));
    EXPECT_EQ(run_plansim({"describe", "dgx-h100", "--devices", "3"}).exit_code, 0);
    const CommandResult graph_result = run_plansim({"describe", "example-graph", "--devices", "64"});
    EXPECT_EQ(graph_result.exit_code, 3);
    EXPECT_THAT(
        graph_result.err,
        HasSubstr("example-graph.yaml:8:1: error: devices: an explicit graph of 32 devices cannot be scaled to 64; "
                  "describe the larger network, or use at most as many devices\n"));
    expect_rejected(platform("  kind: none\n", 16777216),
                    "FILE:3:1: error: devices: must be between 1 and 1048576, found 16777216");
}

TEST(Documents, DocumentWithAMisspeltMapIsStillJudgedAsWhatItIs) {
    expect_rejected(
        replaced(platform("  kind: torus\n  bandwidth: 50 GB/s\n  dims: [4]\n"), "accelerator:", "acelerator:"),
        "FILE:1:1: error: accelerator: missing key\n"
        "FILE:4:1: error: acelerator: unknown key; did you mean 'accelerator'?");
}

TEST(Documents, TextThatIsNotOnePlainYamlDocumentIsRejected) {
    expect_rejected("", "FILE: error: the document is empty");
    expect_rejected("[1, 2]\n", "FILE:1:1: error: expected a map, found a list");
    expect_rejected(std::string("\x7f"
                                "ELF\x01\x00\x02",
                                7),
                    "FILE:1:1: error: not a text file: the control character 0x7F");
    expect_rejected("name: \xff\n", "FILE:1:7: error: not a text file: invalid UTF-8 at byte 0xFF");
    expect_rejected("name: &a x\n", "FILE:1:7: error: name: anchors (&name) are not supported");
    expect_rejected("name: !!str x\n", "FILE:1:7: error: name: tags are not supported");
    expect_rejected(workload() + "---\nname: x\n", "FILE: error: more than one YAML document");
    expect_rejected("a: " + std::string(100000, '['), "FILE:1:204: error: nested more than 64 levels deep");
    const TemporaryFolder folder;
    const std::string path = folder.path().string();
    const CommandResult result = run_plansim({"describe", path});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.err, "error: cannot read " + path + ": is a directory\n");
    const CommandResult null = run_plansim({"describe", "/dev/null"});
    EXPECT_EQ(null.exit_code, 3);
    EXPECT_EQ(null.err, "/dev/null: error: the document is empty\n");
    const CommandResult missing = run_plansim({"plan", folder.file("no.yaml"), "dgx-h100"});
    EXPECT_EQ(missing.exit_code, 3);
    EXPECT_EQ(missing.err, "error: cannot read " + folder.file("no.yaml") + ": no such file\n");
}

TEST(Documents, CarriageReturnsByteOrderMarkAndForeignLettersAreText) {
    const TemporaryFolder folder;
    std::string crlf;
    for (const char letter : workload())
        crlf += letter == '\n' ? std::string("\r\n") : std::string(1, letter);
    for (const std::string& text :
         {crlf, "\xEF\xBB\xBF" + workload(), replaced(workload(), "name: w", "name: Größe-模型")}) {
        const CommandResult result = run_plansim({"describe", folder.write("doc.yaml", text)});
        EXPECT_EQ(result.exit_code, 0) << result.err;
    }
    expect_rejected(replaced(workload(), "  heads", "\theads"),
                    "FILE:8:1: error: not valid YAML: illegal tab when looking for indentation");
}

TEST(Documents, OverridesAreCheckedLikeTheDocument) {
    const CommandResult result =
        run_plansim({"simulate", "bert-large", "example-graph", "--plan", "mbs=4", "--set", "workload.seqq=3", "--set",
                     "workload.gbs=many", "--set", "platform.fabric.links[0].bandwidth=3", "--set",
                     "platform.fabric.links[7].bandwidth=3 GB/s", "--set", "platform.fabric.links[x]=3"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(
        result.err,
        "--set workload.gbs: error: gbs: expected an integer, found 'many'\n"
        "--set workload.seqq: error: seqq: unknown key; did you mean 'seq'?\n"
        "--set platform.fabric.links[7].bandwidth: error: fabric.links[7]: index out of range; the list has 7 "
        "elements\n"
        "--set platform.fabric.links[x]: error: 'fabric.links[x]' is not a key path such as 'links[2].bandwidth'\n"
        "--set platform.fabric.links[0].bandwidth: error: fabric.links[0].bandwidth: missing unit in '3'; did you "
        "mean '3 Gbps'?\n");
}

// ---- plans ---------------------------------------------------------------------------------------------------------

/// bert-large (24 layers, 16 heads, gbs 4096) on 8 devices.
void expect_plan_rejected(const std::string& plan, const std::string& lines,
                          const std::string& workload_name = "bert-large") {
    const TemporaryFolder folder;
    const std::string file = folder.write("plan.yaml", plan);
    const CommandResult result = run_plansim({"simulate", workload_name, "dgx-h100", file, "--devices", "8"});
    EXPECT_EQ(result.exit_code, 3) << plan;
    EXPECT_EQ(result.out, "");
    std::string err = result.err;
    for (auto at = err.find(file); at != std::string::npos; at = err.find(file))
        err.replace(at, file.size(), "FILE");
    EXPECT_EQ(err, lines + "\n");
}

TEST(Documents, DegreesMustFitTheModelAndTheDevices) {
    expect_plan_rejected(
        "tp: 3\n",
        "FILE:1:1: error: tp: tp 3 x pp 1 x cp 1 x dp 2 = 6 ranks, but the platform has 8 devices; let "
        "the degrees multiply to the devices, or give --devices or idle_devices\n"
        "FILE:1:1: error: tp: 16 attention heads are not divisible by tp 3; tp must divide heads\n"
        "FILE:1:1: error: sequence_parallel: a sequence of 512 is not divisible by tp 3; use "
        "sequence_parallel=off");
    expect_plan_rejected(
        "dp: 4\n",
        "FILE:1:1: error: dp: tp 1 x pp 1 x cp 1 x dp 4 = 4 ranks, but the platform has 8 devices; let "
        "the degrees multiply to the devices, or give --devices or idle_devices");
    expect_plan_rejected(
        "mbs: 3\n",
        "FILE:1:1: error: mbs: a global batch of 4096 does not divide into dp 8 x mbs 3; use a gbs that "
        "is a multiple of 24");
    expect_plan_rejected("tp: 0\n", "FILE:1:1: error: tp: must be between 1 and 1048576, found 0");
    const TemporaryFolder folder;
    const CommandResult huge =
        run_plansim({"simulate", "bert-large", "dgx-h100",
                     folder.write("plan.yaml", "tp: 1048576\npp: 1048576\ncp: 1048576\ndp: 1048576\nvpp: 1048576\n")});
    EXPECT_EQ(huge.exit_code, 3);
    EXPECT_THAT(huge.err, HasSubstr("plan.yaml:1:1: error: tp: tp 1048576 x pp 1048576 x cp 1048576 = "
                                    "1152921504606846976 ranks, but the platform has 64 devices"));
}

TEST(Documents, StagesMustHoldEveryLayerOnce) {
    const std::string pp2 = "pp: 2\nstages: ";
    expect_plan_rejected(
        pp2 + "[0-10, 12-23]\n",
        "FILE:2:1: error: stages: stage 1 chunk 0 starts at layer 12, but layer 11 is next; layer 11 is "
        "in no stage");
    expect_plan_rejected(
        pp2 + "[0-11, 11-23]\n",
        "FILE:2:1: error: stages: stage 1 chunk 0 starts at layer 11, but layer 12 is next; layer 11 is "
        "in two stages");
    expect_plan_rejected(pp2 + "[0-11, 12-22]\n",
                         "FILE:2:1: error: stages: the stages end before layer 23; the model has 24");
    expect_plan_rejected(pp2 + "[0-11, 12-24]\n", "FILE:2:1: error: stages: '12-24' leaves the model's 24 layers");
    expect_plan_rejected(pp2 + "[0-23]\n",
                         "FILE:2:1: error: stages: 1 chunks listed, but pp 2 x vpp 1 = 2; list the chunks of stage 0 "
                         "first, then those of stage 1, and so on");
    expect_plan_rejected(pp2 + "[a, b]\n",
                         "FILE:2:1: error: stages: 'a' is not a range of layers; write it like '0-9'");
}

TEST(Documents, SplitSchedulesSayWhatTheyNeed) {
    expect_plan_rejected("pp: 2\nschedule: zb-h1\nvpp: 2\n",
                         "FILE:3:1: error: vpp: schedule zb-h1 has one chunk per stage, not vpp 2; use "
                         "schedule=interleaved");
    expect_plan_rejected("pp: 2\nschedule: zb-v\nvpp: 3\n",
                         "FILE:3:1: error: vpp: schedule zb-v has two chunks per stage, not vpp 3; use vpp=2 or leave "
                         "it out");
    expect_plan_rejected("schedule: zb-v\n",
                         "FILE:1:1: error: schedule: schedule zb-v needs more than one stage; use schedule=zb-h1");
    expect_plan_rejected("pp: 2\nschedule: zb-h1\nrecompute: full\n",
                         "FILE:3:1: error: recompute: full recomputation cannot be combined with schedule zb-h1: what "
                         "it rebuilds would have to live until the weight gradients have been computed; one of none, "
                         "selective");
    expect_plan_rejected("pp: 1\nschedule: dualpipe\n",
                         "FILE:1:1: error: pp: dualpipe pairs stage s with stage pp - 1 - s, but pp is 1; use an even "
                         "pp");
    expect_plan_rejected("pp: 4\nschedule: dualpipe\nmbs: 1\ngbs: 12\n",
                         "FILE:2:1: error: schedule: dualpipe needs an even number of microbatches, at least 2 x pp = "
                         "8, not 6; use a larger gbs, or a smaller mbs or dp");
    expect_plan_rejected("pp: 2\nschedule: dualpipe\nmbs: 1\ngbs: 20\n",
                         "FILE:2:1: error: schedule: dualpipe needs an even number of microbatches, at least 2 x pp = "
                         "4, not 5; use a larger gbs, or a smaller mbs or dp");
    expect_plan_rejected("schedule: zbh1\n",
                         "FILE:1:1: error: schedule: unknown value 'zbh1'; did you mean 'zb-h1'? (one of gpipe, 1f1b, "
                         "interleaved, zb-h1, zb-v, dualpipe)");
}

TEST(Documents, SplitSchedulesRefuseWhatIsNotModelledWithThem) {
    const std::string dualpipe = "pp: 2\nschedule: dualpipe\n";
    expect_plan_rejected(dualpipe + "zero: 1\nfsdp: 2\n",
                         "FILE:4:1: error: fsdp: sharding over some of the data-parallel ranks is not modelled with "
                         "schedule dualpipe; leave fsdp out");
    for (const std::string zero : {"2", "3"})
        expect_plan_rejected(
            dualpipe + "zero: " + zero + "\n",
            "FILE:3:1: error: zero: zero=" + zero + " is not modelled with schedule dualpipe; use zero=0 or zero=1");
    expect_plan_rejected(dualpipe + "ep: 2\n",
                         "FILE:3:1: error: ep: ep 2 is not modelled with schedule dualpipe; use ep=1", "mixtral-8x7b");
    for (const std::string schedule : {"zb-h1", "zb-v", "dualpipe"}) {
        const std::string plan = "pp: 2\nschedule: " + schedule + "\n";
        if (schedule != "dualpipe")
            expect_plan_rejected(plan + "zero: 3\n", "FILE:3:1: error: zero: zero=3 is not modelled with schedule " +
                                                         schedule + "; use zero=0, 1 or 2");
        expect_plan_rejected(plan + "offload: 1\n",
                             "FILE:3:1: error: offload: offloading of activations is not modelled with schedule " +
                                 schedule + "; leave offload out");
        expect_plan_rejected(plan + "recompute_layers: 1\n",
                             "FILE:3:1: error: recompute_layers: full recomputation of some layers is not modelled "
                             "with schedule " +
                                 schedule + "; leave recompute_layers out");
        expect_plan_rejected(plan + "recompute: selective\nrecompute_modules: [core_attn, mlp]\n",
                             "FILE:4:1: error: recompute_modules: recomputation outside of attention cannot be "
                             "combined with schedule " +
                                 schedule +
                                 ": what it rebuilds would have to live until the weight gradients have been "
                                 "computed; any of core_attn, mla_up_proj");
    }
}

// What is refused may also come from the software profile: then the schedule is at fault.
TEST(Documents, SplitSchedulesRefuseTheZeroOfAProfileToo) {
    const TemporaryFolder folder;
    const std::string file = folder.write("plan.yaml", "pp: 2\nschedule: dualpipe\n");
    const CommandResult result =
        run_plansim({"simulate", "bert-large", "dgx-h100", file, "--devices", "8", "--set", "software.zero=2"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.err, file +
                              ":2:1: error: schedule: zero=2 is not modelled with schedule dualpipe; use zero=0 or "
                              "zero=1\n");
}

// Stages are listed device by device: the first chunk and the one of the way back, or of the other direction.
TEST(Documents, StagesOfVShapedSchedulesAreCheckedAlongTheChain) {
    expect_plan_rejected("pp: 2\nschedule: zb-v\nstages: [0-5, 6-11, 12-17, 18-23]\n",
                         "FILE:3:1: error: stages: stage 1 chunk 0 starts at layer 12, but layer 6 is next; layer 6 is "
                         "in no stage");
    expect_plan_rejected("pp: 2\nschedule: dualpipe\nstages: [0-11, 12-23, 12-23, 0-10]\n",
                         "FILE:3:1: error: stages: stage 1 chunk 1 holds '0-10', but stage 0 chunk 0 holds '0-11'; "
                         "both copies of dualpipe are cut alike");
}

TEST(Documents, PlacementMustBeARankOrderOrEveryDeviceOnce) {
    expect_plan_rejected(
        "placement: tp-dp\n",
        "FILE:1:1: error: placement: 'tp-dp' is not a rank order; name tp, cp, ep, dp and pp once each, "
        "fastest first, such as tp-cp-ep-dp-pp");
    expect_plan_rejected("placement: [0, 1, 2, 3, 4, 5, 6, 6]\n",
                         "FILE:1:1: error: placement: device 6 holds two ranks");
    expect_plan_rejected("placement: [0, 1, 2]\n", "FILE:1:1: error: placement: 3 devices for 8 ranks");
}

TEST(Documents, PlanWithTooManyMicrobatchesIsRejectedAndNotReplayedForDays) {
    const CommandResult result =
        run_plansim({"simulate", "bert-large", "dgx-h100", "--devices", "8", "--plan", "tp=8 mbs=1 gbs=33554432"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(
        result.err,
        "plan:1:9: error: mbs: 33554432 microbatches over 1 virtual stages are too many to replay: 3.4e+07 of at most "
        "4.2e+06 passes; use a larger mbs or dp, or a smaller gbs\n");
}

TEST(Documents, NumbersThatAddUpToAbsurdTimesOrAmountsAreAnInputErrorAndNotABug) {
    for (const char* set : {"software.elementwise_traffic=1e300", "software.fragmentation=1000000000000",
                            "platform.accelerator.efficiency.stream=1e-300", "software.optimizer_traffic=1e300",
                            "software.context=9000 PB"}) {
        const CommandResult result =
            run_plansim({"simulate", "bert-large", "dgx-h100", "--devices", "8", "--plan", "pp=2 mbs=4", "--set", set});
        EXPECT_EQ(result.exit_code, 3) << set;
        EXPECT_EQ(result.out, "");
        EXPECT_THAT(result.err, testing::StartsWith("error: by the formula a step of this plan takes "));
        EXPECT_THAT(result.err,
                    testing::EndsWith(" bytes of a device; at most 1e+09 s and 1e+18 bytes can be simulated: a "
                                      "size, rate or factor in one of the documents is far off\n"));
    }
}

// ---- truncation ----------------------------------------------------------------------------------------------------

/// A document that was cut short is an input error unless what is left is complete. Never a crash, never a hang.
void cut_everywhere(const std::string& folder_name) {
    const TemporaryFolder folder;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(PLANSIM_SOURCE_ROOT) + "/" + folder_name)) {
        if (entry.path().extension() != ".yaml") continue;
        const std::string text = read_all(entry.path());
        for (std::size_t part = 1; part <= 5; ++part) {
            const std::size_t length = text.size() * part / 6 + part;
            const CommandResult result = run_plansim({"describe", folder.write("cut.yaml", text.substr(0, length))});
            EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 3)
                << entry.path() << " cut after " << length << ": exit code " << result.exit_code << "\n"
                << result.err;
            EXPECT_EQ(result.exit_code == 0, result.err.empty());
            EXPECT_EQ(result.exit_code == 3, result.out.empty());
        }
    }
}

TEST(Documents, WorkloadsCutShortAreNeverABug) {
    cut_everywhere("workloads");
}
TEST(Documents, PlatformsCutShortAreNeverABug) {
    cut_everywhere("platforms");
}
TEST(Documents, ProfilesCutShortAreNeverABug) {
    cut_everywhere("platforms/software");
}

}  // namespace
}  // namespace plansim::test
