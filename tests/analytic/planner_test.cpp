// SPDX-License-Identifier: Apache-2.0
// The planner against brute force and against its own promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "planner/baselines.hpp"
#include "planner/search.hpp"
#include "planner/split.hpp"
#include "sim/base/error.hpp"
#include "tests/support/scenarios.hpp"

namespace plansim {
namespace {

// --- Split of the chain ---------------------------------------------------------------------------------------------

/// A scenario whose cost model outlives the test.
struct Bench {
    explicit Bench(Scenario documents) : scenario(std::move(documents)) {}
    Scenario scenario;
    Topology topology{scenario.platform};
    CostModel model{scenario, topology};
};

/// Time of the slowest stage, or nothing if a stage does not fit.
std::optional<double> judge(CostModel& model, const Plan& plan, Bytes capacity) {
    double slowest = 0;
    for (int stage = 0; stage < plan.pp; ++stage) {
        if (stage_peak(model, plan, stage).total() > capacity) return std::nullopt;
        slowest = std::max(slowest, chunk_cost(model, plan, stage).total(plan.schedule).value());
    }
    return slowest;
}

/// The best of all cuts of units [first, end) into stages from `stage` on, tried one by one. Transformers keep
/// embedding and head with a layer: at least `outer` units on the first and on the last stage.
std::optional<double> brute_force(CostModel& model, Plan plan, int stage, std::int64_t first, Bytes capacity) {
    const Workload& workload = model.scenario().workload;
    const std::int64_t end = workload.chain_length();
    const std::int64_t least = workload.transformer ? 2 : 1;
    auto& range = plan.stages[static_cast<std::size_t>(stage)][0];
    if (stage + 1 == plan.pp) {
        range = {first, end};
        if (range.size() < least && workload.transformer) return std::nullopt;
        return judge(model, plan, capacity);
    }
    std::optional<double> best;
    for (std::int64_t cut = first + (stage == 0 ? least : 1); cut < end; ++cut) {
        range = {first, cut};
        const auto found = brute_force(model, plan, stage + 1, cut, capacity);
        if (found && (!best || *found < *best)) best = found;
    }
    return best;
}

Scenario random_chain(std::mt19937& random, int pp) {
    const auto pick = [&](int least, int most) { return least + static_cast<int>(random() % (most - least + 1U)); };
    std::vector<int> ticks(static_cast<std::size_t>(pick(pp, 8)));
    for (int& tick : ticks)
        tick = pick(1, 9);
    Workload workload = chain_workload(ticks, pick(1, 8));
    for (GraphNode& node : workload.graph->nodes) {
        node.parameters = pick(0, 50) * 1000;
        node.saved = Bytes(pick(0, 50) * 10'000);
        node.output = Bytes(pick(1, 50) * 1000);
    }
    const int nodes = static_cast<int>(ticks.size());
    for (int extra = 0; extra < 3; ++extra) {
        const int from = pick(0, nodes - 1);
        if (from + 1 < nodes) workload.graph->edges.emplace_back(from, pick(from + 1, nodes - 1));
    }
    return {workload, ideal_platform(1, pp), bare_software()};
}

void expect_split_is_best(Bench& bench, Plan plan, Bytes capacity, int& feasible) {
    Plan blank = plan;
    blank.stages.assign(static_cast<std::size_t>(plan.pp), {ChainRange{}});
    const auto best = brute_force(bench.model, blank, 0, 0, capacity);
    const bool found = split_stages(bench.model, plan, capacity);
    ASSERT_EQ(found, best.has_value()) << summary(plan);
    if (!found) return;
    ++feasible;
    const auto judged = judge(bench.model, plan, capacity);
    ASSERT_TRUE(judged.has_value()) << "the split does not fit";
    // Sums over the units in another order: rounding of a few additions.
    EXPECT_NEAR(*judged, *best, 1e-13 * *best) << summary(plan);
}

TEST(Split, FindsTheBottleneckOfBruteForceOverAllCutsOfRandomChains) {
    std::mt19937 random(20240701);  // seeded: the same instances every time
    int feasible = 0;
    constexpr int kInstances = 300;
    for (int instance = 0; instance < kInstances; ++instance) {
        const int pp = 1 + static_cast<int>(random() % 4);
        Bench bench(random_chain(random, pp));
        Plan plan = plan_of(bench.scenario, random() % 2 == 0 ? "dp=1 pp=" + std::to_string(pp)
                                                              : "recompute=full dp=1 pp=" + std::to_string(pp));
        // Between a bit less than what the even split needs and a bit more.
        Bytes needed;
        for (int stage = 0; stage < pp; ++stage)
            needed = std::max(needed, stage_peak(bench.model, plan, stage).total());
        expect_split_is_best(bench, plan, needed * (0.6 + 0.1 * static_cast<double>(random() % 6)), feasible);
    }
    EXPECT_GT(feasible, kInstances / 4);  // both outcomes occur often
    EXPECT_LT(feasible, kInstances * 9 / 10);
}

TEST(Split, FindsTheBottleneckOfBruteForceOverAllCutsOfATransformer) {
    for (const bool tied : {false, true})
        for (const int pp : {1, 2, 4, 8})
            for (const double slack : {0.8, 0.95, 1.0, 1.2}) {
                Scenario scenario = realistic(small_transformer(8), 1, pp);
                scenario.workload.transformer->vocab = 65536;  // the head weighs more than a layer
                scenario.workload.transformer->tied_embeddings = tied;
                Bench bench(scenario);
                const Plan plan = plan_of(scenario, "pp=" + std::to_string(pp));
                Bytes needed;
                for (int stage = 0; stage < pp; ++stage)
                    needed = std::max(needed, stage_peak(bench.model, plan, stage).total());
                int feasible = 0;
                expect_split_is_best(bench, plan, needed * slack, feasible);
            }
}

TEST(Split, GivesTheHeavyOperatorAStageOfItsOwn) {
    Bench bench({chain_workload({1, 1, 1, 9, 1, 1}, 8), ideal_platform(1, 3), bare_software()});
    Plan plan = plan_of(bench.scenario, "pp=3");
    ASSERT_TRUE(split_stages(bench.model, plan, Bytes(std::int64_t{1} << 40)));
    EXPECT_EQ(plan.stages, (std::vector<std::vector<ChainRange>>{{{0, 3}}, {{3, 4}}, {{4, 6}}}));
}

// --- Search ---------------------------------------------------------------------------------------------------------

SearchResult search_all(Bench& bench, int top = 1000, const SearchConstraints& constraints = {}) {
    return search(bench.model, top, constraints, [](std::size_t, std::size_t) {});
}

Scenario dense_on_two_nodes() {
    return realistic(small_transformer(32), 2, 4);
}

/// Scenarios in which all, some and few plans fit.
std::vector<Scenario> searched() {
    std::vector<Scenario> result{dense_on_two_nodes(), dense_on_two_nodes(), dense_on_two_nodes()};
    result[1].platform.accelerator.hbm_capacity = Bytes(150'000'000);
    result[2].platform.accelerator.hbm_capacity = Bytes(100'000'000);
    result[2].software.attention = AttentionImplementation::materialised;
    result.push_back(realistic(catalogue_workload("resnet50"), 1, 4));
    result.push_back(realistic(chain_workload({3, 1, 4, 1, 5, 9, 2, 6}, 16, Bytes(1 << 20), 1 << 20), 2, 2));
    Scenario vocabulary = dense_on_two_nodes();
    vocabulary.workload.transformer->vocab = 131072;
    vocabulary.workload.transformer->tied_embeddings = true;
    result.push_back(vocabulary);
    return result;
}

TEST(Search, ReturnsOnlyPlansThatFit) {
    for (const Scenario& scenario : searched()) {
        Bench bench(scenario);
        const SearchResult result = search_all(bench);
        EXPECT_FALSE(result.best.empty());
        for (const Candidate& candidate : result.best) {
            EXPECT_FALSE(candidate.estimate.shortfall.has_value());
            for (int stage = 0; stage < candidate.plan.pp; ++stage)
                EXPECT_LE(stage_peak(bench.model, candidate.plan, stage).total(),
                          scenario.platform.accelerator.hbm_capacity);
        }
    }
}

TEST(Search, ReturnsOnlyPlansThatReadBackAsLegal) {
    for (const Scenario& scenario : searched()) {
        Bench bench(scenario);
        for (const Candidate& candidate : search_all(bench).best) {
            Diagnostics problems;
            const std::string text = to_yaml(candidate.plan, scenario.workload);
            const Plan back = read_plan(Reader::parse(text, "plan", {}, problems), scenario.workload, scenario.platform,
                                        scenario.software);
            EXPECT_NO_THROW(problems.throw_if_any()) << text;
            EXPECT_EQ(back, candidate.plan) << text;
        }
    }
}

TEST(Search, EveryPlanUsesAllDevicesAndDividesTheBatch) {
    for (const Scenario& scenario : searched()) {
        Bench bench(scenario);
        for (const Candidate& candidate : search_all(bench).best) {
            const Plan& plan = candidate.plan;
            EXPECT_EQ(plan.tp * plan.pp * plan.dp, scenario.platform.devices);
            EXPECT_EQ(plan.gbs, scenario.workload.gbs);
            EXPECT_EQ(plan.mbs * plan.dp * plan.microbatches(), plan.gbs);
        }
    }
}

TEST(Search, OrdersPlansByTimeAndNamesEachCombinationOnce) {
    for (const Scenario& scenario : searched()) {
        Bench bench(scenario);
        const SearchResult result = search_all(bench);
        std::set<std::tuple<int, int, std::int64_t, int>> seen;
        for (std::size_t index = 0; index < result.best.size(); ++index) {
            const Plan& plan = result.best[index].plan;
            EXPECT_TRUE(seen.insert({plan.tp, plan.pp, plan.mbs, plan.vpp}).second) << summary(plan);
            if (index == 0) continue;
            EXPECT_GE(result.best[index].estimate.iteration_time, result.best[index - 1].estimate.iteration_time);
        }
    }
}

TEST(Search, FewerPlansAreTheFirstOfMore) {
    Bench bench(dense_on_two_nodes());
    const SearchResult all = search_all(bench);
    const SearchResult three = search_all(bench, 3);
    ASSERT_EQ(three.best.size(), 3U);
    for (std::size_t index = 0; index < 3; ++index)
        EXPECT_EQ(three.best[index].plan, all.best[index].plan);
}

TEST(Search, EstimatesAreThoseOfTheClosedForm) {
    Bench bench(dense_on_two_nodes());
    for (const Candidate& candidate : search_all(bench).best)
        EXPECT_EQ(candidate.estimate.iteration_time, estimate(bench.model, candidate.plan).iteration_time);
}

// The baseline is one of the legal plans, so the best of all is at least as fast by the same formula.
TEST(Search, BestPlanIsAtLeastAsFastAsMegatronsRuleOfThumb) {
    for (const Scenario& scenario : searched()) {
        Bench bench(scenario);
        const auto baseline = megatron_baseline(bench.model);
        if (!baseline) continue;
        const SearchResult result = search_all(bench, 1);
        EXPECT_LE(result.best.front().estimate.iteration_time, estimate(bench.model, *baseline).iteration_time)
            << "best " << summary(result.best.front().plan) << ", baseline " << summary(*baseline);
    }
}

// The same for chains of unequal operators with large boundaries, where the batch leaves no choice of microbatch and
// memory forces a pipeline.
TEST(Search, BestPlanOfARandomChainIsAtLeastAsFastAsMegatronsRuleOfThumb) {
    std::mt19937 random(20240702);
    for (int instance = 0; instance < 200; ++instance) {
        Scenario scenario = random_chain(random, 4);
        scenario.workload.gbs = 2;
        for (GraphNode& node : scenario.workload.graph->nodes)
            node.output = node.output * 1000;
        scenario.platform.accelerator.hbm_capacity =
            Bytes(200'000'000 + static_cast<std::int64_t>(random() % 200'000'000));
        Bench bench(scenario);
        const auto baseline = megatron_baseline(bench.model);
        if (!baseline) continue;
        const SearchResult result = search_all(bench, 1);
        ASSERT_FALSE(result.best.empty());
        EXPECT_LE(result.best.front().estimate.iteration_time.value(),
                  estimate(bench.model, *baseline).iteration_time.value() * (1 + 1e-12))
            << "best " << summary(result.best.front().plan) << ", baseline " << summary(*baseline);
    }
}

// The even split of the same degrees is legal too: no plan of the search may be slower than it.
TEST(Search, NoPlanIsSlowerThanTheEvenSplitOfItsDegrees) {
    for (const Scenario& scenario : searched()) {
        Bench bench(scenario);
        for (const Candidate& candidate : search_all(bench).best) {
            Plan even = candidate.plan;
            even.stages = even_stages(scenario.workload, even.shape());
            const Estimate other = estimate(bench.model, even);
            if (other.shortfall) continue;
            EXPECT_LE(candidate.estimate.iteration_time.value(), other.iteration_time.value() * (1 + 1e-12))
                << summary(even) << " of " << scenario.workload.name;
        }
    }
}

TEST(Search, InfeasibleOneNamesTheNearestPlanAndItsShortfall) {
    Scenario scenario = dense_on_two_nodes();
    scenario.platform.accelerator.hbm_capacity = Bytes(1 << 20);
    Bench bench(scenario);
    const SearchResult result = search_all(bench);
    EXPECT_TRUE(result.best.empty());
    EXPECT_EQ(result.infeasible, result.candidates);
    ASSERT_TRUE(result.nearest && result.shortfall);
    EXPECT_GT(result.shortfall->missing().value(), 0);
    const auto shortfall = estimate(bench.model, *result.nearest).shortfall;
    ASSERT_TRUE(shortfall);
    EXPECT_EQ(shortfall->needed, result.shortfall->needed);
    EXPECT_THAT(explain_infeasible(result, scenario),
                ::testing::AllOf(::testing::HasSubstr("does not fit"),
                                 ::testing::HasSubstr(std::to_string(result.shortfall->missing().value()))));
}

// One byte less than the nearest plan needs is infeasible; what it needs is feasible.
TEST(Search, GivingTheNearestPlanWhatItLacksMakesTheSearchFeasible) {
    Scenario scenario = dense_on_two_nodes();
    scenario.platform.accelerator.hbm_capacity = Bytes(1 << 20);
    Bytes needed;
    {
        Bench bench(scenario);
        needed = search_all(bench).shortfall->needed;
    }
    scenario.platform.accelerator.hbm_capacity = needed;
    Bench bench(scenario);
    EXPECT_FALSE(search_all(bench).best.empty());
}

TEST(Search, KeepsWhatTheUserFixed) {
    Bench bench(dense_on_two_nodes());
    SearchConstraints constraints;
    constraints.pp = 2;
    constraints.mbs = 2;
    constraints.recompute = Recompute::full;
    constraints.sequence_parallel = false;
    const SearchResult result = search_all(bench, 100, constraints);
    EXPECT_FALSE(result.best.empty());
    for (const Candidate& candidate : result.best) {
        EXPECT_EQ(candidate.plan.pp, 2);
        EXPECT_EQ(candidate.plan.mbs, 2);
        EXPECT_FALSE(candidate.plan.sequence_parallel);
        EXPECT_THAT(candidate.plan.recompute, ::testing::Each(Recompute::full));
    }
}

TEST(Search, ABatchThatNoDegreeDividesHasNoLegalPlan) {
    Scenario scenario = dense_on_two_nodes();
    scenario.workload.gbs = 1;
    scenario.workload.transformer->heads = scenario.workload.transformer->kv_heads = 1;
    scenario.workload.transformer->layers = 7;  // 8 devices: tp 1, pp <= 7, so dp >= 2
    Bench bench(scenario);
    const SearchResult result = search_all(bench);
    EXPECT_EQ(result.candidates, 0);
    EXPECT_THAT(explain_infeasible(result, scenario), ::testing::HasSubstr("no legal plan"));
}

// Interleaved sends overlap with compute, but the link between two stages still has to carry them: forward and backward
// take different directions, each vpp boundaries per microbatch (and vpp - 1 on the way back to the first stage).
TEST(Estimate, OverlappedSendsCannotOutrunTheLinkTheyShare) {
    const Bytes boundary{1 << 30};
    Scenario scenario{equal_chain(4, 1, 8, boundary), ideal_platform(2, 1), bare_software()};
    scenario.software.pp_overlap = true;
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const Plan plan = plan_of(scenario, "pp=2 vpp=2");
    const double carried = 8.0 * 2 * boundary.as_double() / kNicRate;  // microbatches x chunks
    EXPECT_GE(estimate(model, plan).iteration_time.value(), carried);
}

}  // namespace
}  // namespace plansim
