// SPDX-License-Identifier: Apache-2.0
// Predicts published measurements: one function per kind of table, which returns what it predicted for every row.
//
// A row that cannot be predicted is returned with `skipped` set, never left out. What a row does not state and the
// prediction had to assume goes into `inferred`. Rules are the same for all rows of a kind; nothing is chosen by row.
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/spec/platform.hpp"

namespace plansim {

/// One row of a table of measurements. Conversions throw InputError with file, line and column.
struct MeasuredRow {
    std::string file;
    int line = 0;                              // of the file, from 1
    std::map<std::string, std::string> cells;  // by column; every column of the table is there

    /// The text of a cell, "" if it is empty or the table has no such column.
    [[nodiscard]] const std::string& text(const std::string& column) const;
    /// A finite number; nothing if the cell is empty.
    [[nodiscard]] std::optional<double> number(const std::string& column) const;
    [[nodiscard]] std::optional<std::int64_t> integer(const std::string& column) const;
    /// The same for a cell that must not be empty.
    [[nodiscard]] double required_number(const std::string& column) const;
    [[nodiscard]] std::int64_t required_integer(const std::string& column) const;
    /// Who measured: text before the first ':' of the column `source`; without one, the prefix of the id, or, if there
    /// are no ids, the first word.
    [[nodiscard]] std::string source() const;
    [[noreturn]] void fail(const std::string& column, const std::string& problem) const;
};

struct MeasuredTable {
    std::string file;
    std::vector<std::string> columns;
    std::vector<MeasuredRow> rows;
};

/// Reads CSV with a header. InputError with file and line for a row with too few or too many cells, a column that
/// occurs twice, or a table without rows.
MeasuredTable read_measured(const std::filesystem::path& path);

struct ValidateOptions {
    bool formula = false;           // the closed form instead of the replay
    std::vector<std::string> sets;  // KEY=VALUE of documents, after the rules for the source
    bool baseline = false;          // fill in ValidatedRow::baseline: the data sheet alone, without any efficiency
};

struct ValidatedRow {
    std::string id;
    std::string source;  // who measured
    std::string gpu;
    std::string group;   // bucket of the tables, e.g. "bf16 short", "all_reduce above 1 MB"
    std::string metric;  // with its unit, e.g. "time_us". "fits" (1 or 0) is counted apart and has no error in percent
    double measured = 0;
    double predicted = 0;
    double baseline = std::numeric_limits<double>::quiet_NaN();  // NaN: none
    std::string skipped;                                         // reason; empty: predicted
    std::vector<std::string> inferred;                           // e.g. "vpp: 1 (not stated)"
    std::string sweep;   // rows of one sweep (source, model, sequence, machine) are ranked against each other; or empty
    double samples = 1;  // of the step: rows of a sweep are compared by time per sample
};

/// One result per row, with id, source and gpu filled in, and whatever `predict` adds.
std::vector<ValidatedRow> validate_rows(const MeasuredTable& table,
                                        const std::function<void(const MeasuredRow&, ValidatedRow&)>& predict);

std::vector<ValidatedRow> validate_gemm(const MeasuredTable& table, const ValidateOptions& options);
std::vector<ValidatedRow> validate_collectives(const MeasuredTable& table, const ValidateOptions& options);
std::vector<ValidatedRow> validate_attention(const MeasuredTable& table, const ValidateOptions& options);
std::vector<ValidatedRow> validate_training(const MeasuredTable& table, const ValidateOptions& options);
std::vector<ValidatedRow> validate_memory(const MeasuredTable& table, const ValidateOptions& options);

/// The accelerator document of the catalogue that lists `gpu_type` among its aliases.
std::optional<std::string> accelerator_named(const std::string& gpu_type);
/// The accelerator itself, by the name of its document.
Accelerator load_accelerator(const std::string& document);
/// The platform of the catalogue that stands for systems of that accelerator document, if there is one.
std::optional<std::string> platform_with(const std::string& accelerator_document);

}  // namespace plansim
