// SPDX-License-Identifier: Apache-2.0
// Local SGD with an outer optimizer (DiLoCo, Douillard et al. 2023): who sums with whom, and what the outer step costs
// on average.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/cost/data_parallel.hpp"
#include "tests/support/replays.hpp"

namespace plansim {
namespace {

// 8 operators of one tick forward and two backward, 2^20 parameters each; 4 nodes of 2 devices.
constexpr std::int64_t kParameters = 1 << 20;
Scenario four_nodes() {
    return {equal_chain(8, 1, 16, Bytes(0), kParameters), ideal_platform(4, 2), bare_software()};
}

TEST(LocalSgd, GradientsAreSummedInsideOfAReplicaAndMovesAcrossThem) {
    const Scenario scenario = four_nodes();
    const Plan plan = plan_of(scenario, "dp=8 outer_steps=50 outer_replicas=4");
    EXPECT_EQ(plan.data_ranks(), 2);
    const Layout layout(plan);
    EXPECT_THAT(layout.data_groups(DataGroup::all, 0),
                ::testing::ElementsAre(Group{0, 1}, Group{2, 3}, Group{4, 5}, Group{6, 7}));
    EXPECT_THAT(layout.data_groups(DataGroup::outer, 0), ::testing::ElementsAre(Group{0, 2, 4, 6}, Group{1, 3, 5, 7}));
}

TEST(LocalSgd, ExpertsOfEveryReplicaHaveGroupsOfTheirOwn) {
    Scenario scenario{small_transformer(), ideal_platform(4, 2), bare_software()};
    scenario.workload.transformer->experts = 4;
    scenario.workload.transformer->top_k = 2;
    const Layout layout(plan_of(scenario, "dp=8 ep=2 outer_steps=10 outer_replicas=2"));
    EXPECT_THAT(layout.data_groups(DataGroup::experts, 0),
                ::testing::ElementsAre(Group{0, 2}, Group{1, 3}, Group{4, 6}, Group{5, 7}));
}

// An all-reduce over 4 nodes: 2 x 3/4 of 4 bytes per parameter of the rank's half over its NIC, once in 50 steps.
TEST(LocalSgd, AnOuterStepSendsItsShareOfTheParametersOnceInManySteps) {
    const Scenario scenario = four_nodes();
    const double sum = 1.5 * 4 * 8 * kParameters / 2 / kNicRate;
    const auto time = [&](const std::string& plan) { return replay_apart(scenario, plan).iteration_time.value(); };
    // The outer optimizer: 20 bytes per parameter of the share.
    const double optimizer = 20.0 * 8 * kParameters / 2 / kMemoryRate;
    // Inside of a replica nothing changes; two replicas of a node reduce over its switch either way.
    Scenario one = scenario;
    one.platform = ideal_platform(1, 2);
    one.workload.gbs /= 4;
    const double inner = replay_apart(one, "dp=2").iteration_time.value();
    EXPECT_NEAR(time("dp=8 outer_steps=50 outer_replicas=4"), inner + (sum + optimizer) / 50, 1e-9 * inner);
    EXPECT_NEAR(time("dp=8 outer_steps=10 outer_replicas=4"), inner + (sum + optimizer) / 10, 1e-9 * inner);
    EXPECT_LT(time("dp=8 outer_steps=10 outer_replicas=4"), time("dp=8"));
}

TEST(LocalSgd, AnOuterSumHidesBehindTheStepsThatItMayTake) {
    Scenario scenario = four_nodes();
    scenario.software.dp_overlap_share = 1;
    const ReplayRecord exposed = replay_apart(scenario, "dp=8 outer_steps=50 outer_replicas=4");
    const ReplayRecord hidden = replay_apart(scenario, "dp=8 outer_steps=50 outer_replicas=4 outer_overlap=1");
    const double sum = 1.5 * 4 * 8 * kParameters / 2 / kNicRate;
    EXPECT_NEAR((exposed.iteration_time - hidden.iteration_time).value(), sum / 50, 1e-12);
}

TEST(LocalSgd, FormulaAndReplayAgree) {
    const Scenario scenario = four_nodes();
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    for (const char* text :
         {"dp=8 outer_steps=20 outer_replicas=4", "dp=8 outer_steps=20", "pp=2 dp=4 outer_steps=5"}) {
        const Plan plan = plan_of(scenario, text);
        const double replayed = replay_apart(scenario, plan).iteration_time.value();
        EXPECT_NEAR(estimate(model, plan).iteration_time.value(), replayed, 1e-6 * replayed) << text;
    }
}

}  // namespace
}  // namespace plansim
