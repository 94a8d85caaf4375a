// SPDX-License-Identifier: Apache-2.0
// Replays published measurements and checks the error table that tests/accuracy/RESULTS.md states.
// PLANSIM_UPDATE_GOLDEN=1 writes that file anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "sim/app/outcome.hpp"
#include "sim/base/file.hpp"
#include "tests/accuracy/measured_runs.hpp"

namespace plansim {
namespace {

struct Predicted {
    MeasuredRun run;
    double simulated_s = 0;
    double error_pct = 0;
    std::int64_t peak_bytes = 0;
    bool fits = true;
};

std::vector<Predicted> predict_all() {
    std::vector<Predicted> rows;
    for (MeasuredRun& run : read_measured_runs(PLANSIM_TEST_DATA "/accuracy/training.csv")) {
        Predicted row{std::move(run)};
        if (row.run.skipped.empty()) {
            const Json outcome = simulate_plan(*row.run.scenario, *row.run.plan, {});
            row.simulated_s = outcome["iteration_time_s"].get<double>();
            row.peak_bytes = outcome["memory"]["peak_bytes"].get<std::int64_t>();
            row.fits = outcome["memory"]["fits"].get<bool>();
            row.error_pct = 100 * (row.simulated_s / row.run.measured.value() - 1);
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

struct Summary {
    std::size_t count = 0;
    double median = 0;
    double mean = 0;
    double bias = 0;
    double worst = 0;
};

Summary summarise(const std::vector<Predicted>& rows, const std::string& source) {
    std::vector<double> absolute;
    Summary summary;
    for (const Predicted& row : rows) {
        if (!row.run.skipped.empty() || (!source.empty() && row.run.source != source)) continue;
        absolute.push_back(std::abs(row.error_pct));
        summary.bias += row.error_pct;
    }
    std::sort(absolute.begin(), absolute.end());
    summary.count = absolute.size();
    const auto count = static_cast<double>(summary.count);
    for (const double error : absolute)
        summary.mean += error / count;
    summary.bias /= count;
    summary.median = (absolute[(absolute.size() - 1) / 2] + absolute[absolute.size() / 2]) / 2;
    summary.worst = absolute.back();
    return summary;
}

std::string results_text(const std::vector<Predicted>& rows) {
    std::string text =
        "# Predicted against published step times\n\n"
        "Replay with fidelity `layer`; no parameter is set per row, one software profile per source. Error = predicted "
        "/ measured - 1.\n"
        "Regenerate with `PLANSIM_UPDATE_GOLDEN=1 build/tests/accuracy_test`.\n\n"
        "| source | rows | median | mean | bias | worst |\n|---|---|---|---|---|---|\n";
    for (const std::string source : {"narayanan21", "nemo2407r1", ""}) {
        const Summary summary = summarise(rows, source);
        text +=
            fmt::format("| {} | {} | {:.1f} % | {:.1f} % | {:+.1f} % | {:.1f} % |\n", source.empty() ? "all" : source,
                        summary.count, summary.median, summary.mean, summary.bias, summary.worst);
    }
    text += "\n| row | configuration | measured | predicted | error | peak memory |\n|---|---|---|---|---|---|\n";
    for (const Predicted& row : rows) {
        if (!row.run.skipped.empty())
            text += fmt::format("| {} | {} | {:.3f} s | skipped: {} | | |\n", row.run.id, row.run.configuration,
                                row.run.measured.value(), row.run.skipped);
        else
            text += fmt::format("| {} | {} | {:.3f} s | {:.3f} s | {:+.1f} % | {:.1f} GiB{} |\n", row.run.id,
                                row.run.configuration, row.run.measured.value(), row.simulated_s, row.error_pct,
                                Bytes(row.peak_bytes) / kGiB, row.fits ? "" : ", said not to fit");
    }
    return text;
}

TEST(Accuracy, PublishedDenseRunsOnA100AndH100HaveAMedianErrorBelowEightPercent) {
    const auto rows = predict_all();
    const std::string text = results_text(rows);
    const std::string file = PLANSIM_TEST_DATA "/accuracy/RESULTS.md";
    if (std::getenv("PLANSIM_UPDATE_GOLDEN") != nullptr) write_file(file, text);
    EXPECT_LT(summarise(rows, "").median, 8);
    EXPECT_EQ(summarise(rows, "").count, 22U);
    // All of them ran. Two are said not to fit: the working set of a recomputed layer is too large for big
    // microbatches, and the 340 B model is 2 % over.
    EXPECT_LE(std::count_if(rows.begin(), rows.end(), [](const Predicted& row) { return !row.fits; }), 2);
    EXPECT_EQ(text, read_file(file)) << "the committed table is stale";
}

}  // namespace
}  // namespace plansim
