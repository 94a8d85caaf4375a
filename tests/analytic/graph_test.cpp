// SPDX-License-Identifier: Apache-2.0
// Operator graphs: parameters and FLOPs of published models, sharding, collectives, structure.
#include <gtest/gtest.h>

#include <boost/graph/topological_sort.hpp>
#include <map>
#include <set>

#include "sim/graph/block.hpp"
#include "tests/support/scenarios.hpp"

namespace plansim {
namespace {

const std::vector<std::string> kTransformers{"llama2-7b",    "llama3-8b",     "llama3-70b", "llama3-405b",
                                             "mixtral-8x7b", "mixtral-8x22b", "gpt3-175b",  "bert-large"};

auto vertices(const Block& block) {
    return boost::make_iterator_range(boost::vertices(block.graph));
}

/// Calls `check` with every block of the catalogue under many shards.
template <class Check>
void for_each_block(Check&& check) {
    for (const std::string& name : kTransformers) {
        const Workload workload = catalogue_workload(name);
        for (const std::int64_t tp : {1, 2, 8})
            for (const bool sequence : {false, true})
                for (const auto attention : {AttentionImplementation::fused, AttentionImplementation::materialised})
                    for (const std::int64_t index : {std::int64_t{0}, std::int64_t{1}, workload.chain_length() - 1})
                        check(workload, build_block(workload, index, {tp, 1, 2, sequence && tp > 1, attention, true}));
    }
}

TEST(ModelTotals, ParametersAreThoseOfThePublishedCheckpoints) {
    const std::map<std::string, std::int64_t> published{
        {"llama2-7b", 6'738'415'616},     {"llama3-8b", 8'030'261'248},     {"llama3-70b", 70'553'706'496},
        {"llama3-405b", 405'853'388'800}, {"mixtral-8x7b", 46'702'792'704}, {"mixtral-8x22b", 140'620'634'112},
        {"bert-large", 335'141'888}};
    for (const auto& [name, parameters] : published)
        EXPECT_EQ(model_totals(catalogue_workload(name)).parameters, parameters) << name;
}

TEST(ModelTotals, Gpt3HasTheParametersOfItsPaperWithinATenthOfAPercent) {
    const auto parameters = static_cast<double>(model_totals(catalogue_workload("gpt3-175b")).parameters);
    EXPECT_NEAR(parameters, 174.6e9, 174.6e6);
}

// Llama 2 7B, one token forward: two FLOPs per weight of the products,
//   2 (32 (4 h^2 + 3 h f) + V h) = 2 (32 x 202,375,168 + 131,072,000) = 13,214,154,752,
// and causal attention, 2 s h per layer (half of 4 s h): 32 x 2 x 4096 x 4096 = 1,073,741,824. Training: three times.
TEST(ModelTotals, FlopsPerTokenOfLlama2Are14287896576Forward) {
    const ModelTotals totals = model_totals(catalogue_workload("llama2-7b"));
    EXPECT_EQ(totals.forward_flops_per_token.value(), 14'287'896'576.0);
    EXPECT_EQ(totals.training_flops_per_token.value(), 42'863'689'728.0);
}

// Six of eight experts rest: 32 layers x 6 x 3 h f = 32 x 6 x 3 x 4096 x 14336 = 33,822,867,456.
TEST(ModelTotals, ATokenOfMixtralVisitsTwoOfEightExperts) {
    EXPECT_EQ(model_totals(catalogue_workload("mixtral-8x7b")).active_parameters, 46'702'792'704 - 33'822'867'456);
}

TEST(ModelTotals, ADenseModelIsActiveAsAWhole) {
    const ModelTotals totals = model_totals(catalogue_workload("llama3-8b"));
    EXPECT_EQ(totals.active_parameters, totals.parameters);
}

// Every rank keeps the norms whole (two per layer, one in the head), and the router of a mixture; the rest is split:
// tp x shard = whole + (tp - 1) x replicated.
TEST(Shard, ParametersOfAllRanksAreTheModelPlusTheCopiesOfNormsAndRouter) {
    for (const std::string name : {"llama2-7b", "llama3-70b", "llama3-405b", "mixtral-8x7b"}) {
        const Workload workload = catalogue_workload(name);
        const Transformer& model = *workload.transformer;
        for (const std::int64_t tp : {2, 4, 8})
            for (const auto& [index, replicated] : {std::pair{std::int64_t{0}, std::int64_t{0}},
                                                    {std::int64_t{1}, 2 * model.hidden + model.experts * model.hidden},
                                                    {workload.chain_length() - 1, model.hidden}}) {
                const std::int64_t whole = build_block(workload, index, {}).parameters;
                const std::int64_t shard = build_block(workload, index, {tp, 1, 1, false}).parameters;
                EXPECT_EQ(tp * shard, whole + (tp - 1) * replicated) << name << " unit " << index << " tp " << tp;
            }
    }
}

TEST(Shard, KeyValueHeadsBelowTheRanksAreCopied) {
    const Workload workload = catalogue_workload("llama3-8b");  // 8 key/value heads
    // tp 16: every rank has 2 query heads and a whole key and value head of width 128: (2 + 2) x 128 columns of h.
    const Block block = build_block(workload, 1, {16, 1, 1, false});
    for (const auto vertex : vertices(block)) {
        if (block.graph[vertex].name != "attention.qkv") continue;
        EXPECT_EQ(block.graph[vertex].parameters, 4 * 128 * 4096);
    }
}

TEST(Shard, FlopsOfAllRanksAreThoseOfTheUnshardedOperator) {
    for (const std::string name : {"llama2-7b", "llama3-70b", "gpt3-175b"}) {
        const Workload workload = catalogue_workload(name);
        for (const auto attention : {AttentionImplementation::fused, AttentionImplementation::materialised})
            for (const std::int64_t index : {std::int64_t{1}, workload.chain_length() - 1}) {
                std::map<std::string, double> whole;
                const Block unsharded = build_block(workload, index, {1, 1, 2, false, attention});
                for (const auto vertex : vertices(unsharded))
                    whole[unsharded.graph[vertex].name] = unsharded.graph[vertex].flops.value();
                const std::int64_t tp = index == 1 ? 8 : 1;
                const Block shard = build_block(workload, index, {tp, 1, 2, tp > 1, attention});
                for (const auto vertex : vertices(shard)) {
                    const Operator& op = shard.graph[vertex];
                    if (op.kind == OperatorKind::collective) continue;
                    EXPECT_EQ(op.flops.value() * static_cast<double>(tp), whole.at(op.name)) << name << op.name;
                }
            }
    }
}

TEST(Shard, VocabularyThatDoesNotDivideIsPaddedToTheRanks) {
    Workload workload = small_transformer();
    workload.transformer->vocab = 4097;  // 2049 rows a rank
    EXPECT_EQ(build_block(workload, 0, {2, 1, 1, false}).parameters, 2049 * 512);
}

struct CollectiveCounts {
    int all_reduce = 0;
    int all_gather = 0;
    int reduce_scatter = 0;
    friend bool operator==(const CollectiveCounts&, const CollectiveCounts&) = default;
};

CollectiveCounts collectives(const Block& block, Pass pass) {
    CollectiveCounts counts;
    for (const auto vertex : vertices(block)) {
        const Operator& op = block.graph[vertex];
        if (op.kind != OperatorKind::collective || op.pass != pass) continue;
        counts.all_reduce += op.collective == CollectiveKind::all_reduce;
        counts.all_gather += op.collective == CollectiveKind::all_gather;
        counts.reduce_scatter += op.collective == CollectiveKind::reduce_scatter;
    }
    return counts;
}

TEST(Collectives, ALayerWithoutSequenceParallelismHasTwoAllReducesEachWay) {
    for (const std::string name : {"llama2-7b", "mixtral-8x7b", "gpt3-175b"}) {
        const Block block = build_block(catalogue_workload(name), 1, {4, 1, 1, false});
        EXPECT_EQ(collectives(block, Pass::forward), (CollectiveCounts{2, 0, 0})) << name;
        EXPECT_EQ(collectives(block, Pass::backward), (CollectiveCounts{2, 0, 0})) << name;
    }
}

// Backward, an all-gather becomes a reduce-scatter and the other way round; the saved input is gathered once more.
TEST(Collectives, ALayerWithSequenceParallelismHasTwoGathersAndTwoScattersAndOneMoreGatherBackward) {
    const Block block = build_block(catalogue_workload("llama2-7b"), 1, {4, 1, 1, true});
    EXPECT_EQ(collectives(block, Pass::forward), (CollectiveCounts{0, 2, 2}));
    EXPECT_EQ(collectives(block, Pass::backward), (CollectiveCounts{0, 3, 2}));
}

// Routed and shared experts read the same tensor: their partial input gradients are added before they are summed over
// the ranks, so the feed-forward half still has one all-reduce backward.
TEST(Collectives, SharedExpertsDoNotReduceTheInputGradientASecondTime) {
    Workload workload = catalogue_workload("mixtral-8x7b");
    workload.transformer->shared_experts = 1;
    EXPECT_EQ(collectives(build_block(workload, 1, {4, 1, 1, false}), Pass::backward), (CollectiveCounts{2, 0, 0}));
}

TEST(Collectives, OneRankNeedsNone) {
    for (const std::int64_t index : {0, 1, 33}) {
        const Block block = build_block(catalogue_workload("llama2-7b"), index, {});
        EXPECT_EQ(collectives(block, Pass::forward), CollectiveCounts{});
        EXPECT_EQ(collectives(block, Pass::backward), CollectiveCounts{});
    }
}

TEST(Collectives, EachMovesTheHiddenTensorOfTheMicrobatch) {
    const Block block = build_block(catalogue_workload("llama2-7b"), 1, {4, 1, 3, true});
    for (const auto vertex : vertices(block)) {
        if (block.graph[vertex].kind != OperatorKind::collective) continue;
        EXPECT_EQ(block.graph[vertex].size.value(), 2 * 3 * 4096 * 4096);  // 2 bytes, mbs, sequence, hidden
    }
}

TEST(Structure, EveryBlockIsAcyclic) {
    for_each_block([](const Workload& workload, const Block& block) {
        std::vector<OperatorGraph::vertex_descriptor> order;
        EXPECT_NO_THROW(boost::topological_sort(block.graph, std::back_inserter(order))) << workload.name;
    });
}

TEST(Structure, EveryForwardOperatorWithFlopsHasItsBackwardOperators) {
    for_each_block([](const Workload& workload, const Block& block) {
        std::map<std::string, double> flops;
        for (const auto vertex : vertices(block))
            flops[block.graph[vertex].name] = block.graph[vertex].flops.value();
        for (const auto vertex : vertices(block)) {
            const Operator& op = block.graph[vertex];
            if (op.pass == Pass::backward || op.flops.value() == 0) continue;
            if (op.kind == OperatorKind::gemm) {
                EXPECT_EQ(flops[op.name + ".data_gradient"], op.flops.value()) << workload.name << op.name;
                EXPECT_EQ(flops[op.name + ".weight_gradient"], op.flops.value()) << workload.name << op.name;
            } else {
                EXPECT_GE(flops[op.name + ".gradient"], 2 * op.flops.value()) << workload.name << op.name;
            }
        }
    });
}

/// First backward operator of a forward one by name, or null.
std::optional<OperatorGraph::vertex_descriptor> gradient_of(const Block& block, const std::string& name) {
    for (const auto vertex : vertices(block))
        if (block.graph[vertex].name == name + ".gradient" || block.graph[vertex].name == name + ".data_gradient")
            return vertex;
    return std::nullopt;
}

// The gradient of an output arrives from its consumers, so every backward chain but that of the block's last operator
// has a backward operator in front of it.
TEST(Structure, TheGradientOfEveryOperatorArrivesFromALaterBackwardOperator) {
    for_each_block([](const Workload& workload, const Block& block) {
        for (const auto vertex : vertices(block)) {
            const Operator& op = block.graph[vertex];
            const auto gradient = gradient_of(block, op.name);
            if (op.pass == Pass::backward || !gradient) continue;
            bool consumed = false;  // by an operator that has a backward pass, directly or behind a collective
            std::vector<OperatorGraph::vertex_descriptor> ahead{vertex};
            while (!ahead.empty()) {
                const auto at = ahead.back();
                ahead.pop_back();
                for (const auto edge : boost::make_iterator_range(boost::out_edges(at, block.graph))) {
                    const auto next = boost::target(edge, block.graph);
                    if (block.graph[next].pass == Pass::backward) continue;
                    consumed = consumed || gradient_of(block, block.graph[next].name).has_value();
                    ahead.push_back(next);
                }
            }
            bool arrives = false;
            for (const auto edge : boost::make_iterator_range(boost::in_edges(*gradient, block.graph)))
                arrives = arrives || block.graph[boost::source(edge, block.graph)].pass == Pass::backward;
            EXPECT_EQ(arrives, consumed) << workload.name << " " << block.name << " " << op.name;
        }
    });
}

// a feeds b, c and d; b and c feed d. Alive behind a: a (10). Behind b: a, still read by c and d, once, and b (30).
// Behind c: a, b and c (60). Behind d: nothing.
TEST(ExplicitGraph, ABoundaryCarriesEveryLiveProducerOnce) {
    Workload workload = chain_workload({1, 1, 1, 1}, 6);
    ExplicitGraph& graph = *workload.graph;
    graph.edges = {{0, 1}, {0, 2}, {0, 3}, {1, 3}, {2, 3}};
    for (std::size_t node = 0; node < 4; ++node)
        graph.nodes[node].output = Bytes(10 * (static_cast<std::int64_t>(node) + 1));
    const std::vector<std::int64_t> alive{10, 30, 60, 0};
    for (std::int64_t index = 0; index < 4; ++index)
        EXPECT_EQ(build_block(workload, index, {1, 1, 3, false}).boundary.value(), 3 * alive[std::size_t(index)]);
}

TEST(ExplicitGraph, EveryNodeOfResNetIsABlockWithABackwardPass) {
    const Workload workload = catalogue_workload("resnet50");
    std::int64_t parameters = 0;
    for (std::int64_t index = 0; index < workload.chain_length(); ++index) {
        const Block block = build_block(workload, index, {1, 1, 4, false});
        EXPECT_EQ(boost::num_vertices(block.graph), 2U);
        parameters += block.parameters;
    }
    EXPECT_EQ(parameters, model_totals(workload).parameters);
}

}  // namespace
}  // namespace plansim
