// SPDX-License-Identifier: Apache-2.0
// gemm.csv: rate of one matrix product on one device.
//
// Two regimes, told by the source's own words: after a long warm-up the device is at its power limit and the sustained
// rate holds; short profiles and searches for the best shape run at an unthrottled clock (efficiency.short_run).
#include <fmt/format.h>

#include <cmath>

#include "sim/app/validate/validate.hpp"
#include "sim/base/error.hpp"
#include "sim/cost/kernel_time.hpp"

namespace plansim {
namespace {

/// "bf16xbf16->bf16" or "fp8": the format of the operands. f32 products of frameworks run in TF32.
std::optional<Precision> precision_of(const std::string& dtype) {
    if (dtype.starts_with("bf16")) return Precision::bf16;
    if (dtype.starts_with("fp16")) return Precision::fp16;
    if (dtype.starts_with("fp8")) return Precision::fp8;
    if (dtype.starts_with("f32")) return Precision::tf32;
    return std::nullopt;
}

void predict(const MeasuredRow& measured, const ValidateOptions& options, ValidatedRow& row) {
    const std::string dtype = measured.text("dtype");
    const std::string notes = measured.text("notes");
    row.metric = "TFLOPS";
    row.measured = measured.required_number("tflops");
    const bool warm = notes.find("warmup") != std::string::npos;
    row.group = fmt::format("{} {}", dtype.substr(0, dtype.find('x')), warm ? "sustained" : "short");
    const auto accelerator_name = accelerator_named(row.gpu);
    const auto precision = precision_of(dtype);
    if (!accelerator_name) {
        row.skipped = fmt::format("no accelerator '{}' in the catalogue", row.gpu);
        return;
    }
    if (!precision) {
        row.skipped = fmt::format("unknown format '{}'", dtype);
        return;
    }
    Accelerator accelerator = load_accelerator(*accelerator_name);
    if (notes.starts_with("per device; chip has 2 devices")) {  // half of the chip that the document describes
        for (auto& [format, rate] : accelerator.peak)
            rate *= 0.5;
        accelerator.hbm_bandwidth *= 0.5;
    }
    if (!accelerator.peak.contains(*precision)) {
        row.skipped = fmt::format("the accelerator has no {}", name_of(*precision));
        return;
    }
    const Software software;
    const KernelTime kernels(accelerator, software, *precision);
    const MatrixShape shape{measured.required_integer("batch"), measured.required_integer("m"),
                            measured.required_integer("n"), measured.required_integer("k")};
    const double flops = 2 * static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
                         static_cast<double>(shape.n) * static_cast<double>(shape.k);
    const Seconds time = kernels.matrix_product(shape, *precision, warm ? Clock::sustained : Clock::short_run);
    row.predicted = flops / time.value() / 1e12;
    if (options.baseline) {
        const double bytes = kernels.matrix_bytes(shape, *precision);
        const double compute_s = flops / accelerator.peak.at(*precision).value();
        row.baseline = flops / std::max(compute_s, bytes / accelerator.hbm_bandwidth.value()) / 1e12;
    }
}

}  // namespace

std::vector<ValidatedRow> validate_gemm(const MeasuredTable& table, const ValidateOptions& options) {
    return validate_rows(table,
                         [&](const MeasuredRow& measured, ValidatedRow& row) { predict(measured, options, row); });
}

}  // namespace plansim
