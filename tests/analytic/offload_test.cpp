// SPDX-License-Identifier: Apache-2.0
// Optimizer states and weights in the memory of the host: what is left on the device, and what the transfers cost.
#include <gtest/gtest.h>

#include "sim/cost/memory.hpp"
#include "tests/support/replays.hpp"

namespace plansim {
namespace {

constexpr double kHostRate = 1 << 30;      // B/s over the link of one device
constexpr double kHostMemory = 1LL << 34;  // B/s of a node of two devices

Scenario with_host() {
    Scenario scenario{small_transformer(), ideal_platform(1, 2), bare_software()};
    scenario.platform.accelerator.host_bandwidth = BytesPerSecond(kHostRate);
    scenario.platform.host_memory_bandwidth = BytesPerSecond(kHostMemory);
    scenario.software.offload_exposed = 0;
    scenario.software.optimizer_traffic = 1;
    return scenario;
}

struct Priced {
    Topology topology;
    CostModel model;
    explicit Priced(const Scenario& scenario) : topology(scenario.platform), model(scenario, topology) {}
};

TEST(OffloadedOptimizer, LeavesTheOtherShareOfTheStatesOnTheDevice) {
    const Scenario scenario = with_host();
    Priced priced(scenario);
    const StageMemory all = stage_memory(priced.model, plan_of(scenario, "dp=2 zero=1"), 0);
    const StageMemory rest = stage_memory(priced.model, plan_of(scenario, "dp=2 zero=1 offload_optimizer=0.75"), 0);
    EXPECT_NEAR(rest.optimizer.as_double(), all.optimizer.as_double() / 4, 1);
    EXPECT_EQ(rest.weights, all.weights);
    EXPECT_EQ(rest.gradients, all.gradients);
}

// Half of P parameters is owned; the host reads and writes 32 bytes of each at half of its memory rate, or 6 bytes
// travel over the link; the slower of the two and the device counts.
TEST(OffloadedOptimizer, TakesTheSlowestOfDeviceHostAndLink) {
    const Scenario scenario = with_host();
    Priced priced(scenario);
    const Plan plan = plan_of(scenario, "dp=2 zero=1 offload_optimizer=1");
    constexpr double kParameters = 1e8;
    const double owned = kParameters / 2;
    const double host = owned * 32 / (kHostMemory / 2);
    const double link = owned * 6 / kHostRate;
    ASSERT_GT(link, host);
    EXPECT_NEAR(priced.model.optimizer_time(plan, 100'000'000, 0).value(), link, 1e-9 * link);
    Scenario fast_link = scenario;
    fast_link.platform.accelerator.host_bandwidth = BytesPerSecond(kHostRate * 1024);
    Priced fast(fast_link);
    EXPECT_NEAR(fast.model.optimizer_time(plan, 100'000'000, 0).value(), host, 1e-9 * host);
}

TEST(OffloadedWeights, TwoUnitsAreOnTheDeviceAndEveryPassWaitsForWhatTheComputeDoesNotHide) {
    const Scenario scenario = with_host();
    Priced kept(scenario);
    Priced away(scenario);
    const Plan stays = plan_of(scenario, "dp=2 zero=1");
    const Plan leaves = plan_of(scenario, "dp=2 zero=1 offload_weights=on");
    std::int64_t largest = 0;
    for (std::int64_t unit = 0; unit < scenario.workload.chain_length(); ++unit)
        largest = std::max(largest, kept.model.unit(unit, stays, 0).parameters);
    EXPECT_EQ(stage_memory(away.model, leaves, 0).weights, Bytes(2 * 2 * largest));
    const UnitCost& before = kept.model.unit(1, stays, 0);
    const UnitCost& after = away.model.unit(1, leaves, 0);
    const double transfer = 2.0 * static_cast<double>(before.parameters) / kHostRate;
    ASSERT_GT(transfer, before.backward.total().value());
    // It runs beside 80 % of a pass.
    EXPECT_NEAR((after.forward.total() - before.forward.total()).value(),
                transfer - 0.8 * before.forward.total().value(), 1e-12);
    EXPECT_NEAR((after.backward.total() - before.backward.total()).value(),
                transfer - 0.8 * before.backward.total().value(), 1e-12);
}

}  // namespace
}  // namespace plansim
