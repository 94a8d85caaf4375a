// SPDX-License-Identifier: Apache-2.0
// The roofline of single operators at its ends: FLOPs over the sustained rate, bytes over the memory rate.
#include "sim/cost/kernel_time.hpp"

#include <gtest/gtest.h>

#include "sim/graph/builder.hpp"
#include "tests/support/scenarios.hpp"

namespace plansim {
namespace {

constexpr double kRounding = 1e-14;  // relative; a handful of double operations

class KernelTimeTest : public ::testing::Test {
  protected:
    Accelerator device = ideal_platform(1, 1).accelerator;
    Software software = bare_software();

    [[nodiscard]] double time(const Operator& op, Precision dtype = Precision::bf16) const {
        return KernelTime(device, software, dtype).time(op).value();
    }
    static Operator product(MatrixShape shape, bool head = false) {
        BlockBuilder builder;
        const auto vertex = builder.gemm("product", shape, 0, {}, head);
        return builder.at(vertex);
    }
    static Operator attention(std::int64_t head_dim, Pass pass = Pass::forward) {
        Operator op;
        op.kind = OperatorKind::attention;
        op.pass = pass;
        op.shape = {16, 2048, 2048, head_dim};
        op.flops = Flops(4.0 * 16 * 2048 * 2048 * static_cast<double>(head_dim));
        return op;
    }
    static Operator memory_bound(double bytes) {
        BlockBuilder builder;
        const auto vertex = builder.elementwise("copy", bytes, bytes, 0, 0, {});
        return builder.at(vertex);
    }
};

TEST_F(KernelTimeTest, FixedTimeOfAKernelIsAddedOnce) {
    const Operator op = product({1, 4096, 4096, 4096});
    const double without = time(op);
    device.kernel_time = Seconds(kTick);
    EXPECT_EQ(time(op), without + kTick);
}

// 65536 / 256 x 65536 / 128 = 131,072 tiles are 1024 whole waves over 128 units, so only the prologue over k is lost:
// u = 1 + K0 / k with K0 = 196 (R / 128) / (873e12 / 132).
TEST_F(KernelTimeTest, AHugeProductRunsAtTheSustainedRateButForItsPrologue) {
    const double overhead_k = 196 * (kPeak / 128) / (873e12 / 132);
    const double expected = 2 * 65536.0 * 65536.0 * 65536.0 / kPeak * (1 + overhead_k / 65536);
    EXPECT_NEAR(time(product({1, 65536, 65536, 65536})), expected, kRounding * expected);
}

TEST_F(KernelTimeTest, SustainedShareScalesAHugeProductWithoutPrologue) {
    device.efficiency.tile_overhead_k = 0;
    const Operator op = product({1, 65536, 65536, 65536});
    const double full = time(op);
    device.efficiency.sustained[Precision::bf16] = 0.5;
    EXPECT_EQ(time(op), 2 * full);
}

// k = 16: 2 (m k + k n + m n) = 2 (8192 x 16 x 2 + 8192^2) bytes take 61 us; the 2.1 GFLOPs would take 2 us, 30 us with
// a prologue of 13 times the depth.
TEST_F(KernelTimeTest, AShallowProductTakesTheTimeOfItsBytes) {
    const double bytes = 2 * (2 * 8192.0 * 16 + 8192.0 * 8192.0);
    EXPECT_EQ(time(product({1, 8192, 8192, 16})), bytes / kMemoryRate);
}

// m = 1: reading the 8192 x 8192 weights takes 61 us; a tile row of 64 for the one row takes about 11 us.
TEST_F(KernelTimeTest, AProductOfOneRowTakesTheTimeOfItsWeights) {
    const double bytes = 2 * (8192.0 + 8192.0 * 8192.0 + 8192.0);
    EXPECT_EQ(time(product({1, 1, 8192, 8192})), bytes / kMemoryRate);
}

TEST_F(KernelTimeTest, AnElementwiseOperatorTakesItsBytesTimesTheMultiplier) {
    software.elementwise_traffic = 2.5;
    EXPECT_EQ(time(memory_bound(1 << 30)), (1 << 30) * 2.5 / kMemoryRate);
}

TEST_F(KernelTimeTest, AMemoryRateIsTheDataSheetTimesBothShares) {
    device.efficiency.stream = 0.5;
    device.efficiency.training_stream = 0.5;
    EXPECT_EQ(time(memory_bound(1 << 30)), (1 << 30) * 4.0 / kMemoryRate);
}

TEST_F(KernelTimeTest, Fp8RunsAProductTwiceAsFast) {
    device.efficiency.tile_overhead_k = 0;
    const Operator op = product({1, 65536, 65536, 65536});
    EXPECT_EQ(time(op, Precision::fp8), time(op, Precision::bf16) / 2);
}

TEST_F(KernelTimeTest, TheHeadStaysInSixteenBitsWhenTheModelTrainsInFp8) {
    const Operator head = product({1, 65536, 65536, 65536}, true);
    EXPECT_EQ(time(head, Precision::fp8), time(head, Precision::bf16));
}

TEST_F(KernelTimeTest, Fp8AddsFourBytesPerElementCast) {
    software.cast_traffic = 0.5;
    Operator op = memory_bound(1 << 20);
    const double without = time(op, Precision::fp8);
    op.quantised = 1 << 20;
    EXPECT_EQ(time(op, Precision::fp8), without + 4.0 * (1 << 20) * 0.5 / kMemoryRate);
    EXPECT_EQ(time(op, Precision::bf16), without);
}

TEST_F(KernelTimeTest, AFormatThatTheDeviceLacksRunsAtTheSixteenBitRate) {
    device.peak.erase(Precision::fp8);
    const Operator op = product({1, 65536, 65536, 65536});
    EXPECT_EQ(time(op, Precision::fp8), time(op, Precision::bf16));
}

// Whole waves count fully: 128 products of one 256 x 128 tile are one wave. One more product gives two waves of that
// tile; halved tiles (128 x 128, rate 0.976) need ceil(258/128) = 3 waves of half the size: 1.5 / 0.976 = 1.537, less
// than 64 x 64 (9/8 / 0.73 = 1.541) and 64 x 128 (5/4 / 0.775 = 1.613).
TEST_F(KernelTimeTest, OneTileBeyondAWholeWaveCostsHalfAWaveMore) {
    device.efficiency.wave_quantisation = 1;
    const KernelTime kernels(device, software, Precision::bf16);
    const FlopsPerSecond rate(kPeak);
    const double whole = 128 * kernels.shape_penalty({128, 256, 128, 4096}, rate);  // FLOPs x penalty ~ time
    const double beyond = 129 * kernels.shape_penalty({129, 256, 128, 4096}, rate);
    EXPECT_NEAR(beyond / whole, 1.5 / 0.976, kRounding);
}

TEST_F(KernelTimeTest, MoreRowsNeverTakeLessTime) {
    for (const double weight : {0.0, 0.2, 1.0}) {
        device.efficiency.wave_quantisation = weight;
        double last = 0;
        for (std::int64_t rows = 1; rows < 40000; rows += 97) {
            const double now = time(product({1, rows, 512, 4096}));
            EXPECT_GE(now, last * (1 - kRounding)) << rows << " rows, weight " << weight;
            last = now;
        }
    }
}

TEST_F(KernelTimeTest, TheShapePenaltyIsAtLeastOne) {
    const KernelTime kernels(device, software, Precision::bf16);
    for (const std::int64_t size : {1, 63, 64, 127, 128, 129, 1000, 4096, 50000})
        for (const std::int64_t depth : {1, 64, 4096})
            EXPECT_GE(kernels.shape_penalty({1, size, 2 * size, depth}, FlopsPerSecond(kPeak)), 1);
}

// A systolic array pads m and n to 256: (512 x 512) / (257 x 512) = 512 / 257 times, and 1 + 128 / k.
TEST_F(KernelTimeTest, ASystolicArrayPadsInsteadOfTiling) {
    device.wave_quantised = false;
    device.matrix_padding = 256;
    const KernelTime kernels(device, software, Precision::bf16);
    const double penalty = kernels.shape_penalty({1, 257, 512, 1024}, FlopsPerSecond(kPeak));
    EXPECT_NEAR(penalty, 512.0 / 257 * (1 + 128.0 / 1024), kRounding * penalty);
}

TEST_F(KernelTimeTest, GroupedProductsOfExpertsRunAtTheirShareOfTheRate) {
    device.efficiency.tile_overhead_k = 0;
    device.efficiency.grouped_gemm = 0.5;
    const double one = time(product({1, 8 * 8192, 8192, 8192}));
    EXPECT_EQ(time(product({8, 8192, 8192, 8192})), 2 * one);
}

// FLOPs / (peak e s / (s + s0)): e = 0.5, s = 2048, s0 = 2048 -> a quarter of the peak.
TEST_F(KernelTimeTest, FusedAttentionRunsAtTheShareOfItsKernelAndSequence) {
    device.efficiency.attention = {{"cudnn", 0.5}};
    device.efficiency.attention_half_sequence = 2048;
    device.efficiency.attention_backward_ratio = 0.5;
    const Operator op = attention(128);
    EXPECT_EQ(time(op), op.flops.value() / (kPeak / 4));
    EXPECT_EQ(time(attention(128, Pass::backward)), op.flops.value() / (kPeak / 8));
}

TEST_F(KernelTimeTest, SmallHeadsSlowFusedAttentionDown) {
    device.efficiency.small_head_attention = 0.5;
    EXPECT_EQ(time(attention(64)), time(attention(128)));  // half of the FLOPs at half of the rate
}

// Scores written out: batched products at R e_b d / (d + d0), and 11 bytes per score.
TEST_F(KernelTimeTest, MaterialisedAttentionAddsElevenBytesPerScore) {
    software.attention = AttentionImplementation::materialised;
    device.efficiency.batched_matmul = 1;
    device.efficiency.batched_matmul_half_head_dim = 128;
    const double scores = 16.0 * 2048 * 2048;
    const Operator op = attention(128);
    const double products = op.flops.value() / (kPeak / 2);
    EXPECT_NEAR(time(op), products + 11 * scores / kMemoryRate, kRounding * products);
    EXPECT_NEAR(time(attention(128, Pass::backward)), products + 19 * scores / kMemoryRate, kRounding * products);
}

TEST_F(KernelTimeTest, AHeadDimThatIsNoMultipleOfEightLeavesTheFastPath) {
    software.attention = AttentionImplementation::materialised;
    software.unfused_attention_traffic = 0;
    device.efficiency.batched_matmul_half_head_dim = 0;
    const double aligned = time(attention(104));
    const double misaligned = time(attention(108));
    EXPECT_NEAR(misaligned / aligned, 108.0 / 104 / 0.165, kRounding * 7);
}

TEST_F(KernelTimeTest, TwiceTheMemoryRateHelpsMemoryBoundWorkOnly) {
    device.efficiency.tile_overhead_k = 0;  // so that the shallow product stays memory-bound
    const std::vector<std::pair<Operator, double>> gains{{product({1, 65536, 65536, 65536}), 1},
                                                         {product({1, 8192, 8192, 16}), 2},
                                                         {attention(128), 1},
                                                         {memory_bound(1 << 30), 2}};
    std::vector<double> before;
    for (const auto& [op, gain] : gains)
        before.push_back(time(op));
    device.hbm_bandwidth *= 2;
    for (std::size_t index = 0; index < gains.size(); ++index)
        EXPECT_EQ(before[index] / time(gains[index].first), gains[index].second) << gains[index].first.name << index;
}

/// Time of a node of an explicit graph.
double node_time(const Accelerator& device, const GraphNode& node) {
    Workload workload = chain_workload({1}, 1);
    workload.graph->nodes = {node};
    const Block block = build_block(workload, 0, {});
    return KernelTime(device, bare_software(), Precision::bf16).time(block.graph[0]).value();
}

TEST_F(KernelTimeTest, AMatrixNodeOfAGraphTakesTheLargerOfItsFlopsAndItsBytes) {
    GraphNode node;
    node.forward_flops = Flops(kPeak * kTick);
    node.reads = Bytes(static_cast<std::int64_t>(kMemoryRate * kTick));
    EXPECT_EQ(node_time(device, node), kTick);
    node.writes = node.reads;
    EXPECT_EQ(node_time(device, node), 2 * kTick);
}

// workloads/README.md, `matrix`: "otherwise on the vector units, at the fp32 rate" (kPeak / 16 here).
TEST_F(KernelTimeTest, AVectorNodeOfAGraphRunsItsFlopsAtTheFp32Rate) {
    GraphNode node;
    node.matrix = false;
    node.forward_flops = Flops(kPeak / 16 * kTick);
    node.reads = Bytes(1024);
    EXPECT_EQ(node_time(device, node), kTick);
}

// 128 units: one tile of 128 x 128 leaves 127 idle; k = 65536 is split over all of them, 512 each. The tiles of a part
// are as many as without: 128 parts of 1 tile fill one wave, so u = 128 x 128 x 128 (512 + K0) / (0.976 x 128 x 128 x
// 65536).
TEST_F(KernelTimeTest, ALongProductWithOneTileIsSplitOverTheUnits) {
    device.efficiency.tile_overhead_k = 0;
    const KernelTime kernels(device, software, Precision::bf16);
    EXPECT_NEAR(kernels.shape_penalty({1, 128, 128, 65536}, FlopsPerSecond(kPeak)), 1 / 0.976, 1e-12);
    // 5 tiles are more than 1/32 of the units: not split. 20 tiles of 64 x 64 take one wave: 128 x 64 x 64 / (0.73 m
    // n).
    EXPECT_NEAR(kernels.shape_penalty({1, 5 * 128, 128, 65536}, FlopsPerSecond(kPeak)),
                128.0 * 64 * 64 / (0.73 * 5 * 128 * 128), 1e-12);
}

// A whole wave of 256 x 128 tiles: u = 1 + K0 / k, with K0 2.1 times as long for 32-bit operands.
TEST_F(KernelTimeTest, ProductsOf32BitOperandsLoseMoreAtTheEndsOfATile) {
    const KernelTime kernels(device, software, Precision::tf32);
    const double overhead_k = 196 * (kPeak / 128) / (873e12 / 132);
    const MatrixShape shape{1, 256 * 128, 128, 4096};
    EXPECT_NEAR(kernels.shape_penalty(shape, FlopsPerSecond(kPeak), Precision::tf32), 1 + 2.1 * overhead_k / 4096,
                1e-12);
    EXPECT_NEAR(kernels.shape_penalty(shape, FlopsPerSecond(kPeak), Precision::bf16), 1 + overhead_k / 4096, 1e-12);
}

TEST_F(KernelTimeTest, AProductAloneRunsAtTheClockOfAShortRunPlusItsStart) {
    device.efficiency.tile_overhead_k = 0;
    device.efficiency.sustained[Precision::bf16] = 0.5;
    device.efficiency.short_run[Precision::bf16] = 0.8;
    device.efficiency.standalone_time = Seconds(kTick);
    const KernelTime kernels(device, software, Precision::bf16);
    const MatrixShape shape{1, 65536, 65536, 65536};
    const double flops = 2 * 65536.0 * 65536.0 * 65536.0;
    const auto time_at = [&](Clock clock) { return kernels.matrix_product(shape, Precision::bf16, clock).value(); };
    EXPECT_NEAR(time_at(Clock::sustained), flops / (0.5 * kPeak) + kTick, 1e-9);
    EXPECT_NEAR(time_at(Clock::short_run), flops / (0.8 * kPeak) + kTick, 1e-9);
    // A format without a figure of its own runs at the sustained rate; fp8 operands have twice the peak here.
    EXPECT_NEAR(kernels.matrix_product(shape, Precision::fp8, Clock::short_run).value(), flops / (2 * kPeak) + kTick,
                1e-9);
}

// m x k and k x n are read, m x n is written: 2 (3 x 7 + 7 x 5 + 3 x 5) bytes in bf16, twice that in fp32; fp8 results
// are 16-bit. Batched products all count.
TEST_F(KernelTimeTest, BytesOfAProductAreThoseOfItsThreeMatrices) {
    const MatrixShape shape{4, 3, 5, 7};
    EXPECT_EQ(KernelTime::matrix_bytes(shape, Precision::bf16), 4 * 2 * (21 + 35 + 15));
    EXPECT_EQ(KernelTime::matrix_bytes(shape, Precision::fp32), 4 * 4 * (21 + 35 + 15));
    EXPECT_EQ(KernelTime::matrix_bytes(shape, Precision::fp8), 4 * (21 + 35 + 2 * 15));
}

}  // namespace
}  // namespace plansim
