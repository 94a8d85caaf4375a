// SPDX-License-Identifier: Apache-2.0
// Replayed pipelines against times derived by hand: bubbles, stage boundaries, bounds of the makespan.
// A chain of operators takes whole ticks forward (f) and twice that backward (b = 2 f); everything else takes none.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/replays.hpp"

namespace plansim {
namespace {

constexpr double kExact = 1e-12;  // relative: the engine's clock and sums of delays

/// `count` devices in a row, each a node of its own, so that a stage boundary always crosses two NICs.
Scenario row(const Workload& workload, int count) {
    return {workload, ideal_platform(count, 1), bare_software()};
}

std::string text(int pp, int vpp, const std::string& schedule) {
    return "pp=" + std::to_string(pp) + " vpp=" + std::to_string(vpp) + " schedule=" + schedule;
}

void expect_bubble_share(int pp, int vpp, std::int64_t microbatches, const std::string& schedule, double share) {
    const ReplayRecord record = replay_apart(row(equal_chain(pp * vpp, 3, microbatches), pp), text(pp, vpp, schedule));
    ASSERT_EQ(record.workers.size(), static_cast<std::size_t>(pp));
    for (const WorkerRecord& worker : record.workers) {
        EXPECT_NEAR(worker.breakdown[TimeClass::bubble] / record.iteration_time, share, kExact)
            << schedule << " p=" << pp << " v=" << vpp << " m=" << microbatches << " stage " << worker.stage;
        EXPECT_EQ(worker.breakdown[TimeClass::pp_exposed].value(), 0);
    }
}

// Every stage computes m (f + b) and waits (p - 1)(f + b) while the pipeline fills and drains.
TEST(Bubble, Of1F1BIsTheStagesLessOneOverMicrobatchesPlusStagesLessOne) {
    for (const int pp : {1, 2, 3, 4, 8})
        for (const int microbatches : {1, 2, 4, 16})
            expect_bubble_share(pp, 1, microbatches, "1f1b", (pp - 1.0) / (microbatches + pp - 1));
}

TEST(Bubble, OfGpipeIsThatOf1F1B) {
    for (const int pp : {1, 2, 3, 4, 8})
        for (const int microbatches : {1, 2, 4, 16})
            expect_bubble_share(pp, 1, microbatches, "gpipe", (pp - 1.0) / (microbatches + pp - 1));
}

// A chunk takes 1 / v of a stage, so filling and draining takes (p - 1)(f + b) / v.
TEST(Bubble, OfTheInterleavedScheduleShrinksByTheChunks) {
    for (const int pp : {2, 3, 4})
        for (const int vpp : {2, 3, 4})
            for (const int rounds : {1, 2, 4}) {
                const int microbatches = rounds * pp;
                expect_bubble_share(pp, vpp, microbatches, "interleaved", (pp - 1.0) / (vpp * microbatches + pp - 1));
            }
}

// One microbatch over two stages with f = 3, 5 and b = 6, 10 ticks; a boundary of 2^25 bytes takes 2^25 / 2^35 s = 1
// tick on a NIC, 1/8 tick inside a node, after the latency.
TEST(Boundary, OneMicrobatchPassesTwoStagesAndTwoTransfersOneAfterTheOther) {
    const Workload workload = chain_workload({3, 5}, 1, Bytes(1 << 25));
    Scenario across = row(workload, 2);
    across.platform.fabric.collectives.p2p_latency = Seconds(kTick / 4);
    EXPECT_NEAR(replay_apart(across, "pp=2").iteration_time.value(), (3 + 5 + 10 + 6 + 2 * 1.25) * kTick,
                kExact * kTick);
    Scenario inside{workload, ideal_platform(1, 2), bare_software()};
    inside.platform.node_fabric.collectives.p2p_latency = Seconds(kTick / 4);
    EXPECT_NEAR(replay_apart(inside, "pp=2").iteration_time.value(), (3 + 5 + 10 + 6 + 2 * 0.375) * kTick,
                kExact * kTick);
}

TEST(Boundary, TransfersOfOneMicrobatchAreExposedAndTheRestIsBubble) {
    const ReplayRecord record = replay_apart(row(chain_workload({3, 5}, 1, Bytes(1 << 25)), 2), "pp=2");
    // Stage 0 sends (1), waits while stage 1 computes (15), and for the way back (1); stage 1 waits 3 for the first
    // pass, 1 for the transfer, sends back (1) and waits for the last pass (6).
    const Breakdown& first = record.workers[0].breakdown;
    EXPECT_NEAR(first[TimeClass::pp_exposed].value(), 2 * kTick, kExact * kTick);
    EXPECT_NEAR(first[TimeClass::bubble].value(), 15 * kTick, kExact * kTick);
    const Breakdown& last = record.workers[1].breakdown;
    EXPECT_NEAR(last[TimeClass::pp_exposed].value(), 2 * kTick, kExact * kTick);
    EXPECT_NEAR(last[TimeClass::bubble].value(), 9 * kTick, kExact * kTick);
}

// Two stages, two microbatches, f = 2, b = 4, a transfer x = 1. Sends of 1F1B block: stage 0 runs F0 x F1 x, stage 1
// F0 B0 x F1 B1 x, stage 0 B0 (while stage 1 runs F1 B1) and B1: 3 f + 3 b + 3 x, whatever the profile overlaps.
TEST(Boundary, SendsOf1f1bWaitForTheirTransferEvenIfTheProfileOverlapsThem) {
    Scenario scenario = row(equal_chain(2, 2, 2, Bytes(1 << 25)), 2);
    for (const bool overlap : {false, true}) {
        scenario.software.pp_overlap = overlap;
        EXPECT_NEAR(replay_apart(scenario, "pp=2").iteration_time.value(), (3 * 2 + 3 * 4 + 3) * kTick, kExact * kTick);
    }
}

// The same with two chunks a stage (c chunk, m microbatch), interleaved. Returning at once:
//   stage 0  F c0m0 0-2, c0m1 2-4, c1m0 6-8, c1m1 8-10, B c1m0 16-20, c1m1 22-26, c0m0 26-30, c0m1 32-36
//   stage 1  F c0m0 3-5, c0m1 5-7, c1m0 9-11, B c1m0 11-15, F c1m1 15-17, B c1m1 17-21, c0m0 21-25, c0m1 27-31
// Blocking, every send delays the next pass of its stage by x: stage 1 ends B c1m1 at 22, sends until 23, and the last
// backward pass of stage 0 ends at 37.
TEST(Boundary, SendsOfTheInterleavedScheduleReturnAtOnceIfTheProfileOverlapsThem) {
    Scenario scenario = row(equal_chain(4, 2, 2, Bytes(1 << 25)), 2);
    EXPECT_NEAR(replay_apart(scenario, "pp=2 vpp=2").iteration_time.value(), 37 * kTick, kExact * kTick);
    scenario.software.pp_overlap = true;
    EXPECT_NEAR(replay_apart(scenario, "pp=2 vpp=2").iteration_time.value(), 36 * kTick, kExact * kTick);
}

// Each of the m microbatches crosses every one of the p v - 1 boundaries once forward and once backward.
TEST(Boundary, LinksCarryEveryBoundaryTwicePerMicrobatch) {
    const std::int64_t boundary = 1'000'003;
    for (const auto& [pp, vpp, schedule] : {std::tuple{4, 1, "1f1b"}, {4, 1, "gpipe"}, {4, 3, "interleaved"}}) {
        const ReplayRecord record =
            replay_apart(row(equal_chain(pp * vpp, 1, 8, Bytes(boundary)), pp), text(pp, vpp, schedule));
        const std::int64_t expected = 8 * (pp * vpp - 1) * 2 * boundary;
        EXPECT_EQ(bytes_over(record, ".up"), bytes_over(record, ".down"));
        EXPECT_EQ(bytes_over(record, "nic0.up"), expected) << schedule;
        EXPECT_EQ(bytes_over(record, "nic0.down"), expected) << schedule;
    }
}

// With tp = 2 and sequence parallelism each rank sends its half over its own NIC; without, and without scatter-gather,
// a whole copy.
TEST(Boundary, RanksOfATensorParallelGroupSendShares) {
    Scenario scenario{small_transformer(4), ideal_platform(2, 2), bare_software()};
    const std::int64_t boundary = 2 * 256 * 512;
    const auto expect_on_every_nic = [&](const std::string& plan, std::int64_t bytes) {
        const ReplayRecord record = replay_apart(scenario, plan);
        for (const std::string nic : {"nic0", "nic1"})
            for (const std::string node : {"node0.", "node1."}) {
                EXPECT_EQ(bytes_over(record, node + nic + ".up"), bytes) << plan << node << nic;
                EXPECT_EQ(bytes_over(record, node + nic + ".down"), bytes) << plan << node << nic;
            }
    };
    expect_on_every_nic("tp=2 pp=2 sequence_parallel=on", 4 * boundary / 2);  // 4 microbatches each way
    expect_on_every_nic("tp=2 pp=2 sequence_parallel=off", 4 * boundary);
    scenario.software.scatter_gather_p2p = true;
    expect_on_every_nic("tp=2 pp=2 sequence_parallel=off", 4 * boundary / 2);
}

class Makespan : public ::testing::TestWithParam<const char*> {};

TEST_P(Makespan, IsAtLeastTheWorkOfTheSlowestStageAndTheWayOfOneMicrobatch) {
    const std::vector<int> ticks{3, 1, 7, 2, 2, 5, 1, 4};  // forward and backward: three times that
    const int microbatches = 8;
    const Scenario scenario = row(chain_workload(ticks, microbatches, Bytes(1 << 22)), 4);
    const Plan plan = plan_of(scenario, GetParam());
    const ReplayRecord record = replay_apart(scenario, plan);
    int slowest = 0;
    for (int stage = 0; stage < 4; ++stage) {
        int work = 0;
        for (const ChainRange& range : plan.stages[static_cast<std::size_t>(stage)])
            work += std::accumulate(ticks.begin() + range.first, ticks.begin() + range.last, 0);
        slowest = std::max(slowest, 3 * work);
        const WorkerRecord& worker = record.workers[static_cast<std::size_t>(stage)];
        EXPECT_NEAR(worker.breakdown[TimeClass::compute].value(), microbatches * 3 * work * kTick, kExact);
    }
    const int chain = 3 * std::accumulate(ticks.begin(), ticks.end(), 0);
    EXPECT_GE(record.iteration_time.value(), microbatches * slowest * kTick);
    EXPECT_GE(record.iteration_time.value(), chain * kTick);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Makespan,
                         ::testing::Values("pp=4", "pp=4 schedule=gpipe", "pp=4 vpp=2 schedule=interleaved",
                                           "pp=4 recompute=none mbs=1"));

TEST(FixedTime, OfAStepFollowsTheLastPass) {
    Scenario scenario = row(equal_chain(2, 2, 4), 2);
    const double without = replay_apart(scenario, "pp=2").iteration_time.value();
    scenario.software.iteration_time = Seconds(7 * kTick);
    const ReplayRecord record = replay_apart(scenario, "pp=2");
    EXPECT_NEAR(record.iteration_time.value(), without + 7 * kTick, kExact * kTick);
    for (const WorkerRecord& worker : record.workers)
        EXPECT_EQ(worker.breakdown[TimeClass::other].value(), 7 * kTick);
}

// Adam: 32 bytes per owned and 4 per local parameter. 2^25 parameters: 36 x 2^25 / 2^41 s = 0.5625 ticks. The passes of
// the node stay bound by FLOPs (10 bytes per parameter backward: 0.16 ticks).
TEST(OptimizerStep, ReadsAndWritesThirtySixBytesPerParameter) {
    Scenario scenario = row(equal_chain(1, 2, 4, Bytes(0), 1 << 25), 1);
    scenario.software.optimizer_traffic = 1;
    const ReplayRecord record = replay_apart(scenario, "pp=1");
    EXPECT_NEAR(record.workers[0].breakdown[TimeClass::optimizer].value(), 0.5625 * kTick, kExact * kTick);
    EXPECT_NEAR(record.iteration_time.value(), (4 * 6 + 0.5625) * kTick, kExact * kTick);
}

// Recomputation repeats the forward pass: m (f + f + b).
TEST(Recomputation, RepeatsEveryForwardPass) {
    const ReplayRecord record = replay_apart(row(equal_chain(3, 2, 4), 1), "pp=1 recompute=full");
    EXPECT_EQ(record.workers[0].breakdown[TimeClass::recompute].value(), 4 * 3 * 2 * kTick);
    EXPECT_EQ(record.iteration_time.value(), 4 * 3 * 8 * kTick);
}

}  // namespace
}  // namespace plansim
