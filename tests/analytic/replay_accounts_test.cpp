// SPDX-License-Identifier: Apache-2.0
// What a replay accounts for: levels of fidelity and folding agree, shares add up, bytes arrive, ledgers match.
#include <gtest/gtest.h>

#include <map>

#include "sim/cost/memory.hpp"
#include "sim/replay/symmetry.hpp"
#include "tests/support/replays.hpp"

namespace plansim {
namespace {

constexpr ReplayOptions kStage{Fidelity::stage, Replicas::automatic, false};
constexpr ReplayOptions kLayer{Fidelity::layer, Replicas::automatic, false};
constexpr ReplayOptions kAll{Fidelity::layer, Replicas::all, true};
constexpr ReplayOptions kFolded{Fidelity::layer, Replicas::folded, true};

void expect_close(double actual, double expected, double relative, const std::string& what) {
    EXPECT_NEAR(actual, expected, relative * std::abs(expected)) << what;
}

// tp fills a node, stages and replicas meet on NICs only: nothing contends with tensor-parallel traffic.
TEST(Fidelity, StageAndLayerAgreeWhereNothingContends) {
    for (const auto attention : {AttentionImplementation::fused, AttentionImplementation::materialised}) {
        Scenario scenario = realistic(small_transformer(), 2, 2);
        scenario.software.attention = attention;
        for (const std::string recompute : {"none", "selective", "full"})
            for (const std::string sequence : {"on", "off"})
                for (const std::string degrees : {"pp=2", "dp=2 zero=0", "dp=2 zero=1", "pp=2 schedule=zb-h1"}) {
                    if (recompute == "full" && degrees.ends_with("zb-h1")) continue;
                    const std::string plan =
                        "tp=2 " + degrees + " recompute=" + recompute + " sequence_parallel=" + sequence;
                    const ReplayRecord coarse = replay_apart(scenario, plan, kStage);
                    const ReplayRecord fine = replay_apart(scenario, plan, kLayer);
                    expect_close(fine.iteration_time.value(), coarse.iteration_time.value(), 1e-12, plan);
                    EXPECT_LE(coarse.events, fine.events) << plan;
                }
    }
}

TEST(Fidelity, StageAndLayerCarryTheSameBytes) {
    const Scenario scenario = realistic(small_transformer(), 1, 8);  // stage boundaries share ports with tp: flows
    for (const std::string plan : {"tp=2 pp=2 dp=2", "tp=4 pp=2", "tp=2 pp=2 dp=2 sequence_parallel=off zero=0"}) {
        const ReplayRecord coarse = replay_apart(scenario, plan, kStage);
        const ReplayRecord fine = replay_apart(scenario, plan, kLayer);
        for (std::size_t link = 0; link < fine.links.size(); ++link)
            EXPECT_EQ(fine.links[link].bytes, coarse.links[link].bytes) << plan << fine.links[link].name;
    }
}

// Every replica owns its nodes' NICs, so one of them stands for all.
TEST(Folding, OneReplicaStandsForIndependentOnes) {
    for (const std::string zero : {"0", "1"}) {
        const Scenario scenario = realistic(small_transformer(), 4, 2);
        const Plan plan = plan_of(scenario, "tp=2 pp=2 dp=2 zero=" + zero);
        ASSERT_TRUE(replicas_are_independent(plan, Topology(scenario.platform)));
        const ReplayRecord all = replay_apart(scenario, plan, kAll);
        const ReplayRecord folded = replay_apart(scenario, plan, kFolded);
        EXPECT_FALSE(all.folded);
        EXPECT_TRUE(folded.folded);
        expect_close(folded.iteration_time.value(), all.iteration_time.value(), 1e-12, "time");
        for (std::size_t link = 0; link < all.links.size(); ++link)
            EXPECT_EQ(folded.links[link].bytes, all.links[link].bytes) << all.links[link].name;
        ASSERT_EQ(folded.workers.size(), all.workers.size());
        for (std::size_t worker = 0; worker < all.workers.size(); ++worker) {
            const WorkerRecord& one = folded.workers[worker];
            const WorkerRecord& other = all.workers[worker];
            EXPECT_EQ(one.replica, other.replica);
            EXPECT_EQ(one.stage, other.stage);
            EXPECT_EQ(one.devices, other.devices);
            EXPECT_EQ(one.peak_memory, other.peak_memory);
            EXPECT_EQ(one.flops, other.flops);
            for (std::size_t share = 0; share < kTimeClasses; ++share) {
                const auto time_class = static_cast<TimeClass>(share);
                EXPECT_NEAR(one.breakdown[time_class].value(), other.breakdown[time_class].value(),
                            1e-12 * all.iteration_time.value());
            }
        }
    }
}

const std::vector<std::string> kPlans{"tp=8",
                                      "pp=8 mbs=1",
                                      "dp=8 zero=0",
                                      "dp=8 zero=1",
                                      "tp=2 pp=2 dp=2 zero=1",
                                      "tp=2 pp=2 dp=2 zero=0 sequence_parallel=off",
                                      "tp=2 pp=4 vpp=2 recompute=full",
                                      "tp=1 pp=2 dp=4 vpp=4 zero=1",
                                      "pp=4 dp=2 schedule=gpipe recompute=full zero=1",
                                      "tp=2 pp=2 dp=2 schedule=zb-h1",
                                      "pp=4 dp=2 schedule=zb-v zero=1",
                                      "pp=4 dp=2 schedule=dualpipe zero=1",
                                      "tp=2 pp=2 dp=2 schedule=dualpipe zero=0",
                                      "tp=4 pp=2 recompute=selective mbs=2",
                                      "tp=2 cp=2 pp=2 zero=1",
                                      "cp=2 dp=2 pp=2 zero=1",
                                      "tp=2 pp=2 dp=2 placement=pp-dp-tp-cp-ep"};

class Accounts : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
  protected:
    [[nodiscard]] static Scenario scenario(int nodes = 2) {
        Scenario result = realistic(small_transformer(16), nodes, 8 / nodes);
        const bool overlap = std::get<1>(GetParam());
        result.software.tp_overlap = result.software.dp_overlap = result.software.pp_overlap = overlap;
        return result;
    }
    [[nodiscard]] static std::string plan() { return std::get<0>(GetParam()); }
};

TEST_P(Accounts, SharesOfEveryWorkerAddUpToTheIteration) {
    for (const ReplayOptions& options : {kStage, kAll}) {
        const ReplayRecord record = replay_apart(scenario(), plan(), options);
        for (const WorkerRecord& worker : record.workers) {
            expect_close(worker.breakdown.total().value(), record.iteration_time.value(), 1e-9, plan());
            for (std::size_t share = 0; share < kTimeClasses; ++share)
                EXPECT_GE(worker.breakdown[static_cast<TimeClass>(share)].value(), 0);
        }
    }
}

// The bars of passes, drawn from the clock, last as long as the shares charged for them; the optimizer's bar and the
// fixed time of the step lie outside of them, waits for gathered parameters (data-parallel) within.
TEST_P(Accounts, PassesOnTheTimelineLastAsLongAsTheirShares) {
    const Scenario documents = scenario();
    const ReplayRecord record = replay_apart(documents, plan(), kAll);
    std::vector<double> passes(record.workers.size(), 0);
    for (const Slice& slice : record.slices)
        if (slice.kind == SliceKind::forward || slice.kind == SliceKind::backward ||
            slice.kind == SliceKind::backward_input || slice.kind == SliceKind::backward_weight)
            passes[static_cast<std::size_t>(slice.worker)] += (slice.end - slice.start).value();
    for (std::size_t index = 0; index < passes.size(); ++index) {
        const Breakdown& shares = record.workers[index].breakdown;
        const double charged =
            (shares[TimeClass::compute] + shares[TimeClass::recompute] + shares[TimeClass::tp_exposed] +
             shares[TimeClass::cp_exposed] + shares[TimeClass::other])
                .value() -
            documents.software.iteration_time.value();
        EXPECT_GE(passes[index], charged * (1 - 1e-9)) << plan();
        EXPECT_LE(passes[index], (charged + shares[TimeClass::dp_exposed].value()) * (1 + 1e-9)) << plan();
    }
}

TEST_P(Accounts, WhatLeavesOnUpLinksArrivesOnDownLinks) {
    for (const int nodes : {1, 2, 8}) {
        const ReplayRecord record = replay_apart(scenario(nodes), plan(), kAll);
        std::map<std::string, std::int64_t> up;
        std::map<std::string, std::int64_t> down;
        for (const LinkRecord& link : record.links)
            (link.name.ends_with(".up") ? up : down)[link.link_class] += link.bytes;
        EXPECT_EQ(up, down) << plan() << " on " << nodes << " nodes";
    }
}

TEST_P(Accounts, ReplayingTwiceGivesTheSameRecord) {
    const std::string first = to_bytes(replay_apart(scenario(), plan(), kAll));
    EXPECT_EQ(first, to_bytes(replay_apart(scenario(), plan(), kAll)));
}

TEST_P(Accounts, MemoryReturnsToWhatIsResident) {
    const Scenario documents = scenario();
    const Plan parsed = plan_of(documents, plan());
    const Topology topology(documents.platform);
    CostModel model(documents, topology);
    const ReplayRecord record = replay_apart(documents, parsed, kAll);
    for (const WorkerRecord& worker : record.workers) {
        const StageMemory resident = stage_memory(model, parsed, worker.stage);
        const MemoryByTag expected{resident.weights, resident.gradients, resident.optimizer, Bytes(0),
                                   resident.buffers};
        ASSERT_FALSE(worker.memory.empty());
        EXPECT_EQ(worker.memory.back().live, expected) << plan() << " stage " << worker.stage;
    }
}

INSTANTIATE_TEST_SUITE_P(Plans, Accounts, ::testing::Combine(::testing::ValuesIn(kPlans), ::testing::Bool()));

// --- Ledger against the closed form -----------------------------------------------------------------------------

void expect_ledger_is_closed_form(const Scenario& scenario, const std::string& text) {
    const Plan plan = plan_of(scenario, text);
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const ReplayRecord record = replay_apart(scenario, plan);
    for (const WorkerRecord& worker : record.workers)
        EXPECT_EQ(worker.peak_memory.value(), stage_peak(model, plan, worker.stage).total().value())
            << text << " stage " << worker.stage;
}

// Fragmentation 1, so that nothing is rounded.
TEST(Ledger, PeakOf1F1BIsTheClosedForm) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    for (const std::string recompute : {"none", "full"})
        for (const std::string degrees : {"pp=4", "pp=2 dp=2 zero=1", "tp=2 pp=2", "dp=4 zero=0 mbs=2", "pp=4 mbs=8"})
            expect_ledger_is_closed_form(scenario, degrees + " recompute=" + recompute);
}

TEST(Ledger, PeakOfSelectiveRecomputationIsTheClosedForm) {
    Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    scenario.software.attention = AttentionImplementation::materialised;
    expect_ledger_is_closed_form(scenario, "pp=4 recompute=selective");
}

TEST(Ledger, PeakOfGpipeIsTheClosedFormOfAChain) {
    const Scenario scenario{equal_chain(4, 1, 8, Bytes(1000), 5000), ideal_platform(1, 4), bare_software()};
    expect_ledger_is_closed_form(scenario, "pp=4 schedule=gpipe");
}

// The last stage of GPipe keeps the logits of every microbatch until its backward pass.
TEST(Ledger, PeakOfGpipeIsTheClosedFormOfATransformer) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    expect_ledger_is_closed_form(scenario, "pp=4 schedule=gpipe");
}

TEST(Ledger, PeakOfEqualInterleavedChunksIsTheClosedForm) {
    const Scenario scenario{equal_chain(8, 1, 8, Bytes(1000), 5000), ideal_platform(1, 4), bare_software()};
    expect_ledger_is_closed_form(scenario, "pp=4 vpp=2");
    expect_ledger_is_closed_form(scenario, "pp=2 vpp=4 dp=2 zero=1");
}

}  // namespace
}  // namespace plansim
