// SPDX-License-Identifier: Apache-2.0
// How tokens choose experts: which share the busiest rank computes and receives, and what bringing tokens into expert
// order moves. 2 bytes per activation.
#include <gtest/gtest.h>

#include <map>

#include "sim/graph/block.hpp"
#include "tests/support/scenarios.hpp"

namespace plansim {
namespace {

constexpr std::int64_t kTokens = 256;  // of a microbatch
constexpr std::int64_t kHidden = 512;
constexpr std::int64_t kTopK = 2;

Workload mixture() {
    Workload workload = small_transformer();
    workload.transformer->experts = 8;
    workload.transformer->top_k = kTopK;
    return workload;
}

Shard spread(std::int64_t ep) {
    Shard shard;
    shard.ep = ep;
    return shard;
}

std::map<std::string, Operator> operators(const Workload& workload, const Shard& shard) {
    const Block block = build_block(workload, 1, shard);
    std::map<std::string, Operator> result;
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph)))
        result[block.graph[vertex].name] = block.graph[vertex];
    return result;
}

std::int64_t traffic(const Operator& op) {
    return (op.read + op.written).value();
}

TEST(Routing, BalancedLoadsAreOnePerRank) {
    for (const std::int64_t ep : {1, 2, 4, 8})
        EXPECT_DOUBLE_EQ(mixture().transformer->busiest_rank_load(ep), 1);
}

TEST(Routing, ListedLoadsLieOnTheRanksInBlocks) {
    Workload workload = mixture();
    workload.transformer->expert_loads = {4, 2, 1, 1, 1, 1, 1, 1};  // sum 12
    EXPECT_DOUBLE_EQ(workload.transformer->busiest_rank_load(1), 1);
    EXPECT_DOUBLE_EQ(workload.transformer->busiest_rank_load(2), 8.0 / 6);  // 8 and 4, of 6 on average
    EXPECT_DOUBLE_EQ(workload.transformer->busiest_rank_load(4), 6.0 / 3);  // 6, 2, 2, 2
    EXPECT_DOUBLE_EQ(workload.transformer->busiest_rank_load(8), 4.0 / 1.5);
}

// Zipf with exponent 1 over 8 experts: H8 = 761/280. Two ranks get 1, 1/3, 1/5, 1/7 and the rest.
TEST(Routing, ASkewIsZipfsLawDealtToTheRanks) {
    Workload workload = mixture();
    workload.transformer->routing_skew = 1;
    const double harmonic = 761.0 / 280;
    EXPECT_NEAR(workload.transformer->busiest_rank_load(2), (1 + 1.0 / 3 + 1.0 / 5 + 1.0 / 7) * 2 / harmonic, 1e-12);
    EXPECT_NEAR(workload.transformer->busiest_rank_load(8), 8 / harmonic, 1e-12);
}

TEST(Routing, TheBusiestRankComputesAndReceivesItsLoad) {
    const auto even = operators(mixture(), spread(4));
    Workload workload = mixture();
    workload.transformer->expert_loads = {4, 2, 1, 1, 1, 1, 1, 1};
    const auto busy = operators(workload, spread(4));
    EXPECT_DOUBLE_EQ(busy.at("ffn.experts.up").flops.value(), 2 * even.at("ffn.experts.up").flops.value());
    EXPECT_EQ(busy.at("ffn.dispatch").size, even.at("ffn.dispatch").size * 2);
    EXPECT_EQ(traffic(busy.at("ffn.sort")), 2 * traffic(even.at("ffn.sort")));
    EXPECT_EQ(busy.at("ffn.experts.activation").saved, even.at("ffn.experts.activation").saved * 2);
    // What it sends itself is no more than before.
    EXPECT_EQ(traffic(busy.at("ffn.permute")), traffic(even.at("ffn.permute")));
    EXPECT_DOUBLE_EQ(busy.at("ffn.router").flops.value(), even.at("ffn.router").flops.value());
}

TEST(Routing, ACapacityFactorPadsEveryExpertAndDropsTheRest) {
    Workload workload = mixture();
    workload.transformer->capacity_factor = 1.25;
    workload.transformer->routing_skew = 3;  // has no effect: what is over is dropped
    const auto padded = operators(workload, spread(8));
    // One expert of a rank: 1.25 x 256 x 2 / 8 x 8 copies in products of 2 FLOPs with 512 x 4096 weights.
    EXPECT_DOUBLE_EQ(padded.at("ffn.experts.up").flops.value(), 2.0 * 1.25 * kTokens * kTopK * kHidden * 4096);
}

// Least traffic: every copy read and written once to permute, once more to sort by expert and back, and read once to
// give the sum that is written.
TEST(Permutation, MovesEveryCopyOnceAndSortsThoseThatArriveForSeveralExperts) {
    constexpr std::int64_t kCopies = 2 * kTokens * kTopK * kHidden;  // bytes
    const auto several = operators(mixture(), spread(4));
    EXPECT_EQ(traffic(several.at("ffn.permute")), 2 * kCopies);
    EXPECT_EQ(traffic(several.at("ffn.sort")), 2 * kCopies);
    EXPECT_EQ(traffic(several.at("ffn.unsort")), 2 * kCopies);
    EXPECT_EQ(traffic(several.at("ffn.unpermute")), kCopies + kCopies / kTopK);
    for (const std::int64_t ep : {1, 8}) {  // no exchange, or a single expert: in order already
        const auto sorted = operators(mixture(), spread(ep));
        EXPECT_FALSE(sorted.contains("ffn.sort"));
        EXPECT_FALSE(sorted.contains("ffn.unsort"));
    }
}

}  // namespace
}  // namespace plansim
