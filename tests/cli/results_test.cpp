// SPDX-License-Identifier: Apache-2.0
// What the commands print and write: keys, sums, round trips, determinism, trace, and the answers to what-if questions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "run_command.hpp"

namespace plansim::test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;

std::vector<std::string> keys(const Json& json) {
    std::vector<std::string> result;
    for (const auto& [key, value] : json.items())
        result.push_back(key);
    return result;
}

Json simulated(std::vector<std::string> more) {
    std::vector<std::string> arguments{"simulate", "bert-large", "dgx-h100", "--format", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(arguments);
}

TEST(Results, SimulateHasTheKeysOfTheContract) {
    const Json json = simulated({"--devices", "16", "--plan", "tp=2 pp=2 mbs=8"});
    EXPECT_THAT(keys(json), ElementsAre("iteration_time_s", "tokens_per_s", "tokens_per_s_per_device", "mfu", "hfu",
                                        "devices", "gbs", "plan", "analytic", "breakdown_s", "memory", "links",
                                        "error_pct", "simulation", "format"));
    EXPECT_EQ(json["format"], 1);
    EXPECT_EQ(json["devices"], 16);
    EXPECT_EQ(json["gbs"], 4096);
    EXPECT_THAT(keys(json["plan"]),
                ElementsAre("format", "workload", "workload_hash", "platform", "platform_hash", "software",
                            "software_hash", "tp", "pp", "dp", "cp", "ep", "vpp", "sequence_parallel", "mbs", "gbs",
                            "zero", "schedule", "recompute", "stages", "placement"));
    EXPECT_THAT(keys(json["analytic"]), ElementsAre("iteration_time_s", "peak_memory_bytes"));
    EXPECT_THAT(keys(json["breakdown_s"]),
                IsSubsetOf({"compute", "recompute", "tp_exposed", "cp_exposed", "ep_exposed", "pp_exposed", "bubble",
                            "dp_exposed", "optimizer", "throttle_loss", "other"}));
    EXPECT_THAT(keys(json["memory"]), ElementsAre("peak_bytes", "capacity_bytes", "fits", "per_stage"));
    ASSERT_EQ(json["memory"]["per_stage"].size(), 2U);
    EXPECT_THAT(keys(json["memory"]["per_stage"][0]),
                ElementsAre("stage", "weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes",
                            "buffers_bytes", "peak_bytes"));
    EXPECT_THAT(keys(json["links"][0]), ElementsAre("class", "count", "bytes", "mean_utilisation", "peak_utilisation"));
    for (const char* key : {"events", "flows", "timers", "cpu_s", "peak_rss_bytes", "simgrid"})
        EXPECT_TRUE(json["simulation"].contains(key)) << key;
}

// 4 stages, 64 microbatches of a replica: every schedule with a split backward pass waits less than 1F1B.
TEST(Results, GridOfSchedulesIsComparedInOneCall) {
    const CommandResult result = run_plansim({"compare", "bert-large", "dgx-h100", "--devices", "16", "--grid",
                                              "pp=4 mbs=16 schedule=1f1b,zb-h1,zb-v,dualpipe", "--format", "json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json json = Json::parse(result.out);
    const Json& cells = json["cells"];
    ASSERT_EQ(cells.size(), 4U);
    for (std::size_t cell = 1; cell < cells.size(); ++cell)
        EXPECT_LT(cells[cell]["breakdown_s"]["bubble"], cells[0]["breakdown_s"]["bubble"]) << cells[cell]["name"];
}

TEST(Results, BreakdownAddsUpAndRatesFollowFromTheTime) {
    for (const char* plan : {"mbs=4", "tp=2 pp=2 mbs=8", "pp=4 mbs=4 vpp=2 recompute=full", "tp=4 mbs=8 zero=0 pp=2",
                             "pp=4 mbs=4 schedule=zb-v", "pp=4 mbs=4 schedule=dualpipe"}) {
        const Json json = simulated({"--devices", "16", "--plan", plan});
        const double time = json["iteration_time_s"];
        double sum = 0;
        for (const auto& [key, value] : json["breakdown_s"].items())
            sum += value.get<double>();
        EXPECT_NEAR(sum / time, 1, 1e-9) << plan;
        EXPECT_NEAR(json["tokens_per_s"].get<double>(), 512 * 4096 / time, 1e-6 * 512 * 4096 / time);
        EXPECT_DOUBLE_EQ(json["tokens_per_s_per_device"].get<double>() * 16, json["tokens_per_s"].get<double>());
        std::int64_t peak = 0;
        for (const Json& stage : json["memory"]["per_stage"]) {
            std::int64_t parts = 0;
            for (const char* part : {"weights", "gradients", "optimizer", "activations", "buffers"})
                parts += stage[std::string(part) + "_bytes"].get<std::int64_t>();
            EXPECT_EQ(parts, stage["peak_bytes"].get<std::int64_t>()) << plan;
            peak = std::max(peak, parts);
        }
        EXPECT_EQ(json["memory"]["peak_bytes"].get<std::int64_t>(), peak);
    }
}

TEST(Results, PlanAndDescribeHaveTheKeysOfTheContract) {
    const Json plan = json_of({"plan", "bert-large", "dgx-h100", "--devices", "8", "--format", "json", "--top", "2"});
    EXPECT_THAT(keys(plan), ElementsAre("format", "plans", "search"));
    ASSERT_EQ(plan["plans"].size(), 2U);
    EXPECT_THAT(keys(plan["plans"][0]), ElementsAre("rank", "plan", "analytic", "why"));
    EXPECT_THAT(keys(plan["search"]), testing::IsSupersetOf({"candidates", "infeasible", "cpu_s"}));
    const Json workload = json_of({"describe", "mixtral-8x7b", "--format", "json"});
    for (const char* key :
         {"format", "parameters", "active_parameters", "flops_per_token", "activation_bytes_per_token", "layers"})
        EXPECT_TRUE(workload.contains(key)) << key;
    EXPECT_EQ(workload["parameters"], 46702792704);
    EXPECT_EQ(workload["active_parameters"], 12879925248);
    EXPECT_THAT(keys(workload["flops_per_token"]), ElementsAre("forward", "training"));
    const Json platform = json_of({"describe", "dgx-h100", "--format", "json"});
    for (const char* key : {"format", "devices", "nodes", "peak_FLOPS", "hbm_bytes", "hbm_Bps", "intra_node_Bps",
                            "inter_node_Bps", "bisection_Bps", "links"})
        EXPECT_TRUE(platform.contains(key)) << key;
    EXPECT_EQ(platform["inter_node_Bps"], 400e9);  // 8 NICs of 400 Gbps
    EXPECT_EQ(platform["bisection_Bps"], 1600e9);  // NICs of half of the 8 nodes
}

TEST(Results, CompareShowsEveryCellOfTheGridWithItsReason) {
    const Json json = json_of({"compare", "bert-large", "dgx-h100", "--devices", "16", "--fidelity", "stage",
                               "--format", "json", "--grid", "tp=1,2,3,8 pp=1,2,4,32 mbs=8,256"});
    EXPECT_THAT(keys(json), ElementsAre("format", "cells"));
    ASSERT_EQ(json["cells"].size(), 32U);
    std::map<std::string, int> statuses;
    std::set<std::string> names;
    for (const Json& cell : json["cells"]) {
        const std::string status = cell["status"];
        ++statuses[status];
        names.insert(cell["name"].get<std::string>());
        EXPECT_EQ(cell.contains("iteration_time_s"), status == "ok");
        EXPECT_EQ(cell.contains("reason"), status != "ok");
        EXPECT_EQ(cell.contains("peak_memory_bytes"), status != "illegal");
    }
    EXPECT_EQ(names.size(), 32U);
    EXPECT_EQ(statuses["ok"] + statuses["oom"] + statuses["illegal"], 32);
    EXPECT_GT(statuses["ok"], 0);
    EXPECT_GT(statuses["oom"], 0);
    EXPECT_GE(statuses["illegal"], 14);  // tp=3: 8 cells; pp=32: 6 more
    EXPECT_EQ(json["cells"][0]["name"], "tp=1 pp=1 mbs=8");
}

TEST(Results, CompareMixesFilesInlinePlansAndTheBaseline) {
    const TemporaryFolder folder;
    const std::string file = folder.write("plan.yaml", "tp: 2\nmbs: 8\n");
    const Json json = json_of({"compare", "bert-large", "dgx-h100", file, "tp=2 mbs=8", "megatron", "--devices", "8",
                               "--fidelity", "stage", "--format", "json", "--out", folder.file("out")});
    ASSERT_EQ(json["cells"].size(), 3U);
    EXPECT_EQ(json["cells"][0]["iteration_time_s"], json["cells"][1]["iteration_time_s"]);
    EXPECT_EQ(json["cells"][0]["plan"], json["cells"][1]["plan"]);
    EXPECT_EQ(json["cells"][2]["name"], "megatron");
    EXPECT_EQ(Json::parse(read_all(folder.path() / "out" / "compare.json")), json);
    const CommandResult broken = run_plansim({"compare", "bert-large", "dgx-h100", folder.file("no.yaml")});
    EXPECT_EQ(broken.exit_code, 3);
    EXPECT_EQ(broken.err, "error: cannot read " + folder.file("no.yaml") + ": no such file\n");
}

// ---- run -----------------------------------------------------------------------------------------------------------

std::vector<std::string> run_arguments(const TemporaryFolder& folder, const std::string& name) {
    return {"run", "bert-large", "dgx-h100", "--devices", "8", "--set", "workload.gbs=256", "--out", folder.file(name)};
}

Json without_cost(Json json) {
    if (json.is_object()) {
        json.erase("cpu_s");
        json.erase("peak_rss_bytes");
    }
    if (json.is_structured())
        for (auto& child : json)
            child = without_cost(child);
    return json;
}

TEST(Results, SameRunTwiceWritesTheSameBytes) {
    const TemporaryFolder folder;
    for (const char* name : {"a", "b"}) {
        const CommandResult result = run_plansim(run_arguments(folder, name));
        ASSERT_EQ(result.exit_code, 0) << result.err;
        EXPECT_EQ(result.err, "");
    }
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "a"))
        files.insert(entry.path().filename().string());
    EXPECT_EQ(files, (std::set<std::string>{"command.txt", "devices.csv", "links.csv", "memory.csv", "plan.yaml",
                                            "report.json", "trace.json"}));
    for (const char* name : {"trace.json", "devices.csv", "links.csv", "memory.csv", "plan.yaml"})
        EXPECT_EQ(read_all(folder.path() / "a" / name), read_all(folder.path() / "b" / name)) << name;
    const Json report = Json::parse(read_all(folder.path() / "a" / "report.json"));
    EXPECT_EQ(without_cost(report), without_cost(Json::parse(read_all(folder.path() / "b" / "report.json"))));
    const auto chosen = report["chosen"].get<std::size_t>();
    EXPECT_EQ(report["candidates"][chosen]["simulated_s"], report["simulate"]["iteration_time_s"]);
    EXPECT_EQ(report["candidates"][chosen]["analytic_s"], report["simulate"]["analytic"]["iteration_time_s"]);
    EXPECT_TRUE(report.contains("rank_correlation"));
    for (const Json& candidate : report["candidates"])
        EXPECT_TRUE(!candidate["fits"].get<bool>() ||
                    candidate["simulated_s"].get<double>() >= report["simulate"]["iteration_time_s"].get<double>());
    EXPECT_EQ(read_all(folder.path() / "a" / "command.txt"),
              "plansim run bert-large dgx-h100 --devices 8 --set workload.gbs=256 --out " + folder.file("a") + "\n");
}

TEST(Results, PlanOfARunReadsBackToTheSameTimeAndWarnsElsewhere) {
    const TemporaryFolder folder;
    const CommandResult run = run_plansim(run_arguments(folder, "a"));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const std::string plan = folder.file("a/plan.yaml");
    const Json report = Json::parse(read_all(folder.path() / "a" / "report.json"));
    const std::vector<std::string> same{"simulate", "bert-large", "dgx-h100",         plan,       "--devices",
                                        "8",        "--set",      "workload.gbs=256", "--format", "json"};
    const CommandResult again = run_plansim(same);
    EXPECT_EQ(again.exit_code, 0);
    const Json outcome = Json::parse(again.out);
    EXPECT_EQ(outcome["iteration_time_s"], report["simulate"]["iteration_time_s"]);
    EXPECT_EQ(outcome["plan"], report["simulate"]["plan"]);
    const CommandResult other =
        run_plansim({"simulate", "bert-large", "dgx-h100", plan, "--devices", "8", "--set", "workload.seq=256"});
    EXPECT_EQ(other.exit_code, 0);
    EXPECT_THAT(other.err, HasSubstr("warning: the plan was made for workload 'bert-large' with content "));
    EXPECT_EQ(std::count(other.err.begin(), other.err.end(), '\n'), 1) << other.err;
    const Json described = json_of({"describe", plan, "--set", "workload.gbs=256", "--format", "json"});
    EXPECT_EQ(described["plan"]["tp"], outcome["plan"]["tp"]);
    EXPECT_EQ(described["memory"]["peak_bytes"], outcome["analytic"]["peak_memory_bytes"]);
}

TEST(Results, ConstraintOfTheSearchIsNotCalledWithoutEffect) {
    const TemporaryFolder folder;
    auto arguments = run_arguments(folder, "a");
    arguments.insert(arguments.end(), {"--set", "plan.tp=2"});
    const CommandResult result = run_plansim(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(read_all(folder.path() / "a" / "plan.yaml"), HasSubstr("\ntp: 2\n"));
}

TEST(Results, TraceHasProcessesThreadsCountersAndProperlyNestedSlices) {
    const TemporaryFolder folder;
    const CommandResult result = run_plansim({"simulate", "bert-large", "dgx-h100", "--devices", "8", "--plan",
                                              "tp=2 pp=2 mbs=64", "--replicas", "all", "--out", folder.file("out")});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json trace = Json::parse(read_all(folder.path() / "out" / "trace.json"));
    ASSERT_TRUE(trace.contains("traceEvents"));
    std::map<std::int64_t, std::set<std::string>> threads;
    std::set<std::int64_t> processes;
    std::set<std::int64_t> counters;
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::pair<double, double>>> slices;
    for (const Json& event : trace["traceEvents"]) {
        const std::string phase = event["ph"];
        const auto pid = event.value("pid", std::int64_t{-1});
        const auto tid = event.value("tid", std::int64_t{-1});
        if (phase == "M" && event["name"] == "process_name") {
            EXPECT_TRUE(processes.insert(pid).second);
        }
        if (phase == "M" && event["name"] == "thread_name")
            threads[pid].insert(event["args"]["name"].get<std::string>());
        if (phase == "C") counters.insert(pid);
        if (phase != "X") continue;
        EXPECT_GE(event["dur"].get<double>(), 0);
        slices[{pid, tid}].emplace_back(event["ts"].get<double>(),
                                        event["ts"].get<double>() + event["dur"].get<double>());
    }
    EXPECT_EQ(processes.size(), 8U);
    EXPECT_EQ(counters, processes);
    for (const auto pid : processes) {
        const std::string names = testing::PrintToString(threads[pid]);
        EXPECT_THAT(names, HasSubstr("compute"));
        EXPECT_THAT(names, HasSubstr("communication"));
    }
    constexpr double kSlack_us = 2e-3;  // times are printed with three decimals
    for (auto& [thread, list] : slices) {
        std::sort(list.begin(), list.end(), [](const auto& one, const auto& other) {
            return one.first != other.first ? one.first < other.first : one.second > other.second;
        });
        std::vector<double> open;
        for (const auto& [begin, end] : list) {
            while (!open.empty() && open.back() <= begin + kSlack_us)
                open.pop_back();
            EXPECT_TRUE(open.empty() || end <= open.back() + kSlack_us)
                << "process " << thread.first << " thread " << thread.second << " at " << begin << " us";
            open.push_back(end);
        }
    }
}

// ---- what if -------------------------------------------------------------------------------------------------------

TEST(Results, TwiceTheNetworkHalvesTheTimeOfItsBytes) {
    // Pure data parallelism on two nodes, nothing overlapped. A collective takes latency + bytes / goodput x (1 + ramp
    // / (1 + bytes / ramp_bytes)): with twice the goodput the exposed time falls by half of its second part, and the
    // latencies stay. Four times the bandwidth removes another quarter of it: the differences are as 1/2 to 1/4.
    const auto time = [](const std::string& bandwidth) {
        return simulated({"--devices", "16", "--plan", "mbs=16 zero=0", "--set", "software.dp_overlap=off", "--set",
                          "platform.fabric.bandwidth=" + bandwidth, "--set",
                          "platform.node.fabric.bandwidth=100 TB/s"})["iteration_time_s"]
            .get<double>();
    };
    const double once = time("100 Gbps");
    const double twice = time("200 Gbps");
    const double four_times = time("400 Gbps");
    EXPECT_GT(once, twice);
    EXPECT_NEAR((once - twice) / (twice - four_times), 2, 0.02);
}

TEST(Results, TwiceTheMemoryMakesAPlanFit) {
    const std::vector<std::string> arguments{"simulate", "llama3-8b",  "dgx-h100", "--devices", "8",   "--plan",
                                             "mbs=2",    "--fidelity", "stage",    "--format",  "json"};
    const CommandResult before = run_plansim(arguments);
    EXPECT_EQ(before.exit_code, 4);
    auto doubled = arguments;
    doubled.insert(doubled.end(), {"--set", "platform.accelerator.hbm.capacity=320 GiB"});
    const CommandResult after = run_plansim(doubled);
    EXPECT_EQ(after.exit_code, 0) << after.err;
    const Json one = Json::parse(before.out);
    const Json two = Json::parse(after.out);
    EXPECT_EQ(two["memory"]["capacity_bytes"], 320LL << 30);
    EXPECT_EQ(one["memory"]["peak_bytes"], two["memory"]["peak_bytes"]);
    EXPECT_EQ(one["iteration_time_s"], two["iteration_time_s"]);
}

TEST(Results, WiderScaleUpDomainSpeedsUpTensorParallelism) {
    // tp=16 crosses the network between nodes of 8 and stays on NVLink in a node of 16.
    const auto exposed = [](const std::string& per_node) {
        const Json json =
            simulated({"--devices", "16", "--plan", "tp=16 mbs=16", "--set", "platform.node.devices=" + per_node});
        return std::pair{json["iteration_time_s"].get<double>(), json["breakdown_s"]["tp_exposed"].get<double>()};
    };
    const auto [narrow_time, narrow_exposed] = exposed("8");
    const auto [wide_time, wide_exposed] = exposed("16");
    EXPECT_LT(wide_time, narrow_time);
    EXPECT_LT(wide_exposed, narrow_exposed);
}

}  // namespace
}  // namespace plansim::test
