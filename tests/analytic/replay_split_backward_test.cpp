// SPDX-License-Identifier: Apache-2.0
// Schedules that split the backward pass, replayed without communication cost against their published bubbles, and
// what goes with them: accounts, memory, reductions. F, B, W are whole ticks per chunk; B without W.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/cost/memory.hpp"
#include "tests/support/replays.hpp"

namespace plansim {
namespace {

constexpr double kExact = 1e-12;  // relative: the engine's clock and sums of delays

struct Passes {
    int f;
    int b;
    int w;
};

/// `pp` devices, each a node of its own; `chunks` operators a device (one copy of the chain).
Scenario row(int pp, int chunks, const Passes& ticks, std::int64_t microbatches, Bytes boundary = Bytes(0)) {
    return {split_chain(pp * chunks, ticks.f, ticks.b, ticks.w, microbatches, boundary), ideal_platform(pp, 1),
            bare_software()};
}

std::string text(int pp, const std::string& schedule) {
    return "pp=" + std::to_string(pp) + " schedule=" + schedule;
}

/// Every worker waits that many ticks in all.
void expect_bubble(int pp, int chunks, const Passes& ticks, std::int64_t microbatches, const std::string& schedule,
                   double expected) {
    const ReplayRecord record = replay_apart(row(pp, chunks, ticks, microbatches), text(pp, schedule));
    for (const WorkerRecord& worker : record.workers)
        EXPECT_NEAR(worker.breakdown[TimeClass::bubble].value() / kTick, expected, 1e-6)
            << schedule << " p=" << pp << " m=" << microbatches << " F B W " << ticks.f << ticks.b << ticks.w
            << " stage " << worker.stage;
}

const std::vector<Passes> kTimes{{4, 4, 4}, {4, 5, 3}, {4, 6, 4}, {4, 8, 2}};

TEST(SplitBubble, Of1F1BAndGpipeIsThatOfTheWholeBackwardPass) {
    for (const Passes& t : kTimes)
        for (const std::string schedule : {"1f1b", "gpipe"})
            expect_bubble(4, 1, t, 8, schedule, 3 * (t.f + t.b + t.w));
}

// Qi et al. 2023: (p - 1)(F + B - W). Stage 0 waits (p - 1) B for its first gradient and (p - 1) F at the end,
// but the other stages run the first p - 1 rounds without W, which stage 0 makes up for in that time.
TEST(SplitBubble, OfZbH1IsTheStagesLessOneTimesFPlusBLessW) {
    for (const Passes& t : kTimes)
        for (const int pp : {1, 2, 3, 4, 8})
            for (const int rounds : {1, 2, 4})
                expect_bubble(pp, 1, t, rounds * pp, "zb-h1", (pp - 1) * (t.f + t.b - t.w));
}

/// Longest wait of any stage between the start of its first pass and the end of its last one: the bubble that Qi et al.
/// count. The step adds the skew, because the gradient norm makes early stages wait for late ones.
double inner_wait(const ReplayRecord& record, double work) {
    double most = 0;
    for (std::size_t worker = 0; worker < record.workers.size(); ++worker) {
        double first = record.iteration_time.value();
        double last = 0;
        for (const Slice& slice : record.slices) {
            if (slice.worker != static_cast<int>(worker) || slice.kind == SliceKind::optimizer_step) continue;
            first = std::min(first, slice.start.value());
            last = std::max(last, slice.end.value());
        }
        most = std::max(most, (last - first) / kTick - work);
    }
    return most;
}

// Two chunks a stage, F = B = W = 4: from its first to its last pass every stage works for m x 2 x 12 ticks. Stage p -
// 1 starts (p - 1) F after stage 0, so that the step is that much longer.
TEST(SplitBubble, OfZbVIsZeroWithinEveryStageIfForwardAndBothBackwardPassesAreEqual) {
    for (const int pp : {2, 3, 4, 8})
        for (const int microbatches : {2 * pp, 2 * pp + 1, 4 * pp}) {
            const ReplayRecord record = replay_apart(row(pp, 2, {4, 4, 4}, microbatches), text(pp, "zb-v"),
                                                     {Fidelity::layer, Replicas::automatic, true});
            EXPECT_NEAR(inner_wait(record, microbatches * 24), 0, 1e-6) << "p=" << pp << " m=" << microbatches;
            EXPECT_NEAR(record.iteration_time.value() / kTick, microbatches * 24 + (pp - 1) * 4, 1e-6);
        }
}

// DualPipe's README: (p / 2 - 1)(F&B + B' - 3 W) with B' = B + W and, as a pair takes F + B', F&B = F + B + W. With
// F = B = W = 4: (p / 2 - 1)(12 + 8 - 12).
TEST(SplitBubble, OfDualpipeIsThePublishedOne) {
    for (const int pp : {2, 4, 6, 8})
        for (const int microbatches : {2 * pp, 2 * pp + 2, 4 * pp})
            expect_bubble(pp, 1, {4, 4, 4}, microbatches, "dualpipe", (pp / 2 - 1) * 8);
}

// The order meets the published formula exactly for equal times only; found with B > W: it never waits longer.
TEST(SplitBubble, OfDualpipeIsAtMostThePublishedOneWhereBackwardOutweighsTheWeights) {
    for (const Passes& t : kTimes)
        for (const int pp : {4, 8}) {
            const ReplayRecord record = replay_apart(row(pp, 1, t, 2 * pp), text(pp, "dualpipe"));
            const double published = (pp / 2 - 1) * (t.f + 2 * t.b - t.w);
            for (const WorkerRecord& worker : record.workers)
                EXPECT_LE(worker.breakdown[TimeClass::bubble].value() / kTick, published + 1e-6);
        }
}

/// Both ways to cut the backward pass must compute the same in every stage of a pipeline of four.
void expect_same_compute(const Scenario& scenario, const std::string& plan = "") {
    const ReplayRecord whole = replay_apart(scenario, "pp=4 schedule=1f1b " + plan);
    const ReplayRecord split = replay_apart(scenario, "pp=4 schedule=zb-h1 " + plan);
    for (std::size_t stage = 0; stage < 4; ++stage) {
        const Breakdown& a = whole.workers[stage].breakdown;
        const Breakdown& b = split.workers[stage].breakdown;
        EXPECT_NEAR(a[TimeClass::compute] / b[TimeClass::compute], 1, kExact) << plan;
        EXPECT_NEAR(a[TimeClass::recompute].value(), b[TimeClass::recompute].value(), 1e-12) << plan;
        EXPECT_NEAR(a[TimeClass::ep_exposed].value(), b[TimeClass::ep_exposed].value(), 1e-12) << plan;
        EXPECT_NEAR(whole.workers[stage].flops.value() / split.workers[stage].flops.value(), 1, kExact) << plan;
    }
}

TEST(SplitBackward, ComputesAsMuchAsTheWholeOne) {
    const Scenario scenario = realistic(small_transformer(), 4, 1);
    expect_same_compute(scenario);
    EXPECT_LT(replay_apart(scenario, "pp=4 schedule=zb-h1").iteration_time,
              replay_apart(scenario, "pp=4 schedule=1f1b").iteration_time);
}

TEST(SplitBackward, ComputesAsMuchWithCastsAccumulationAndUnfusedAttention) {
    Scenario scenario = realistic(small_transformer(), 4, 1);
    scenario.workload.dtype = Precision::fp8;
    scenario.software.accumulation_bytes = 10;
    expect_same_compute(scenario);
    scenario.software.attention = AttentionImplementation::materialised;
    expect_same_compute(scenario, "recompute=selective");
}

TEST(SplitBackward, ComputesAndExchangesAsMuchWithExperts) {
    Scenario scenario = realistic(small_transformer(), 4, 2);
    scenario.workload.transformer->experts = 4;
    scenario.workload.transformer->top_k = 2;
    scenario.software.overlap_slowdown = 0;  // reductions have less compute beside them in W
    expect_same_compute(scenario, "dp=2 ep=2 zero=0");
    expect_same_compute(scenario, "dp=2 ep=2 zero=2");
}

// Frozen weights have no gradients, their sum is not accumulated either: W is empty.
TEST(SplitBackward, HasNoWeightPassWhereWeightsAreFrozen) {
    Scenario scenario = realistic(small_transformer(), 4, 1);
    scenario.software.accumulation_bytes = 10;
    expect_same_compute(scenario, "lora=8");
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const Plan plan = plan_of(scenario, "pp=4 schedule=zb-h1 lora=8");
    EXPECT_EQ(model.unit(1, plan, 0).backward_weight.total(), Seconds(0));
    EXPECT_GT(model.unit(1, plan_of(scenario, "pp=4 schedule=zb-h1"), 0).backward_weight.total(), Seconds(0));
}

// The device idles at every launch: in both parts together as long as in the whole pass.
TEST(SplitBackward, BlocksTheDeviceAsLongAsTheWholeOne) {
    Scenario scenario = realistic(small_transformer(), 4, 1);
    scenario.software.layer_host_time = Seconds(0);
    scenario.software.blocking_time = Seconds(kTick);
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const UnitCost& layer = model.unit(1, plan_of(scenario, "pp=4 schedule=zb-h1"), 0);
    EXPECT_NEAR((layer.backward_input.other + layer.backward_weight.other).value(), kTick, 1e-12);
    EXPECT_GT(layer.backward_weight.other, Seconds(0));
}

// Without a pipeline ZeRO-2 reduces after every microbatch, of a split backward pass after every W: on 2 ranks each
// sends half of S = 2 bytes x 2^20 as reduce-scatter for each of 4 microbatches, and once as all-gather.
TEST(SplitBackward, ReducesAfterEveryWeightPassWhereTheWholeOneDoes) {
    Scenario scenario{equal_chain(4, 2, 8, Bytes(0), (1 << 20) / 4), ideal_platform(2, 1), bare_software()};
    scenario.software.dp_overlap = true;
    for (const std::string schedule : {"1f1b", "zb-h1"}) {
        const ReplayRecord record = replay_apart(scenario, "dp=2 zero=2 schedule=" + schedule);
        EXPECT_EQ(bytes_over(record, "node0.nic0.up"), (4 + 1) * (1 << 20)) << schedule;
    }
}

/// The operators are as long as they are given, so that every schedule has a closed form.
TEST(SplitEstimate, IsTheReplayWhereNothingIsSent) {
    for (const auto& [schedule, chunks] : {std::pair{"zb-h1", 1}, {"zb-v", 2}, {"dualpipe", 1}})
        for (const Passes& t : {Passes{4, 4, 4}, Passes{4, 5, 4}}) {
            const Scenario scenario = row(4, chunks, t, 16);
            const Topology topology(scenario.platform);
            CostModel model(scenario, topology);
            const Plan plan = plan_of(scenario, text(4, schedule));
            const double replayed = replay_apart(scenario, plan).iteration_time.value();
            EXPECT_NEAR(estimate(model, plan).iteration_time.value() / replayed, 1, 0.02) << schedule << t.b;
        }
}

// A microbatch crosses p - 1 boundaries of zb-h1, 2 (p - 1) of zb-v (the turn is on one device), p - 1 of dualpipe,
// each once forward and once backward.
TEST(SplitBoundary, LinksCarryEveryBoundaryTwicePerMicrobatch) {
    const std::int64_t boundary = 1'000'003;
    for (const auto& [schedule, chunks, crossings] : {std::tuple{"zb-h1", 1, 3}, {"zb-v", 2, 6}, {"dualpipe", 1, 3}}) {
        const ReplayRecord record = replay_apart(row(4, chunks, {1, 1, 1}, 8, Bytes(boundary)), text(4, schedule));
        EXPECT_EQ(bytes_over(record, "nic0.up"), 8 * crossings * 2 * boundary) << schedule;
        EXPECT_EQ(bytes_over(record, "nic0.down"), 8 * crossings * 2 * boundary) << schedule;
    }
}

// Sends of the split schedules return at once where the profile overlaps them.
TEST(SplitBoundary, OverlappedSendsAreNotWaitedFor) {
    Scenario scenario = row(4, 1, {4, 4, 4}, 8, Bytes(1 << 25));
    const Seconds blocking = replay_apart(scenario, "pp=4 schedule=zb-h1").iteration_time;
    scenario.software.pp_overlap = true;
    EXPECT_LT(replay_apart(scenario, "pp=4 schedule=zb-h1").iteration_time, blocking);
}

// Passes of the timeline: m forward, m B and m W on each of two chunks.
TEST(SplitTrace, HasASliceForEveryPass) {
    const ReplayRecord record =
        replay_apart(row(2, 2, {1, 1, 1}, 4), text(2, "zb-v"), {Fidelity::layer, Replicas::automatic, true});
    for (const SliceKind kind : {SliceKind::forward, SliceKind::backward_input, SliceKind::backward_weight})
        EXPECT_EQ(std::count_if(record.slices.begin(), record.slices.end(),
                                [&](const Slice& slice) { return slice.worker == 1 && slice.kind == kind; }),
                  8)
            << name_of(kind);
}

// --- memory ---------------------------------------------------------------------------------------------------------

void expect_ledger_is_closed_form(const Scenario& scenario, const std::string& plan_text) {
    const Plan plan = plan_of(scenario, plan_text);
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const ReplayRecord record = replay_apart(scenario, plan);
    for (const WorkerRecord& worker : record.workers)
        EXPECT_EQ(worker.peak_memory.value(), stage_peak(model, plan, worker.stage).total().value())
            << plan_text << " stage " << worker.stage;
}

// The last stage holds the gradients of p - 1 microbatches' logits beside the logits of one.
TEST(SplitLedger, PeakOfZbH1IsTheClosedForm) {
    Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    for (const std::string plan : {"pp=4", "pp=2 dp=2 zero=1", "tp=2 pp=2", "pp=4 mbs=8", "dp=4 mbs=2"})
        expect_ledger_is_closed_form(scenario, plan + " schedule=zb-h1");
    scenario.software.attention = AttentionImplementation::materialised;
    expect_ledger_is_closed_form(scenario, "pp=4 schedule=zb-h1 recompute=selective");
}

TEST(SplitLedger, PeaksOfZbVAndDualpipeAreTheClosedFormsOfAChain) {
    const Scenario scenario{equal_chain(8, 1, 16, Bytes(1000), 5000), ideal_platform(1, 4), bare_software()};
    for (const std::string plan : {"pp=4", "pp=2 dp=2 zero=1", "pp=4 mbs=8", "pp=4 mbs=4"})
        expect_ledger_is_closed_form(scenario, plan + " schedule=zb-v");
    for (const std::string plan : {"pp=4", "pp=2 dp=2 zero=1", "pp=4 mbs=2", "pp=4 zero=0"})
        expect_ledger_is_closed_form(scenario, plan + " schedule=dualpipe");
}

// --- DualPipe's two copies ------------------------------------------------------------------------------------------

// 4 operators of 2^20 parameters on 2 stages: each device holds all 2^22 of them, 1F1B half. Adam's 12 bytes are shared
// by the pair under ZeRO-1.
TEST(DualPipeCopies, EveryDeviceHoldsTwoStages) {
    const std::int64_t parameters = 1 << 22;
    const Scenario scenario{equal_chain(4, 1, 8, Bytes(0), parameters / 4), ideal_platform(2, 1), bare_software()};
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    for (const int stage : {0, 1}) {
        const StageMemory memory = stage_memory(model, plan_of(scenario, "pp=2 schedule=dualpipe zero=1"), stage);
        EXPECT_EQ(memory.weights.value(), 2 * parameters);
        EXPECT_EQ(memory.gradients.value(), 4 * parameters);
        EXPECT_EQ(memory.optimizer.value(), 12 * parameters / 2);
    }
}

// The pair reduces what it shares once: a ring of 2 sends S = 2 bytes x 2^22 per rank each way, in ZeRO-1 half of it as
// reduce-scatter and half as all-gather. Boundaries carry nothing.
TEST(DualPipeCopies, ThePairReducesItsGradients) {
    const std::int64_t parameters = 1 << 22;
    Scenario scenario{equal_chain(4, 2, 8, Bytes(0), parameters / 4), ideal_platform(2, 1), bare_software()};
    for (const bool overlap : {false, true})
        for (const std::string zero : {"0", "1"}) {
            scenario.software.dp_overlap = overlap;
            scenario.software.bucket_parameters = 1;
            const ReplayRecord record = replay_apart(scenario, "pp=2 schedule=dualpipe zero=" + zero);
            EXPECT_EQ(bytes_over(record, "node0.nic0.up"), 2 * parameters) << "overlap " << overlap << " zero " << zero;
            EXPECT_EQ(bytes_over(record, "node1.nic0.up"), 2 * parameters) << "overlap " << overlap << " zero " << zero;
        }
}

// The pair shares experts like everything else: 12 bytes of Adam per parameter over both ranks, and one reduction of
// S = 2 bytes per parameter, of which a ring of 2 sends S per rank.
TEST(DualPipeCopies, ThePairSharesItsExperts) {
    Workload workload = small_transformer(8);
    workload.transformer->experts = 4;
    workload.transformer->top_k = 2;
    const Scenario scenario{workload, ideal_platform(2, 1), bare_software()};
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const StageMemory memory = stage_memory(model, plan_of(scenario, "pp=2 schedule=dualpipe zero=1"), 0);
    const std::int64_t parameters = memory.weights.value() / 2;
    EXPECT_GT(parameters, 8 * 4 * 3 * 512 * 2048);
    EXPECT_EQ(memory.optimizer.value(), 12 * parameters / 2);
    const Bytes boundary(2 * 256 * 512);  // 8 microbatches, half of them up, forward and backward
    for (const std::string zero : {"0", "1"})
        EXPECT_EQ(bytes_over(replay_apart(scenario, "pp=2 schedule=dualpipe zero=" + zero), "node0.nic0.up"),
                  2 * parameters + 8 * boundary.value())
            << "zero " << zero;
}

// 4 stages x 2 replicas: stages 0 and 3 are one group of 4 ranks, 1 and 2 another; a ring of 4 sends 1.5 S per rank.
// Folded or not, the step is the same.
TEST(DualPipeCopies, ReplicasAndPairsAreOneDataParallelGroup) {
    const std::int64_t parameters = 1 << 22;
    Scenario scenario{equal_chain(4, 2, 32, Bytes(0), parameters), ideal_platform(8, 1), bare_software()};
    const std::string plan = "pp=4 dp=2 schedule=dualpipe zero=0";
    const ReplayRecord all = replay_apart(scenario, plan, {Fidelity::layer, Replicas::all, false});
    const ReplayRecord folded = replay_apart(scenario, plan, {Fidelity::layer, Replicas::folded, false});
    EXPECT_EQ(bytes_over(all, "node0.nic0.up"), 3 * (2 * 2 * parameters) / 2);
    EXPECT_NEAR(folded.iteration_time / all.iteration_time, 1, kExact);
    EXPECT_EQ(bytes_over(all, ".up"), bytes_over(folded, ".up"));
    EXPECT_GT(all.workers[0].breakdown[TimeClass::dp_exposed].value(), 0);
}

}  // namespace
}  // namespace plansim
