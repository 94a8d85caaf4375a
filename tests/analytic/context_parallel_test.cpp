// SPDX-License-Identifier: Apache-2.0
// Context parallelism: what each rank sends, what is exposed, and that the work is shared evenly.
#include <gtest/gtest.h>

#include "sim/graph/block.hpp"
#include "tests/support/replays.hpp"

namespace plansim {
namespace {

constexpr int kRanks = 4;
constexpr int kLayers = 8;
constexpr int kMicrobatches = 16;  // gbs 16, one replica, mbs 1
// Keys and values of one layer for the whole sequence: 256 tokens x 2 x 8 heads x 64 x 2 bytes.
constexpr std::int64_t kKeysAndValues = 256 * 2 * 8 * 64 * 2;

Scenario four_ranks() {
    Scenario scenario{small_transformer(kMicrobatches), ideal_platform(1, kRanks), bare_software()};
    scenario.software.cp_step_time = Seconds(0);
    scenario.software.cp_overlap_share = 0;
    return scenario;
}

// Per layer and microbatch keys and values are gathered forward and once more backward, and their gradients are
// reduced: three times (n-1)/n of the tensor over the port of each rank.
TEST(ContextParallel, KeysAreGatheredTwiceAndTheirGradientsReducedOnce) {
    const double transfer = 0.75 * kKeysAndValues / kNodeRate;
    for (const Fidelity fidelity : {Fidelity::stage, Fidelity::layer}) {
        const ReplayRecord record = replay_apart(four_ranks(), "cp=4 zero=0", {fidelity, Replicas::automatic, false});
        const double expected = kMicrobatches * kLayers * 3 * transfer;
        EXPECT_NEAR(record.workers[0].breakdown[TimeClass::cp_exposed].value(), expected, 1e-12 * expected);
    }
}

// Besides that every rank all-reduces its gradients with the other three: the ranks hold the same parameters.
TEST(ContextParallel, PortsCarryKeysGradientsOfKeysAndGradientsOfParameters) {
    const Scenario scenario = four_ranks();
    const ReplayRecord record = replay_apart(scenario, "cp=4 zero=0");
    const std::int64_t keys = std::int64_t{kMicrobatches} * kLayers * 3 * (kKeysAndValues / kRanks * (kRanks - 1));
    const std::int64_t gradients = scenario.software.gradient_reduce_bytes * model_totals(scenario.workload).parameters;
    const std::int64_t reduced = 2 * gradients / kRanks * (kRanks - 1);
    EXPECT_EQ(bytes_over(record, ".up"), kRanks * (keys + reduced));
    EXPECT_EQ(bytes_over(record, ".down"), kRanks * (keys + reduced));
}

// With heads dealt out, queries, keys, values and the attention's output change hands in both passes: 4 x 512 columns
// of 256/4 tokens, 2 bytes each, of which (n-1)/n leave the rank (Jacobs et al. 2023: 4 N h / P per layer and pass).
TEST(ContextParallel, DealingOutHeadsMovesQueriesKeysValuesAndOutputsOnce) {
    const ReplayRecord record = replay_apart(four_ranks(), "cp=4 zero=0 cp_exchange=all_to_all");
    const double bytes = 0.75 * 2 * 64 * 4 * 512;
    const double expected = kMicrobatches * kLayers * 2 * bytes / kNodeRate;
    EXPECT_NEAR(record.workers[0].breakdown[TimeClass::cp_exposed].value(), expected, 1e-9 * expected);
    const ReplayRecord ring = replay_apart(four_ranks(), "cp=4 zero=0");
    EXPECT_NEAR(record.workers[0].flops.value(), ring.workers[0].flops.value(), 1);
}

// A ring over n ranks has n - 1 steps, each of them exposed once per layer, microbatch and direction.
TEST(ContextParallel, EveryStepOfTheRingCostsItsFixedTime) {
    Scenario scenario = four_ranks();
    const double without = replay_apart(scenario, "cp=4 zero=0").iteration_time.value();
    scenario.software.cp_step_time = Seconds(kTick);
    const double with = replay_apart(scenario, "cp=4 zero=0").iteration_time.value();
    EXPECT_NEAR(with - without, kMicrobatches * kLayers * 2 * (kRanks - 1) * kTick, 1e-9);
}

// Transfers hide behind a share of the attention core; what hides is no longer exposed.
TEST(ContextParallel, TransfersHideBehindTheAttentionCore) {
    Scenario scenario = four_ranks();
    scenario.software.overlap_slowdown = 0;
    const double exposed = replay_apart(scenario, "cp=4 zero=0").iteration_time.value();
    scenario.software.cp_overlap_share = 1;
    const ReplayRecord hidden = replay_apart(scenario, "cp=4 zero=0");
    EXPECT_LT(hidden.iteration_time.value(), exposed);
    EXPECT_GE(hidden.workers[0].breakdown[TimeClass::cp_exposed].value(), 0);
}

TEST(ContextParallel, RanksShareTheWorkOfASequenceEvenly) {
    const ReplayRecord four = replay_apart(four_ranks(), "cp=4 zero=0");
    Scenario alone = four_ranks();
    alone.platform = ideal_platform(1, 1);
    const ReplayRecord one = replay_apart(alone, "tp=1");
    EXPECT_NEAR(four.workers[0].flops.value() * kRanks, one.workers[0].flops.value(),
                1e-9 * one.workers[0].flops.value());
    EXPECT_EQ(four.workers[0].devices.size(), static_cast<std::size_t>(kRanks));
}

// Under ZeRO-1 the optimizer states are shared by all ranks that hold the same parameters, cp ranks included.
TEST(ContextParallel, OptimizerStatesAreSharedByContextParallelRanks) {
    const ReplayRecord plain = replay_apart(four_ranks(), "cp=4 zero=0");
    const ReplayRecord shared = replay_apart(four_ranks(), "cp=4 zero=1");
    const auto optimizer = static_cast<std::size_t>(MemoryTag::optimizer);
    EXPECT_NEAR(shared.workers[0].at_peak[optimizer].as_double() * kRanks,
                plain.workers[0].at_peak[optimizer].as_double(), kRanks);
}

}  // namespace
}  // namespace plansim
