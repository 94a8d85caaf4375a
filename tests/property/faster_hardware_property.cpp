// SPDX-License-Identifier: Apache-2.0
// Faster hardware never makes a fixed plan slower, and slower hardware on the critical path makes it slower.
//
// The replay is held to this where a faster part cannot change which flows meet: one stage, or two stages of one
// replica with sends that block, and tensor-parallel collectives as delays (fidelity stage). Elsewhere a pass that ends
// earlier may start a transfer that shares a port with a more urgent one which it would have missed, so that the step
// takes longer: found for tp = 2, pp = 2 inside a node with faster HBM, where a stage boundary meets the next
// collective.
//
// The closed form of a split backward pass is left out: it hides reductions behind a stage's own W pass and fills gaps
// with that of the slowest stage, so that a stage whose W alone gets faster seems to hide less.
#include "tests/support/random_documents.hpp"
#include "tests/support/replays.hpp"

namespace plansim {
namespace {

constexpr double kRounding = 1e-9;

using Change = void (*)(Platform&, double);
const std::vector<std::pair<std::string, Change>> kRates{
    {"FLOPs",
     [](Platform& platform, double factor) {
         for (auto& [precision, rate] : platform.accelerator.peak)
             rate *= factor;
     }},
    {"HBM", [](Platform& platform, double factor) { platform.accelerator.hbm_bandwidth *= factor; }},
    {"node fabric", [](Platform& platform, double factor) { platform.node_fabric.bandwidth *= factor; }},
    {"fabric", [](Platform& platform, double factor) { platform.fabric.bandwidth *= factor; }}};

Scenario changed(Scenario scenario, const std::string& name, double factor) {
    for (const auto& [rate, change] : kRates)
        if (rate == name) change(scenario.platform, factor);
    return scenario;
}

double estimated(const Scenario& scenario, const std::string& plan) {
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    return estimate(model, plan_of(scenario, plan)).iteration_time.value();
}

TEST(FasterHardware, NeverMakesAnEstimateSlower) {
    check_property("estimate", 300, [] {
        const Case drawn = random_case();
        RC_PRE(!splits_backward(plan_of(drawn.scenario, drawn.plan).schedule));
        const double before = estimated(drawn.scenario, drawn.plan);
        for (const auto& [name, change] : kRates) {
            const double after = estimated(changed(drawn.scenario, name, pick_real(1, 4)), drawn.plan);
            RC_LOG() << name << ": " << before << " -> " << after << " for " << drawn.plan << std::endl;
            RC_ASSERT(after <= before * (1 + kRounding));
        }
    });
}

TEST(FasterHardware, NeverMakesTheReplayOfASimplePipelineSlower) {
    check_property("replay", 80, [] {
        constexpr ReplayOptions kOptions{Fidelity::stage, Replicas::automatic, false};
        Case drawn = random_case();
        drawn.scenario.software.pp_overlap = false;
        const Plan plan = plan_of(drawn.scenario, drawn.plan);
        RC_PRE(plan.pp == 1 || (plan.pp == 2 && plan.vpp == 1 && plan.dp == 1));
        const double before = replay_apart(drawn.scenario, plan, kOptions).iteration_time.value();
        for (const auto& [name, change] : kRates) {
            const Scenario faster = changed(drawn.scenario, name, pick_real(1, 4));
            const double after = replay_apart(faster, plan, kOptions).iteration_time.value();
            RC_LOG() << name << ": " << before << " -> " << after << " for " << drawn.plan << std::endl;
            RC_ASSERT(after <= before * (1 + kRounding));
        }
    });
}

/// Compute-bound products, memory-bound norms, exposed tensor-parallel, boundary and data-parallel traffic.
Scenario everything_critical() {
    Scenario scenario = realistic(small_transformer(8), 4, 2);
    scenario.workload.seq = 2048;
    scenario.workload.transformer->hidden = 2048;
    scenario.workload.transformer->head_dim = 256;
    scenario.workload.transformer->ffn = 8192;
    scenario.software.layer_host_time = Seconds(0);
    return scenario;
}

TEST(SlowerHardware, HalvingARateOnTheCriticalPathMakesReplayAndEstimateSlower) {
    const std::string plan = "tp=2 pp=2 dp=2";
    const Scenario scenario = everything_critical();
    const double replayed = replay_apart(scenario, plan).iteration_time.value();
    const double closed = estimated(scenario, plan);
    for (const auto& [name, change] : kRates) {
        const Scenario slower = changed(scenario, name, 0.5);
        EXPECT_GT(replay_apart(slower, plan).iteration_time.value(), replayed * 1.001) << name;
        EXPECT_GT(estimated(slower, plan), closed * 1.001) << name;
    }
}

// One device: halving FLOPs costs at most the compute once more; no more than twice the time for any rate.
TEST(SlowerHardware, HalvingEveryRateAtMostDoublesTheTime) {
    check_property("halving", 100, [] {
        const Case drawn = random_case();
        const double before = estimated(drawn.scenario, drawn.plan);
        Scenario slower = drawn.scenario;
        for (const auto& [name, change] : kRates)
            change(slower.platform, 0.5);
        RC_ASSERT(estimated(slower, drawn.plan) <= 2 * before * (1 + kRounding));
    });
}

}  // namespace
}  // namespace plansim
