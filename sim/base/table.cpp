// SPDX-License-Identifier: Apache-2.0
// Tables for people and CSV for programs. Widths count characters of UTF-8, each taken as one column wide.
#include "sim/base/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/error.hpp"

namespace plansim {

namespace {

std::size_t width(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0U) != 0x80U; }));
}

/// Reads RFC 4180 text one character at a time.
class CsvParser {
  public:
    std::vector<std::vector<std::string>> parse(const std::string& text) {
        for (std::size_t at = 0; at < text.size(); ++at) {
            const char letter = text[at];
            const bool ends_with_newline = letter == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
            if (in_quotes_)
                at += read_quoted(letter, at + 1 < text.size() ? text[at + 1] : '\0');
            else if (letter == '\n')
                end_row();
            else if (!ends_with_newline)  // of CR LF, the LF ends the row
                read_plain(letter);
        }
        if (in_quotes_) fail("a quote is never closed");
        end_row();
        return std::move(rows_);
    }

  private:
    [[noreturn]] void fail(const char* reason) const {
        throw InputError(fmt::format("CSV line {}: {}", line_, reason));
    }

    /// Returns how many characters it used beyond the first.
    std::size_t read_quoted(char letter, char next) {
        if (letter == '"' && next == '"') {
            cell_ += '"';
            return 1;
        }
        if (letter == '"') {
            in_quotes_ = false;
        } else {
            if (letter == '\n') ++line_;
            cell_ += letter;
        }
        return 0;
    }

    void read_plain(char letter) {
        if (letter == ',') {
            end_cell();
        } else if (letter == '"') {
            if (was_quoted_ || !cell_.empty()) fail("a quote within a cell that does not start with one");
            in_quotes_ = was_quoted_ = true;
        } else {
            if (was_quoted_) fail("text after a closing quote");
            cell_ += letter;
        }
    }

    void end_cell() {
        row_.push_back(std::move(cell_));
        cell_.clear();
        was_quoted_ = false;
    }

    /// Blank lines are no rows; a row of one empty cell is written "".
    void end_row() {
        ++line_;
        if (row_.empty() && cell_.empty() && !was_quoted_) return;
        end_cell();
        rows_.push_back(std::move(row_));
        row_.clear();
    }

    std::vector<std::vector<std::string>> rows_;
    std::vector<std::string> row_;
    std::string cell_;
    std::size_t line_ = 1;
    bool in_quotes_ = false;
    bool was_quoted_ = false;
};

}  // namespace

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {
    for (std::string& header : headers_) {
        right_.push_back(header.starts_with('>'));
        if (right_.back()) header.erase(0, 1);
    }
}

void Table::add(std::vector<std::string> cells) {
    PLANSIM_CHECK(cells.size() == headers_.size(),
                  fmt::format("a row of {} cells in a table of {} columns", cells.size(), headers_.size()));
    rows_.push_back(std::move(cells));
}

std::string Table::str() const {
    std::vector<std::size_t> widths;
    for (std::size_t column = 0; column < headers_.size(); ++column) {
        widths.push_back(width(headers_[column]));
        for (const auto& row : rows_)
            widths[column] = std::max(widths[column], width(row[column]));
    }
    std::string result;
    const auto append = [&](const std::vector<std::string>& cells) {
        std::string line;
        for (std::size_t column = 0; column < cells.size(); ++column) {
            const std::string padding(widths[column] - width(cells[column]), ' ');
            if (column > 0) line += "  ";
            line += right_[column] ? padding + cells[column] : cells[column] + padding;
        }
        line.erase(line.find_last_not_of(' ') + 1);
        result += line + '\n';
    };
    append(headers_);
    std::vector<std::string> rule;
    rule.reserve(widths.size());
    for (const std::size_t columns : widths)
        rule.emplace_back(columns, '-');
    append(rule);
    for (const auto& row : rows_)
        append(row);
    return result;
}

std::string csv_line(const std::vector<std::string>& cells) {
    if (cells.size() == 1 && cells[0].empty()) return "\"\"";
    std::string result;
    for (std::size_t column = 0; column < cells.size(); ++column) {
        if (column > 0) result += ',';
        if (cells[column].find_first_of(",\"\r\n") == std::string::npos) {
            result += cells[column];
            continue;
        }
        result += '"';
        for (const char letter : cells[column])
            result += letter == '"' ? std::string("\"\"") : std::string(1, letter);
        result += '"';
    }
    return result;
}

std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
    return CsvParser().parse(text);
}

}  // namespace plansim
