// SPDX-License-Identifier: Apache-2.0
// Memory of a stage: states per parameter, activations of a layer, recomputation, tied embeddings.
#include "sim/cost/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/scenarios.hpp"

namespace plansim {
namespace {

constexpr std::int64_t kParameters = 1'000'000;

StageMemory memory_of(const Scenario& scenario, const std::string& plan_text, int stage = 0) {
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    return stage_memory(model, plan_of(scenario, plan_text), stage);
}

UnitCost unit_of(const Scenario& scenario, const std::string& plan_text, std::int64_t index,
                 Recompute recompute = Recompute::none) {
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    return model.unit(index, plan_of(scenario, plan_text), recompute);
}

Scenario one_node_chain() {
    return {equal_chain(1, 1, 8, Bytes(0), kParameters), ideal_platform(1, 4), bare_software()};
}

// Adam in mixed precision: 2 bytes of weight, 4 of gradient, 4 of fp32 weight and 8 of moments.
TEST(Memory, AdamInMixedPrecisionKeepsEighteenBytesPerParameter) {
    const StageMemory memory = memory_of(one_node_chain(), "dp=4 zero=0");
    EXPECT_EQ(memory.weights.value(), 2 * kParameters);
    EXPECT_EQ(memory.gradients.value(), 4 * kParameters);
    EXPECT_EQ(memory.optimizer.value(), 12 * kParameters);
    EXPECT_EQ(memory.resident().value(), 18 * kParameters);
}

// ZeRO-1 shares the 12 bytes of optimizer states over 4 replicas: 2 + 4 + 12 / 4 = 9.
TEST(Memory, ZeroOneSharesTheOptimizerStatesOverTheReplicas) {
    const StageMemory memory = memory_of(one_node_chain(), "dp=4 zero=1");
    EXPECT_EQ(memory.optimizer.value(), 3 * kParameters);
    EXPECT_EQ(memory.resident().value(), 9 * kParameters);
}

TEST(Memory, GradientsAreKeptInTheWidthOfTheProfile) {
    Scenario scenario = one_node_chain();
    scenario.software.gradient_bytes = 2;
    EXPECT_EQ(memory_of(scenario, "dp=4 zero=0").gradients.value(), 2 * kParameters);
}

TEST(Memory, SgdKeepsAnFp32WeightOnly) {
    Scenario scenario = one_node_chain();
    scenario.workload.optimizer = Optimizer::sgd;
    EXPECT_EQ(memory_of(scenario, "dp=4 zero=0").optimizer.value(), 4 * kParameters);
    EXPECT_EQ(memory_of(scenario, "dp=4 zero=1").optimizer.value(), kParameters);
}

TEST(Memory, FragmentationScalesAllButTheContext) {
    Scenario scenario = one_node_chain();
    scenario.software.fragmentation = 1.5;
    scenario.software.context = Bytes(7000);
    EXPECT_EQ(memory_of(scenario, "dp=4 zero=0").resident().value(), 27 * kParameters + 7000);
}

TEST(Memory, TiedEmbeddingsAreHeldTwiceWhenFirstAndLastStageDiffer) {
    Scenario scenario{small_transformer(), ideal_platform(1, 2), bare_software()};
    scenario.workload.transformer->tied_embeddings = true;
    const std::int64_t parameters = model_totals(scenario.workload).parameters;
    const std::int64_t table = 4096 * 512;
    EXPECT_EQ(memory_of(scenario, "pp=1 dp=2").weights.value(), 2 * parameters);
    const std::int64_t split =
        memory_of(scenario, "pp=2", 0).weights.value() + memory_of(scenario, "pp=2", 1).weights.value();
    EXPECT_EQ(split, 2 * (parameters + table));
}

TEST(Memory, UntiedModelWeighsTheSameHoweverItIsCut) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 8), bare_software()};
    std::int64_t total = 0;
    for (int stage = 0; stage < 8; ++stage)
        total += memory_of(scenario, "pp=8", stage).weights.value();
    EXPECT_EQ(total, 2 * model_totals(scenario.workload).parameters);
}

// Kept of a dense layer without recomputation (sizes of small_transformer: T = 256 b, h = a d = 512, f = 2048, w = 2,
// g = a): the two norms' inputs and outputs 8 Tn h, q k v as attention reads them 2 T (a d + 2 g d) / tp, attention
// output 2 T a d / tp, inputs and output of the activation 2 (w + 1) T f / tp; Tn = T / tp with sequence parallelism.
std::int64_t layer_activations(std::int64_t mbs, std::int64_t tp, bool sequence_parallel) {
    const std::int64_t tokens = 256 * mbs;
    const std::int64_t norm_tokens = sequence_parallel ? tokens / tp : tokens;
    return 8 * norm_tokens * 512 + (2 * tokens * 3 * 512 + 2 * tokens * 512 + 2 * 3 * tokens * 2048) / tp;
}

// The backward pass holds the gradient of the widest tensor, 2 T w f / tp, and, where there are no stand-ins, the
// 16-bit gradient of the largest weight before it is added up, 2 w h f / tp.
std::int64_t layer_gradients(std::int64_t mbs, std::int64_t tp) {
    return (2 * 256 * mbs + 2 * 512) * 2 * 2048 / tp;
}

TEST(Activations, OfADenseLayerAreThoseOfTheFormula) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    EXPECT_EQ(unit_of(scenario, "tp=1 dp=4 mbs=2", 1).activations.value(), layer_activations(2, 1, false));
    EXPECT_EQ(unit_of(scenario, "tp=4 mbs=2", 1).activations.value(), layer_activations(2, 4, false));
    EXPECT_EQ(unit_of(scenario, "tp=4 mbs=2 sequence_parallel=on", 1).activations.value(),
              layer_activations(2, 4, true));
}

// One byte per element and residual, of which a layer has two.
TEST(Activations, DropoutMasksAddTwoBytesPerElementOfTheHiddenTensor) {
    Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    scenario.software.dropout = true;
    EXPECT_EQ(unit_of(scenario, "tp=4 mbs=2", 1).activations.value(), layer_activations(2, 4, false) + 2 * 512 * 512);
}

// Materialised scores: softmax output, dropped copy and mask, 5 bytes for each of b a s^2 scores, over tp.
TEST(Activations, MaterialisedScoresAddFiveBytesEach) {
    Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    scenario.software.attention = AttentionImplementation::materialised;
    const std::int64_t scores = 5 * 2 * 8 * 256 * 256;
    EXPECT_EQ(unit_of(scenario, "dp=4 mbs=2", 1).activations.value(), layer_activations(2, 1, false) + scores);
    EXPECT_EQ(unit_of(scenario, "tp=4 mbs=2", 1).activations.value(), layer_activations(2, 4, false) + scores / 4);
    const UnitCost selective = unit_of(scenario, "tp=4 mbs=2", 1, Recompute::selective);
    EXPECT_EQ(selective.activations.value(), layer_activations(2, 4, false));
    EXPECT_EQ(selective.working_set.value(), scores / 4 + layer_gradients(2, 4));
}

// A norm of several kernels keeps 6 more bytes per element: two norms of T h elements. A gated activation of two
// kernels keeps the activated gate, 2 T f.
TEST(Activations, UnfusedKernelsKeepTheirIntermediates) {
    Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    scenario.software.norm_copy_bytes = 6;
    EXPECT_EQ(unit_of(scenario, "dp=4 mbs=2", 1).activations.value(),
              layer_activations(2, 1, false) + 2 * 6 * 512 * 512);
    scenario.software.norm_copy_bytes = 0;
    scenario.software.fused_activation = false;
    EXPECT_EQ(unit_of(scenario, "dp=4 mbs=2", 1).activations.value(), layer_activations(2, 1, false) + 2 * 512 * 2048);
}

// A checkpoint is the layer's output, 2 Tn h; what is rebuilt lives for one layer.
TEST(Activations, FullRecomputationKeepsTheBoundaryAndRebuildsALayer) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    const UnitCost whole = unit_of(scenario, "tp=4 mbs=2", 1, Recompute::full);
    EXPECT_EQ(whole.activations.value(), 2 * 512 * 512);
    EXPECT_EQ(whole.working_set.value(), layer_activations(2, 4, false) + layer_gradients(2, 4));
    const UnitCost shared = unit_of(scenario, "tp=4 mbs=2 sequence_parallel=on", 1, Recompute::full);
    EXPECT_EQ(shared.activations.value(), 2 * 512 * 512 / 4);
}

TEST(Activations, FullRecomputationRepeatsTheForwardPass) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    const UnitCost cost = unit_of(scenario, "tp=4 mbs=2", 1, Recompute::full);
    EXPECT_EQ(cost.recompute.total(), cost.forward.total());
    EXPECT_EQ(cost.recompute.flops, cost.forward.flops);
    EXPECT_EQ(cost.recompute.collectives, cost.forward.collectives);
}

// Logits of the head: logit_bytes (8) x T x V / tp.
TEST(Activations, LogitsOfTheHeadAreSplitOverTheRanks) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    EXPECT_EQ(unit_of(scenario, "tp=4 mbs=2", 9).logits.value(), 8 * 512 * 4096 / 4);
    EXPECT_EQ(unit_of(scenario, "tp=4 mbs=2", 1).logits.value(), 0);
}

// A loss that is not parallel gathers them.
TEST(Activations, LogitsOfALossThatIsNotParallelAreWhole) {
    Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    scenario.software.parallel_loss = false;
    EXPECT_EQ(unit_of(scenario, "tp=4 mbs=2", 9).logits.value(), 8 * 512 * 4096);
}

// Every weight of a layer has a 16-bit stand-in for its gradient, which all layers share: q k v and output 4 h^2,
// feed-forward 3 h f. The head's is there during its backward pass, beside its logits: 2 V h.
TEST(Memory, StandInsForGradientsAreSharedByTheLayers) {
    Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    const std::int64_t without = memory_of(scenario, "dp=4 mbs=2").buffers.value();
    scenario.software.gradient_placeholders = true;
    EXPECT_EQ(memory_of(scenario, "dp=4 mbs=2").buffers.value() - without, 2 * (4 * 512 * 512 + 3 * 512 * 2048));
    EXPECT_EQ(unit_of(scenario, "dp=4 mbs=2", 9).working_set.value(), 2 * 4096 * 512);
}

// FSDP without a pipeline: fp32 weights and moments over 4 ranks, 12 / 4; of two units 2 bytes each. A pipeline gathers
// all of its weights once (2 bytes each) and reduces gradients after the last microbatch (4 each).
TEST(Memory, FsdpKeepsWholeWeightsInAPipeline) {
    const Scenario flat = one_node_chain();
    const StageMemory sharded = memory_of(flat, "dp=4 zero=3");
    EXPECT_EQ(sharded.weights.value(), 2 * 2 * kParameters);
    EXPECT_EQ(sharded.optimizer.value(), 3 * kParameters);
    EXPECT_EQ(sharded.gradients.value(), kParameters + 4 * kParameters);
    const Scenario piped{equal_chain(4, 1, 8, Bytes(0), kParameters), ideal_platform(1, 4), bare_software()};
    const StageMemory whole = memory_of(piped, "pp=2 dp=2 zero=3");
    EXPECT_EQ(whole.weights.value(), 2 * 2 * kParameters);
    EXPECT_EQ(whole.gradients.value(), 4 * 2 * kParameters + 4 * kParameters);
}

TEST(Activations, BoundaryTensorsAreBufferedTwice) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 4), bare_software()};
    EXPECT_EQ(memory_of(scenario, "tp=2 pp=2 mbs=2", 0).buffers.value(), 2 * (2 * 512 * 512));
}

/// W of a unit in FLOPs: the weight gradients of its products, each as large as the product.
double product_flops(const Scenario& scenario, std::int64_t index) {
    const Block block = build_block(scenario.workload, index, Shard{});
    double flops = 0;
    for (const auto vertex : boost::make_iterator_range(boost::vertices(block.graph)))
        if (block.graph[vertex].pass == Pass::forward && block.graph[vertex].kind == OperatorKind::gemm)
            flops += block.graph[vertex].flops.value();
    return flops;
}

TEST(SplitBackward, LeavesTheWeightGradientsOfTheProductsToW) {
    const Scenario scenario{small_transformer(), ideal_platform(1, 1), bare_software()};
    for (const std::int64_t index : {0, 1, 9}) {
        const UnitCost cost = unit_of(scenario, "tp=1", index);
        EXPECT_NEAR(cost.backward_weight.flops.value(), product_flops(scenario, index), 1) << index;
        EXPECT_NEAR((cost.backward_input.flops + cost.backward_weight.flops).value(), cost.backward.flops.value(), 1);
    }
}

// Device and host time combine as (device^4 + host^4)^(1/4), part by part: never less than for the whole.
TEST(SplitBackward, IsAsLongAsTheWholeOneButForTheHostAndKeepsCollectivesOutOfW) {
    const Scenario scenario = realistic(small_transformer(), 1, 4);
    const UnitCost cost = unit_of(scenario, "tp=4 sequence_parallel=on", 1);
    EXPECT_NEAR((cost.backward_input.compute + cost.backward_weight.compute) / cost.backward.compute, 1, 1e-12);
    const Seconds both = cost.backward_input.total() + cost.backward_weight.total();
    EXPECT_GE(both, cost.backward.total());
    EXPECT_LE(both, cost.backward.total() * 1.05);
    EXPECT_EQ(cost.backward_input.collectives, cost.backward.collectives);
    EXPECT_TRUE(cost.backward_weight.collectives.empty());
    EXPECT_EQ(cost.backward_weight.tp_exposed, Seconds(0));
}

// Accumulation into the gradient buffer: accumulation_bytes per parameter, if there is more than one microbatch.
TEST(SplitBackward, AccumulationBelongsToW) {
    Scenario scenario{small_transformer(), ideal_platform(1, 1), bare_software()};
    scenario.software.accumulation_bytes = 0;
    const UnitCost without = unit_of(scenario, "tp=1", 1);
    scenario.software.accumulation_bytes = 8;
    const UnitCost with = unit_of(scenario, "tp=1", 1);
    const double extra = 8 * static_cast<double>(with.parameters) / kMemoryRate;
    EXPECT_NEAR((with.backward_weight.compute - without.backward_weight.compute).value() / extra, 1, 1e-9);
    EXPECT_NEAR(with.backward_input.compute / without.backward_input.compute, 1, 1e-12);
}

// GPipe runs all m forward passes first, so the logits of every microbatch wait for their backward pass.
TEST(Activations, GpipeHoldsTheLogitsOfAllMicrobatches) {
    Scenario scenario{small_transformer(), ideal_platform(1, 2), bare_software()};
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    const Plan plan = plan_of(scenario, "pp=2 mbs=2 gbs=8 schedule=gpipe");
    std::int64_t per_microbatch = 0;
    std::int64_t working = 0;  // of a layer, or of the head with its logits
    for (std::int64_t index = plan.stages[1][0].first; index < plan.stages[1][0].last; ++index) {
        const UnitCost& cost = model.unit(index, plan, Recompute::none);
        per_microbatch += (cost.activations + cost.logits).value();
        working = std::max(working, (cost.working_set + cost.logits).value());
    }
    const std::int64_t logits = model.unit(9, plan, Recompute::none).logits.value();
    EXPECT_EQ(stage_peak(model, plan, 1).activations.value(), 4 * per_microbatch - logits + working);
}

}  // namespace
}  // namespace plansim
