// SPDX-License-Identifier: Apache-2.0
// Strict reading of tables of measurements, and the hardware that their gpu_type stands for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>

#include "sim/app/scenario.hpp"
#include "sim/app/validate/validate.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/names.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/table.hpp"

namespace plansim {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

/// Which platform of the catalogue stands for systems of an accelerator: the reference design with it.
const std::map<std::string, std::string>& reference_designs() {
    static const std::map<std::string, std::string> designs{
        {"a100-80gb", "dgx-a100"},  {"a100-40gb", "dgx-a100-40gb"}, {"h100-sxm5", "dgx-h100"},
        {"h100-500w", "h100-500w"}, {"h200", "hgx-h200"},           {"b200", "dgx-b200"},
        {"b300", "dgx-b300"},       {"gb200", "gb200-nvl72"},       {"gb300", "gb300-nvl72"},
        {"mi250x", "mi250x"},       {"mi300x", "mi300x"},           {"mi325x", "mi325x"},
        {"mi350x", "mi350x"},       {"mi355x", "mi355x"},           {"tpu-v4", "tpuv4"},
        {"tpu-v5e", "tpuv5e"},      {"tpu-v5p", "tpuv5p"},          {"tpu-v6e", "tpuv6e"}};
    return designs;
}

/// Alias -> accelerator document, of the whole catalogue.
const std::map<std::string, std::string>& aliases() {
    static const std::map<std::string, std::string> known = [] {
        std::map<std::string, std::string> result;
        for (const std::string& document : catalogue(DocumentKind::accelerator))
            for (const std::string& alias : load_accelerator(document).aliases)
                result.emplace(alias, document);
        return result;
    }();
    return known;
}

}  // namespace

const std::string& MeasuredRow::text(const std::string& column) const {
    static const std::string kNone;
    const auto found = cells.find(column);
    return found == cells.end() ? kNone : found->second;
}

void MeasuredRow::fail(const std::string& column, const std::string& problem) const {
    throw InputError(fmt::format("{}:{}: error: {}: {}", file, line, column, problem));
}

std::optional<double> MeasuredRow::number(const std::string& column) const {
    const std::string& cell = text(column);
    if (cell.empty()) return std::nullopt;
    const auto parsed = parse_number(cell);
    if (const auto* value = std::get_if<double>(&parsed)) return *value;
    fail(column, std::get<QuantityProblem>(parsed).message);
}

std::optional<std::int64_t> MeasuredRow::integer(const std::string& column) const {
    const std::string& cell = text(column);
    if (cell.empty()) return std::nullopt;
    const auto parsed = parse_integer(cell);
    if (const auto* value = std::get_if<std::int64_t>(&parsed)) return *value;
    fail(column, std::get<QuantityProblem>(parsed).message);
}

double MeasuredRow::required_number(const std::string& column) const {
    const auto value = number(column);
    if (!value) fail(column, "missing value");
    return *value;
}

std::int64_t MeasuredRow::required_integer(const std::string& column) const {
    const auto value = integer(column);
    if (!value) fail(column, "missing value");
    return *value;
}

std::string MeasuredRow::source() const {
    const std::string& source = text("source");
    if (const auto colon = source.find(':'); colon != std::string::npos) return source.substr(0, colon);
    const auto id = cells.find("id");
    if (id == cells.end()) return source.substr(0, source.find(' '));
    return id->second.substr(0, id->second.rfind('-'));
}

MeasuredTable read_measured(const std::filesystem::path& path) {
    const auto cells = parse_csv(read_file(path, kMostBytes));
    MeasuredTable table{path.string(), {}, {}};
    int line = 1;
    for (const std::vector<std::string>& row : cells) {
        const int start = line++;
        for (const std::string& cell : row)
            line += static_cast<int>(std::count(cell.begin(), cell.end(), '\n'));
        if (start == 1) {
            table.columns = row;
            std::set<std::string> seen;
            for (const std::string& column : row)
                if (!seen.insert(column).second)
                    throw InputError(
                        fmt::format("{}:1: error: the column {} occurs twice", table.file, in_quotes(column)));
            continue;
        }
        if (row.size() != table.columns.size())
            throw InputError(fmt::format("{}:{}: error: {} cells in a table of {} columns", table.file, start,
                                         row.size(), table.columns.size()));
        MeasuredRow measured{table.file, start, {}};
        for (std::size_t column = 0; column < row.size(); ++column)
            measured.cells.emplace(table.columns[column], row[column]);
        table.rows.push_back(std::move(measured));
    }
    if (table.rows.empty()) throw InputError(fmt::format("{}: error: a table without rows", table.file));
    return table;
}

std::optional<std::string> accelerator_named(const std::string& gpu_type) {
    const auto found = aliases().find(gpu_type);
    if (found == aliases().end()) return std::nullopt;
    return found->second;
}

Accelerator load_accelerator(const std::string& document) {
    Diagnostics problems;
    Accelerator accelerator =
        read_accelerator(Reader::open(find_document(document, DocumentKind::accelerator), {}, problems));
    problems.throw_if_any();
    return accelerator;
}

std::optional<std::string> platform_with(const std::string& accelerator_document) {
    const auto found = reference_designs().find(accelerator_document);
    if (found == reference_designs().end()) return std::nullopt;
    return found->second;
}

std::vector<ValidatedRow> validate_rows(const MeasuredTable& table,
                                        const std::function<void(const MeasuredRow&, ValidatedRow&)>& predict) {
    std::vector<ValidatedRow> rows;
    for (const MeasuredRow& measured : table.rows) {
        ValidatedRow& row = rows.emplace_back();
        row.id = measured.text("id");
        row.source = measured.source();
        row.gpu = measured.text("gpu_type");
        predict(measured, row);
    }
    return rows;
}

}  // namespace plansim
