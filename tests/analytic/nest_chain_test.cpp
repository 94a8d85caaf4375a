// SPDX-License-Identifier: Apache-2.0
// NEST's formula and the optimum of its space: the published cases, plans priced by hand, enumeration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "planner/nest/chain.hpp"
#include "planner/nest/rivals.hpp"
#include "sim/base/file.hpp"
#include "sim/base/table.hpp"
#include "tests/support/nest_cases.hpp"

namespace plansim::nest {
namespace {

TEST(NestChain, EveryPublishedCaseHasTheSameThroughputAndPlan) {
    const auto rows = parse_csv(read_file(std::string(PLANSIM_TEST_DATA) + "/data/nest/plans.csv"));
    ASSERT_EQ(rows.size(), 40U);
    for (std::size_t row = 1; row < rows.size(); ++row) {
        const auto& cells = rows[row];
        const Case shipped = published_case(cells[0] + "_mbs" + cells[3] + "_" + cells[1], std::stoll(cells[2]));
        const Corrections only_bandwidth{true, false, false, false};
        const auto expect = [&](const Case& planned, std::size_t column) {
            const std::vector<Costs> costs = costs_of(planned);
            const ChainPlan best = best_chain(costs);
            const std::string name = planned.name + "@" + cells[2];
            EXPECT_EQ(best.pp(), std::stoll(cells[column])) << name;
            EXPECT_EQ(costs[best.profile].profile().tp, std::stoll(cells[column + 1])) << name;
            EXPECT_EQ(best.dp, std::stoll(cells[column + 2])) << name;
            const double published = std::stod(cells[column + 3]);
            EXPECT_NEAR(kSequencesPerBatch / best.time, published, 1e-9 * published) << name;
            EXPECT_EQ(best.time, chain_time(costs[best.profile], best)) << name;
            EXPECT_TRUE(chain_fits(costs[best.profile], best)) << name;
        };
        expect(shipped, 4);
        expect(correct(shipped, only_bandwidth, {}), 8);
    }
}

// Two layers of forward 2, backward 3 and 10 bytes of boundary, on two devices of one node at 5 bytes per unit of time
// and latency 1: a transfer takes 10 / 5 + 1 = 3. The last stage recomputes nothing: 3 + 2 + 3 = 8. The first one
// recomputes at the cost of a backward pass while it sends: 2 + max(3, 3) + 3 = 8. Four microbatches: 8 x (4 + 1) = 40.
TEST(NestChain, TwoStagesByHand) {
    const Case planned = small_case({{2, 3}, {2, 3}}, 10, 2, 4);
    const std::vector<Costs> costs = costs_of(planned);
    ChainPlan plan;
    plan.cuts = {0, 1, 2};
    EXPECT_DOUBLE_EQ(stage_load(costs[0], 1, 2, 1), 8);
    EXPECT_DOUBLE_EQ(stage_load(costs[0], 0, 1, 2), 8);
    EXPECT_DOUBLE_EQ(chain_time(costs[0], plan), 40);
}

// 8 bytes among 4 copies in two nodes of two: two halving steps at level 0 take (8 + 4) / 5 + 2 x 1; crossing level 1
// adds 2 x (2 + 8 / 1).
TEST(NestChain, AllReduceByHand) {
    Case planned = small_case({{2, 3}}, 10, 4, 4);
    planned.network = {{2, 2}, {5, 1}, {1, 2}};
    const Costs costs(planned, planned.profiles[0]);
    EXPECT_DOUBLE_EQ(costs.all_reduce(4, 8, 0), 12.0 / 5 + 2);
    EXPECT_DOUBLE_EQ(costs.all_reduce(4, 8, 1), 12.0 / 5 + 2 + 20);
    EXPECT_DOUBLE_EQ(costs.all_reduce(1, 8, 1), 0);
}

TEST(NestChain, AgreesWithTheEnumerationOfAllCutsAndCopies) {
    std::mt19937 random(20);
    int feasible = 0;
    for (int instance = 0; instance < 400; ++instance) {
        const Case planned = random_case(random);
        const std::vector<Costs> costs = costs_of(planned);
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t profile = 0; profile < costs.size(); ++profile) {
            const std::size_t nodes = costs[profile].nodes();
            for (std::uint32_t mask = 0; mask < 1U << (nodes - 1); ++mask) {
                ChainPlan plan;
                plan.profile = profile;
                for (std::size_t cut = 1; cut < nodes; ++cut)
                    if ((mask >> (cut - 1) & 1U) != 0) plan.cuts.push_back(cut);
                plan.cuts.push_back(nodes);
                for (plan.dp = 1; plan.dp * plan.pp() <= costs[profile].groups(); ++plan.dp)
                    if (chain_fits(costs[profile], plan)) least = std::min(least, chain_time(costs[profile], plan));
            }
        }
        EXPECT_DOUBLE_EQ(best_chain(costs).time, least) << instance;
        feasible += std::isfinite(least) ? 1 : 0;
    }
    EXPECT_GT(feasible, 200);
    EXPECT_LT(feasible, 400);
}

// The published ratios of NEST's throughput over those of other planners, as shipped (two digits are published) and
// with an even split (three digits, recomputed).
TEST(NestRivals, DefectsAndFairSplitsGiveThePublishedRatios) {
    struct Row {
        const char* file;
        std::int64_t devices;
        Rival rival;
        double shipped;
        double fair;
    };
    for (const Row& row : {Row{"tpuv4_fatTree_mbs1_llama2", 64, {"manual", 8, 1, 8, {}}, 1.25, 1.003},
                           Row{"tpuv4_fatTree_mbs1_llama2", 1024, {"phaze", 6, 1, 164, {}}, 1.153, 1.156},
                           Row{"tpuv4_fatTree_mbs1_llama3", 1024, {"mcmc", 80, 1, 12, {}}, 2.068, 1.040},
                           Row{"tpuv4_fatTree_mbs1_bert", 1024, {"mcmc", 5, 1, 204, {}}, 1.301, 1.303},
                           Row{"h100_spineLeaf_mbs1_mixtral", 128, {"mcmc", 32, 1, 1, {}}, 2.006, 1.003},
                           Row{"h100_spineLeaf_mbs1_gpt3", 128, {"phaze", 16, 4, 2, {}}, 1.167, 1.024}}) {
        const Case planned = published_case(row.file, row.devices);
        const std::vector<Costs> costs = costs_of(planned);
        const double best = best_chain(costs).time;
        const auto found = score(row.rival, costs);
        ASSERT_TRUE(found && found->shipped && found->fair) << row.file;
        EXPECT_NEAR(*found->shipped / best, row.shipped, 0.0015) << row.file;
        EXPECT_NEAR(*found->fair / best, row.fair, 0.0006) << row.file;
    }
}

// 32 layers cannot be cut into 8 stages of 4 with microbatches of two sequences: Manual's plan does not fit either way.
TEST(NestRivals, PlansThatDoNotFitHaveNoTime) {
    const Case planned = published_case("tpuv4_fatTree_mbs2_llama2", 256);
    const auto found = score({"manual", 8, 1, 32, {}}, costs_of(planned));
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->shipped);
    EXPECT_FALSE(found->fair);
}

}  // namespace
}  // namespace plansim::nest
