// SPDX-License-Identifier: Apache-2.0
// What one device holds and sends under expert parallelism, FSDP, hybrid sharding and LoRA, derived from the sizes of
// the model. 2 bytes per parameter and activation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/collective/expert_exchange.hpp"
#include "sim/cost/data_parallel.hpp"
#include "sim/cost/memory.hpp"
#include "tests/support/replays.hpp"

namespace plansim {
namespace {

Workload mixture() {
    Workload workload = small_transformer();
    workload.transformer->experts = 8;
    workload.transformer->top_k = 2;
    return workload;
}

TEST(ExpertParallelism, ARankHoldsItsShareOfTheExpertsAndAllOfTheRest) {
    const Scenario scenario{mixture(), ideal_platform(1, 8), bare_software()};
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const UnitCost& all = model.unit(1, plan_of(scenario, "dp=8 zero=1"), 0);
    CostModel spread(scenario, topology);
    const UnitCost& share = spread.unit(1, plan_of(scenario, "dp=8 ep=4 zero=1"), 0);
    // 8 experts of 3 matrices 512 x 2048, of which a rank holds 2.
    EXPECT_EQ(all.expert_parameters, 8 * 3 * 512 * 2048);
    EXPECT_EQ(share.expert_parameters, 2 * 3 * 512 * 2048);
    EXPECT_EQ(share.parameters - share.expert_parameters, all.parameters - all.expert_parameters);
}

TEST(ExpertParallelism, TokensTravelToTheirExpertsAndBackInBothPasses) {
    const Scenario scenario{mixture(), ideal_platform(1, 8), bare_software()};
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const UnitCost& unit = model.unit(1, plan_of(scenario, "dp=8 ep=8 mbs=2 zero=1"), 0);
    for (const Phase* phase : {&unit.forward, &unit.backward}) {
        ASSERT_EQ(phase->collectives.size(), 2U);
        for (const UnitCollective& call : phase->collectives) {
            EXPECT_EQ(call.axis, Axis::ep);
            EXPECT_EQ(call.size, Bytes(2 * 2 * 256 * 512));  // 2 samples of 256 tokens
        }
    }
}

TEST(ExpertParallelism, ATokenTravelsToARankOnceHoweverManyOfItsExpertsItWants) {
    const Topology topology(ideal_platform(1, 4));
    // Two experts for each token, drawn from 4 ranks: a given rank is wanted with 1 - (3/4)^2 = 7/16.
    const Decomposition exchange = expert_exchange({0, 1, 2, 3}, Bytes(1600), 2, topology);
    EXPECT_EQ(exchange.flows.size(), 12U);
    for (const HopFlow& flow : exchange.flows)
        EXPECT_EQ(flow.bytes, Bytes(700));
}

TEST(ExpertParallelism, ATokenCrossesTheNetworkOnceToANodeAndIsPassedOnThere) {
    const Topology topology(ideal_platform(2, 2));
    // Two nodes: the other one is wanted with 1 - (1/2)^2 = 3/4. In the node a peer gets 7/16 of the tokens of both
    // ranks that send to this one: its own and the counterpart in the other node.
    const Decomposition exchange = expert_exchange({0, 1, 2, 3}, Bytes(1600), 2, topology);
    for (const HopFlow& flow : exchange.flows)
        EXPECT_EQ(flow.bytes, topology.same_node(flow.source, flow.destination) ? Bytes(1400) : Bytes(1200));
}

TEST(ExpertParallelism, RanksWithTheSameExpertsAreEveryEpThOfAStage) {
    const Scenario scenario{mixture(), ideal_platform(1, 8), bare_software()};
    const Plan plan = plan_of(scenario, "tp=2 dp=4 ep=4 sequence_parallel=on zero=1");
    const Layout layout(plan);
    EXPECT_THAT(layout.groups(Axis::ep, 0, 0), ::testing::ElementsAre(Group{0, 1, 2, 3}));
    EXPECT_THAT(layout.groups(Axis::ep, 1, 0), ::testing::IsEmpty());
    EXPECT_THAT(layout.groups(Axis::ep, 2, 0), ::testing::ElementsAre(Group{4, 5, 6, 7}));
    EXPECT_THAT(layout.data_groups(DataGroup::experts, 0),
                ::testing::ElementsAre(Group{0, 4}, Group{1, 5}, Group{2, 6}, Group{3, 7}));
}

// Experts that are neither spread nor split are held by every rank of a stage, tensor-parallel ranks included. Scatter
// and gather each move (n-1)/n of 2 bytes per parameter: n = 4 for the experts, over the two NICs of a node together, n
// = 2 for the rest, over one NIC each. Beside frozen weights (LoRA) only the adapters are left.
TEST(ExpertParallelism, ExpertsThatAreNotSplitAreReducedOverTheTensorParallelRanksToo) {
    const Scenario scenario{mixture(), ideal_platform(4, 2), bare_software()};
    const Topology topology(scenario.platform);
    const auto trained = [&](const std::string& text) {
        const Plan plan = plan_of(scenario, text);
        CostModel model(scenario, topology);
        DataParameters sum;
        for (std::int64_t unit = plan.range(0).first; unit < plan.range(0).last; ++unit)
            sum.add(model.unit(unit, plan, 0));
        return sum;
    };
    const std::string whole = "tp=2 pp=2 dp=2 ep=1 etp=1 sequence_parallel=on zero=1";
    const std::string adapted = whole + " lora=1";
    EXPECT_THAT(Layout(plan_of(scenario, whole)).data_groups(DataGroup::experts, 0),
                ::testing::ElementsAre(Group{0, 1, 2, 3}));
    const std::int64_t more = bytes_over(replay_apart(scenario, whole), "node0.nic0.up") -
                              bytes_over(replay_apart(scenario, adapted), "node0.nic0.up");
    EXPECT_EQ(more, 3 * trained(whole).trained_experts / 2 + 2 * (trained(whole).trained - trained(adapted).trained));
}

TEST(Fsdp, GathersParametersAndReducesGradientsOverAllDataRanks) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 8), bare_software()};
    const Plan plan = plan_of(scenario, "dp=8 zero=3");
    DataParameters parameters;
    parameters.dense = parameters.trained = 1000;
    const auto gathers = gatherings(plan, scenario.software, parameters);
    const auto reduces = reductions(plan, scenario.software, parameters);
    ASSERT_EQ(gathers.size(), 1U);
    ASSERT_EQ(reduces.size(), 1U);
    EXPECT_EQ(gathers.front().kind, CollectiveKind::all_gather);
    EXPECT_EQ(gathers.front().size, Bytes(2000));
    EXPECT_EQ(reduces.front().kind, CollectiveKind::reduce_scatter);
    EXPECT_EQ(reduces.front().size, Bytes(1000 * scenario.software.gradient_reduce_bytes));
    EXPECT_TRUE(gathers_every_pass(plan));
    EXPECT_TRUE(gathers_again(plan));
    EXPECT_TRUE(reduces_every_pass(plan));
}

TEST(Fsdp, HybridShardingReducesShardsAmongTheCopies) {
    const Scenario scenario{small_transformer(), ideal_platform(2, 4), bare_software()};
    const Plan plan = plan_of(scenario, "dp=8 zero=3 fsdp=4");
    DataParameters parameters;
    parameters.dense = parameters.trained = 1000;
    const auto reduces = reductions(plan, scenario.software, parameters);
    ASSERT_EQ(reduces.size(), 2U);
    EXPECT_EQ(reduces[0].group, DataGroup::shard);
    EXPECT_EQ(reduces[1].group, DataGroup::copies);
    EXPECT_EQ(reduces[1].kind, CollectiveKind::all_reduce);
    EXPECT_EQ(reduces[1].size, reduces[0].size / 4.0);
    const Layout layout(plan);
    EXPECT_THAT(layout.data_groups(DataGroup::shard, 0), ::testing::ElementsAre(Group{0, 1, 2, 3}, Group{4, 5, 6, 7}));
    EXPECT_THAT(layout.data_groups(DataGroup::copies, 0),
                ::testing::ElementsAre(Group{0, 4}, Group{1, 5}, Group{2, 6}, Group{3, 7}));
}

TEST(Lora, TrainsTheAdaptersOfAttentionOnlyAndComputesNoWeightGradients) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 8), bare_software()};
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const UnitCost& whole = model.unit(1, plan_of(scenario, "dp=8"), 0);
    const UnitCost& adapted = model.unit(1, plan_of(scenario, "dp=8 lora=16"), 0);
    // Rank 16 beside 512 x (512 + 2 x 512) and 512 x 512.
    EXPECT_EQ(adapted.trained, 16 * ((512 + 1536) + (512 + 512)));
    EXPECT_EQ(adapted.parameters, whole.parameters);
    // The weight gradients that are left out have the FLOPs of the forward products: 2 x tokens x parameters.
    const double products = 2.0 * 256 * (512 * 1536 + 512 * 512 + 3 * 512 * 2048);
    EXPECT_NEAR(whole.backward.flops.value() - adapted.backward.flops.value(), products, 1);
}

}  // namespace
}  // namespace plansim
