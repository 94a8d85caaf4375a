// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/kernel_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace plansim {
namespace {

// Share of the data-sheet rate that an accelerator sustains if its document does not say: the middle of what measured
// accelerators reach (0.50 to 0.88), a guess.
constexpr double kDefaultSustained = 0.70;

/// Rate of a tile shape relative to the best one.
struct Tile {
    double m;
    double n;
    double rate;
};
/// The kernels of one width of operands. Fitted on 210 bf16 and 218 TF32 products of one H100 (XLA with cuBLASLt).
struct KernelFamily {
    std::array<Tile, 6> tiles;
    double overhead;  // prologue and epilogue, in units of tile_overhead_k
    double batched;   // rate of batched products / single ones
};
constexpr KernelFamily kNarrow{
    {{{256, 128, 1}, {128, 256, 1}, {128, 128, 0.976}, {64, 128, 0.775}, {128, 64, 0.775}, {64, 64, 0.73}}}, 1, 1};
constexpr KernelFamily kWide{
    {{{256, 128, 1}, {128, 256, 1}, {128, 128, 0.65}, {64, 128, 0.53}, {128, 64, 0.53}, {64, 64, 0.4}}}, 2.1, 0.85};

bool is_wide(Precision precision) {
    return precision == Precision::fp32 || precision == Precision::tf32;
}

/// Libraries split k over idle compute units when a product has almost no tiles: at most 1/32 of the units, and parts
/// of at least 512. Same fit; the sum of the parts is not charged.
double split_k(double m, double n, double k, double batch, double units) {
    const double tiles = std::ceil(m / 128) * std::ceil(n / 128) * batch;
    if (tiles > units / 32) return 1;
    return std::max(1.0, std::floor(std::min(units / tiles, k / 512)));
}

// The rate per compute unit at which tile_overhead_k was fitted: 873 TFLOPS over the 132 SMs of an H100.
constexpr double kReferenceUnitRate = 873e12 / 132;

bool is_narrow(Precision precision) {
    return precision == Precision::fp8 || precision == Precision::mxfp8 || precision == Precision::fp4;
}

}  // namespace

KernelTime::KernelTime(const Accelerator& accelerator, const Software& software, Precision dtype)
    : accelerator_(accelerator), software_(software), dtype_(dtype) {
    memory_rate_ = accelerator.hbm_bandwidth * (accelerator.efficiency.stream * accelerator.efficiency.training_stream);
}

FlopsPerSecond KernelTime::sustained(Precision precision) const {
    const auto& peaks = accelerator_.peak;
    // A device without a narrow format runs it in bf16; fp16 and bf16 stand for each other.
    const auto& shares = accelerator_.efficiency.sustained;
    auto share = shares.find(precision);
    if (precision == Precision::mxfp8) {
        precision = Precision::fp8;
        if (share == shares.end()) share = shares.find(Precision::fp8);
    }
    if (!peaks.contains(precision)) {
        precision = Precision::bf16;
        share = shares.find(precision);
    }
    if (share == shares.end() && precision == Precision::fp16) share = shares.find(Precision::bf16);
    return peaks.at(precision) * (share == shares.end() ? kDefaultSustained : share->second);
}

double KernelTime::shape_penalty(const MatrixShape& shape, FlopsPerSecond rate, Precision precision) const {
    const auto m = static_cast<double>(shape.m);
    const auto n = static_cast<double>(shape.n);
    const auto k = static_cast<double>(shape.k);
    if (!accelerator_.wave_quantised) {
        const double padding = accelerator_.matrix_padding;
        return std::ceil(m / padding) * padding * std::ceil(n / padding) * padding / (m * n) * (1 + 128 / k);
    }
    const double units = accelerator_.compute_units;
    const KernelFamily& family = is_wide(precision) ? kWide : kNarrow;
    const double overhead_k =
        accelerator_.efficiency.tile_overhead_k * family.overhead * (rate.value() / units) / kReferenceUnitRate;
    const double whole = accelerator_.efficiency.wave_quantisation;
    const auto batch = static_cast<double>(shape.batch);
    const double parts = split_k(m, n, k, batch, units);
    double best = INFINITY;
    for (const Tile& tile : family.tiles) {
        const double tiles = std::ceil(m / tile.m) * std::ceil(n / tile.n) * batch * parts / units;
        const double waves = whole * std::ceil(tiles) + (1 - whole) * std::max(tiles, 1.0);
        const double done = tile.rate * m * n * batch * k;
        best = std::min(best, waves * units * tile.m * tile.n * (k / parts + overhead_k) / done);
    }
    return std::max(best, 1.0);
}

double KernelTime::cast_traffic() const {
    // A device without the narrow format trains in 16 bit: nothing is cast.
    switch (dtype_) {
        case Precision::fp8:
            return accelerator_.peak.contains(Precision::fp8) ? software_.cast_traffic : 0;
        case Precision::mxfp8:
            return accelerator_.peak.contains(Precision::fp8) ? software_.mx_cast_traffic : 0;
        case Precision::fp4:
            return accelerator_.peak.contains(Precision::fp4) ? software_.fp4_cast_traffic : 0;
        default:
            return 0;
    }
}

double KernelTime::matrix_bytes(const MatrixShape& shape, Precision precision) {
    const double in = precision == Precision::fp8                                    ? 1
                      : precision == Precision::bf16 || precision == Precision::fp16 ? 2
                                                                                     : 4;
    const double out = std::max(in, 2.0);
    const auto m = static_cast<double>(shape.m);
    const auto n = static_cast<double>(shape.n);
    const auto k = static_cast<double>(shape.k);
    return static_cast<double>(shape.batch) * (in * k * (m + n) + out * m * n);
}

Seconds KernelTime::matrix_product(const MatrixShape& shape, Precision precision, Clock clock) const {
    FlopsPerSecond rate = sustained(precision);
    if (clock == Clock::short_run) {
        const auto& shares = accelerator_.efficiency.short_run;
        if (const auto share = shares.find(precision); share != shares.end())
            rate = accelerator_.peak.at(precision) * share->second;
    }
    if (shape.batch > 1 && is_wide(precision)) rate *= kWide.batched;
    const Seconds compute = shape.flops() / rate * shape_penalty(shape, rate, precision);
    const BytesPerSecond stream = accelerator_.hbm_bandwidth * accelerator_.efficiency.stream;
    return std::max(compute, Seconds(matrix_bytes(shape, precision) / stream.value())) +
           accelerator_.efficiency.standalone_time;
}

Seconds KernelTime::gemm(const Operator& op) const {
    const Precision precision = is_narrow(dtype_) && op.head_gemm ? Precision::bf16 : dtype_;
    FlopsPerSecond rate = sustained(precision);
    if (op.shape.batch > 1) rate *= accelerator_.efficiency.grouped_gemm;
    const Seconds compute = op.flops / rate * shape_penalty(op.shape, rate, precision);
    return std::max(compute, (op.read + op.written) / memory_rate_) + accelerator_.kernel_time;
}

Seconds KernelTime::attention(const Operator& op) const {
    const AcceleratorEfficiency& figures = accelerator_.efficiency;
    const bool backward = op.pass == Pass::backward;
    const auto head_dim = static_cast<double>(op.shape.k);
    if (software_.attention == AttentionImplementation::materialised) {
        double share = figures.batched_matmul * head_dim / (head_dim + figures.batched_matmul_half_head_dim);
        if (op.shape.k % 8 != 0) share *= figures.misaligned_head_dim;
        const double scores =
            static_cast<double>(op.shape.batch) * static_cast<double>(op.shape.m) * static_cast<double>(op.shape.n);
        const double bytes = (backward ? 19 : 11) * scores * software_.unfused_attention_traffic;
        return op.flops / (sustained(Precision::bf16) * share) + memory_time(bytes) +
               accelerator_.kernel_time * (backward ? 8 : 4);
    }
    const auto listed = figures.attention.find(software_.attention_kernel);
    double share = listed == figures.attention.end() ? figures.attention_default : listed->second;
    if (backward) share *= figures.attention_backward_ratio;
    if (op.shape.k <= 64) share *= figures.small_head_attention;
    const auto sequence = static_cast<double>(op.shape.n);
    share *= sequence / (sequence + figures.attention_half_sequence);
    const Seconds compute = op.flops / (accelerator_.peak.at(Precision::bf16) * share);
    return std::max(compute, (op.read + op.written) / memory_rate_) + accelerator_.kernel_time;
}

Seconds KernelTime::time(const Operator& op) const {
    const double bytes = (op.read + op.written).as_double();
    const Seconds casts = memory_time(4.0 * static_cast<double>(op.quantised) * cast_traffic());
    switch (op.kind) {
        case OperatorKind::collective:
            return Seconds(0);
        case OperatorKind::gemm:
            return gemm(op) + casts;
        case OperatorKind::attention:
            return attention(op) + casts;
        case OperatorKind::elementwise:
            // Only vector nodes of explicit graphs count FLOPs here.
            return std::max(op.flops / accelerator_.peak.at(Precision::fp32),
                            memory_time(bytes * software_.elementwise_traffic)) +
                   casts;
        case OperatorKind::permutation:
            return memory_time(bytes * software_.permutation_traffic);
        case OperatorKind::norm: {
            const double extra = software_.norm_bytes * (op.pass == Pass::backward ? 1.5 : 1);
            return memory_time(bytes * software_.elementwise_traffic + extra * static_cast<double>(op.shape.m)) + casts;
        }
        case OperatorKind::loss:
            return memory_time(bytes * software_.loss_traffic);
        case OperatorKind::embedding:
            return memory_time(bytes);
        case OperatorKind::generic:
            return std::max(op.flops / sustained(dtype_), memory_time(bytes)) + accelerator_.kernel_time;
    }
    return Seconds(0);
}

}  // namespace plansim
