// SPDX-License-Identifier: Apache-2.0
// Time of one operator on one device: a roofline whose compute roof depends on the shape.
//
//   matrix product   max(FLOPs / R * u, bytes / W) + t_k,  u >= 1 the shape penalty (tiles, waves, prologue over k)
//   fused attention  FLOPs / (peak * e * s / (s + s0)) + t_k
//   unfused          FLOPs / (R * e_b * d / (d + d0)) + 11 (19 backward) bytes per score / W + 4 (8) t_k
//   memory-bound     bytes * multiplier / W  (+ t_k per kernel, counted per layer by the software profile)
// R sustained matrix rate, W achieved memory rate, t_k fixed time of a kernel; parameters in AcceleratorEfficiency and
// Software. Leaves out: caches between operators, the clock (the rates are those of sustained operation).
#pragma once

#include "sim/graph/operator.hpp"
#include "sim/spec/platform.hpp"
#include "sim/spec/software.hpp"

namespace plansim {

/// Whether the device runs at its power limit, as in training, or a benchmark ends before the limit bites.
enum class Clock { sustained, short_run };

class KernelTime {
  public:
    /// `dtype`: in fp8 or fp4 training every matrix product but that of the head runs in that format.
    KernelTime(const Accelerator& accelerator, const Software& software, Precision dtype);

    /// Device time of a computing operator; collectives take none here.
    [[nodiscard]] Seconds time(const Operator& op) const;
    /// Device time of one dense product, batched products run together, alone on the device.
    [[nodiscard]] Seconds matrix_product(const MatrixShape& shape, Precision precision, Clock clock) const;
    /// Bytes that such a product reads and writes at least; products of 8-bit operands write 16-bit results.
    [[nodiscard]] static double matrix_bytes(const MatrixShape& shape, Precision precision);
    /// The shape penalty u of a matrix product at a sustained rate.
    [[nodiscard]] double shape_penalty(const MatrixShape& shape, FlopsPerSecond rate,
                                       Precision precision = Precision::bf16) const;
    /// Memory-bound work without a kernel's fixed time.
    [[nodiscard]] Seconds memory_time(double bytes) const { return Seconds(bytes / memory_rate_.value()); }
    [[nodiscard]] FlopsPerSecond sustained(Precision precision) const;
    [[nodiscard]] BytesPerSecond memory_rate() const { return memory_rate_; }
    [[nodiscard]] Seconds fixed() const { return accelerator_.kernel_time; }

  private:
    [[nodiscard]] double cast_traffic() const;
    [[nodiscard]] Seconds gemm(const Operator& op) const;
    [[nodiscard]] Seconds attention(const Operator& op) const;

    const Accelerator& accelerator_;
    const Software& software_;
    Precision dtype_;
    BytesPerSecond memory_rate_;
};

}  // namespace plansim
