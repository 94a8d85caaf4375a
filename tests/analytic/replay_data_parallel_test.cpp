// SPDX-License-Identifier: Apache-2.0
// Data- and tensor-parallel collectives in the replay: exposed and hidden parts against times derived by hand.
#include <gtest/gtest.h>

#include "tests/support/replays.hpp"

namespace plansim {
namespace {

constexpr double kExact = 1e-12;
constexpr std::int64_t kParameters = 1 << 22;  // of a node: 8 MiB of 16-bit gradients

double exposed(const ReplayRecord& record, std::size_t worker = 0) {
    return record.workers[worker].breakdown[TimeClass::dp_exposed].value();
}

/// Four replicas in one node; collectives start with a latency of one tick.
Scenario replicas(int nodes, int ticks) {
    Scenario scenario{equal_chain(nodes, ticks, 8, Bytes(0), kParameters), ideal_platform(1, 4), bare_software()};
    scenario.platform.node_fabric.collectives.latency = Seconds(kTick);
    return scenario;
}

// Two nodes with 2^22 parameters each: S = 2^24 bytes; a ring of 4 sends 2 (n-1)/n S = 1.5 S per rank at 2^38 B/s.
constexpr double kPass = 0.75 * (2 * 2 * kParameters) / kNodeRate;  // (n-1)/n S / B

TEST(DataParallel, GradientsAreReducedAfterTheLastPassWithoutOverlap) {
    const ReplayRecord record = replay_apart(replicas(2, 2), "dp=4 zero=0");
    const double reduction = 2 * kPass + kTick;
    EXPECT_NEAR(exposed(record), reduction, kExact * kTick);
    EXPECT_NEAR(record.iteration_time.value(), 2 * 2 * 6 * kTick + reduction, kExact * kTick);  // m = 2, 2 nodes
}

TEST(DataParallel, ZeroOneScattersGradientsAndGathersParameters) {
    const ReplayRecord record = replay_apart(replicas(2, 2), "dp=4 zero=1");
    const double both = 2 * (kPass + kTick);
    EXPECT_NEAR(exposed(record), both, kExact * kTick);
    EXPECT_NEAR(record.iteration_time.value(), 2 * 2 * 6 * kTick + both, kExact * kTick);
}

TEST(DataParallel, EveryMemberSendsTheRingVolume) {
    for (const std::string zero : {"0", "1"}) {
        const ReplayRecord record = replay_apart(replicas(2, 2), "dp=4 zero=" + zero);
        EXPECT_EQ(bytes_over(record, "device0.up"), 2 * 3 * (2 * 2 * kParameters) / 4) << "zero " << zero;
        EXPECT_EQ(bytes_over(record, ".up"), bytes_over(record, ".down"));
    }
}

/// K nodes in one replica pair, one bucket each, no latency, one microbatch: unit k's gradient is ready after k b.
Scenario overlapped(int nodes, int ticks, std::int64_t parameters) {
    Scenario scenario{equal_chain(nodes, ticks, 4, Bytes(0), parameters), ideal_platform(1, 4), bare_software()};
    scenario.software.dp_overlap = true;
    scenario.software.bucket_parameters = 1;
    return scenario;
}

// A reduction r shorter than a backward pass b hides all but the last bucket: exposed r.
TEST(DataParallel, OverlapExposesTheLastBucketOfFastReductions) {
    const ReplayRecord record = replay_apart(overlapped(5, 2, kParameters), "dp=4 zero=0");
    const double reduction = 1.5 * (2 * kParameters) / kNodeRate;
    ASSERT_LT(reduction, 4 * kTick);
    EXPECT_NEAR(exposed(record), reduction, kExact * kTick);
    EXPECT_NEAR(record.iteration_time.value(), 5 * 6 * kTick + reduction, kExact * kTick);
}

// 2^30 parameters a node reduce in 12 ticks, longer than b = 4; the passes take at least their memory traffic: forward
// max(2 ticks, 2 x 2^30 / 2^41 s = 1 tick), backward max(4, 10 x 2^30 / 2^41 = 5 ticks) = 5. The first bucket starts
// after one b, then they follow each other: K r - (K - 1) b beyond the last pass.
TEST(DataParallel, OverlapOfSlowReductionsExposesWhatTheBackwardPassesDoNotCover) {
    const std::int64_t parameters = 1 << 30;
    const ReplayRecord record = replay_apart(overlapped(5, 2, parameters), "dp=4 zero=0");
    const double reduction = 1.5 * 2 * static_cast<double>(parameters) / kNodeRate;
    EXPECT_EQ(reduction, 12 * kTick);
    EXPECT_NEAR(exposed(record), 5 * reduction - 4 * 5 * kTick, 1e-11 * kTick * 60);
    EXPECT_NEAR(record.iteration_time.value(), 5 * 2 * kTick + 5 * kTick + 5 * reduction, 1e-11 * kTick * 60);
}

// Gathers run one after the other from the start: the first is exposed, later ones hide behind forward passes.
TEST(DataParallel, OverlapExposesTheFirstGatherAndTheLastScatter) {
    const ReplayRecord record = replay_apart(overlapped(5, 2, kParameters), "dp=4 zero=1");
    const double pass = 0.75 * (2 * kParameters) / kNodeRate;
    ASSERT_LT(pass, 2 * kTick);
    EXPECT_NEAR(exposed(record), 2 * pass, kExact * kTick);
}

TEST(DataParallel, OverlapNeverExposesMoreThanNoOverlapNorLessThanNothing) {
    for (const std::int64_t parameters : {std::int64_t{1}, kParameters, std::int64_t{1} << 28})
        for (const std::string zero : {"0", "1"}) {
            Scenario scenario = overlapped(4, 2, parameters);
            const ReplayRecord with = replay_apart(scenario, "dp=4 zero=" + zero);
            scenario.software.dp_overlap = false;
            const ReplayRecord without = replay_apart(scenario, "dp=4 zero=" + zero);
            EXPECT_LE(exposed(with), exposed(without) * (1 + kExact));  // equal if all gradients fit one bucket
            EXPECT_GT(exposed(with), 0);
        }
}

TEST(DataParallel, ComputeBesideACollectiveIsSlower) {
    Scenario scenario = overlapped(5, 2, kParameters);
    const double reduction = 1.5 * (2 * kParameters) / kNodeRate;
    scenario.software.overlap_slowdown = 0.5;
    const ReplayRecord record = replay_apart(scenario, "dp=4 zero=0");
    // Each of the five backward passes loses half of the reduction that runs beside it.
    EXPECT_NEAR(record.workers[0].breakdown[TimeClass::compute].value(), 5 * 6 * kTick + 5 * reduction / 2,
                kExact * kTick);
}

// Two nodes of two devices, tp = 2 inside a node: the two data-parallel groups cross the nodes at the same time, over a
// NIC each or over a shared one.
TEST(DataParallel, SiblingsThatShareANicTakeTwiceAsLong) {
    Scenario scenario{small_transformer(), ideal_platform(2, 2, 2), bare_software()};
    const double own = exposed(replay_apart(scenario, "tp=2 dp=2 zero=0"));
    scenario.platform = ideal_platform(2, 2, 1);
    const double shared = exposed(replay_apart(scenario, "tp=2 dp=2 zero=0"));
    EXPECT_GT(own, 0);
    EXPECT_NEAR(shared, 2 * own, kExact * own);
}

// m = 2 microbatches; ZeRO-2 keeps a share of the gradients only, so that each of them reduces behind its backward
// pass: 2 scatters and the gather of the new parameters, a ring pass and a tick of latency each.
TEST(DataParallel, ZeroTwoWithoutOverlapReducesBehindEveryMicrobatch) {
    const ReplayRecord record = replay_apart(replicas(2, 2), "dp=4 zero=2");
    EXPECT_NEAR(exposed(record), 3 * (kPass + kTick), kExact * kTick);
    EXPECT_NEAR(record.iteration_time.value(), 2 * 2 * 6 * kTick + 3 * (kPass + kTick), kExact * kTick);
}

// FSDP takes the two nodes one by one, each with half of the bytes. A microbatch gathers both forward, the first one
// again backward (the second is still whole) and reduces both: 5 collectives.
TEST(DataParallel, FsdpWithoutOverlapExposesEveryGatherAndReduction) {
    const ReplayRecord record = replay_apart(replicas(2, 2), "dp=4 zero=3");
    EXPECT_NEAR(exposed(record), 2 * 5 * (kPass / 2 + kTick), kExact * kTick);
}

// Two stages of two nodes, one device per network node. A rank of two sends half of a node's 2-byte parameters in every
// collective: 4 microbatches gather 2 nodes forward and 1 again backward, and the last of them reduces both.
TEST(DataParallel, FsdpInAPipelineGathersForEveryMicrobatchAndReducesOnce) {
    for (const bool overlap : {false, true}) {
        Scenario scenario{equal_chain(4, 2, 8, Bytes(0), kParameters), ideal_platform(4, 1), bare_software()};
        scenario.software.dp_overlap = overlap;
        const ReplayRecord record = replay_apart(scenario, "pp=2 dp=2 zero=3 reshard_after_forward=on");
        EXPECT_EQ(bytes_over(record, "node0.nic0.up"), (4 * 3 + 2) * kParameters) << overlap;
    }
}

// Two stages of two replicas, one device and NIC per node, one microbatch. When stage 1 has finished its backward pass,
// its boundary (b bytes) and its reduction (a ring of two sends the 2-byte gradients once: also b) start together on
// its NIC: max-min sharing gives each half of it, so that stage 0 begins its backward pass after 2 b/N and not after
// b/N, which is what the closed form takes for a boundary. Behind it stage 0 reduces alone.
TEST(Contention, ABoundaryAndAReductionOnOneNicTakeTwiceAsLongAsTheClosedFormSays) {
    const Bytes boundary(2 * kParameters);
    Scenario scenario{equal_chain(2, 2, 2, boundary, kParameters), ideal_platform(4, 1), bare_software()};
    scenario.software.dp_overlap = true;
    scenario.software.bucket_parameters = 1;
    const std::string plan = "pp=2 dp=2 zero=0";
    const double alone = boundary.as_double() / kNicRate;
    const double passes = 2 * (2 + 4) * kTick;
    const double contended = passes + alone + 2 * alone + alone;
    EXPECT_NEAR(replay_apart(scenario, plan).iteration_time.value(), contended, kExact * kTick);
    // Without gradients to reduce only the two boundaries are left, each alone.
    Scenario single = scenario;
    single.workload = equal_chain(2, 2, 2, boundary);
    EXPECT_NEAR(replay_apart(single, plan).iteration_time.value(), passes + 2 * alone, kExact * kTick);
}

// With sequence parallelism up to three quarters of the collectives hide; half of what hides is lost as compute.
TEST(TensorParallel, HiddenShareLeavesTheRestExposedAndSlowsTheProducts) {
    Scenario scenario{small_transformer(), ideal_platform(1, 2), bare_software()};
    const std::string plan = "tp=2 sequence_parallel=on";
    const Breakdown bare = replay_apart(scenario, plan).workers[0].breakdown;
    scenario.software.tp_overlap = true;
    scenario.software.tp_overlap_share = 0.75;
    scenario.software.overlap_slowdown = 0.5;
    const Breakdown overlapped_run = replay_apart(scenario, plan).workers[0].breakdown;
    const double all = bare[TimeClass::tp_exposed].value();
    const double hidden = all - overlapped_run[TimeClass::tp_exposed].value();
    EXPECT_GT(hidden, 0.7 * all);  // the embedding has next to no compute to hide behind
    EXPECT_LE(hidden, 0.75 * all * (1 + kExact));
    const double lost = (overlapped_run[TimeClass::compute] - bare[TimeClass::compute]).value();
    EXPECT_NEAR(lost, hidden / 2, 1e-9 * hidden);
}

// An all-reduce cannot be split along its product: without sequence parallelism nothing hides.
TEST(TensorParallel, NothingHidesWithoutSequenceParallelism) {
    Scenario scenario{small_transformer(), ideal_platform(1, 2), bare_software()};
    const std::string plan = "tp=2 sequence_parallel=off";
    const double bare = replay_apart(scenario, plan).iteration_time.value();
    scenario.software.tp_overlap = true;
    scenario.software.tp_overlap_share = 0.75;
    EXPECT_DOUBLE_EQ(replay_apart(scenario, plan).iteration_time.value(), bare);
}

// However large the share that may hide: the step takes at least as long as its collectives.
TEST(TensorParallel, CollectivesDoNotHideBehindMoreComputeThanThereIs) {
    Scenario scenario{small_transformer(), ideal_platform(1, 2), bare_software()};
    scenario.platform.node_fabric.bandwidth = BytesPerSecond(kNodeRate / 4096);
    const std::string plan = "tp=2 sequence_parallel=on";
    const double all = replay_apart(scenario, plan).workers[0].breakdown[TimeClass::tp_exposed].value();
    scenario.software.tp_overlap = true;
    scenario.software.tp_overlap_share = 1;
    for (const Fidelity fidelity : {Fidelity::stage, Fidelity::layer})
        EXPECT_GE(replay_apart(scenario, plan, {fidelity, Replicas::automatic, false}).iteration_time.value(), all);
}

// 8 layers with 4 all-reduces, the embedding's forward, the head's backward: 34 of 2 T h bytes for each of m = 16; a
// ring of two sends S per rank and all-reduce.
TEST(TensorParallel, ExposedTimeAndBytesAreThoseOfTheRings) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 2), bare_software()};
    const ReplayRecord record = replay_apart(scenario, "tp=2 sequence_parallel=off");
    const std::int64_t bytes = std::int64_t{16} * 34 * 2 * 256 * 512;
    EXPECT_EQ(bytes_over(record, "device0.up"), bytes);
    EXPECT_NEAR(record.workers[0].breakdown[TimeClass::tp_exposed].value(), static_cast<double>(bytes) / kNodeRate,
                kExact * kTick);
}

}  // namespace
}  // namespace plansim
