// SPDX-License-Identifier: Apache-2.0
// Plain text tables for reports: columns padded to their widest cell, numbers right, text left. And CSV quoting.
#pragma once

#include <string>
#include <vector>

namespace plansim {

class Table {
  public:
    /// A header that starts with '>' makes its column right-aligned (the sign is not printed).
    explicit Table(std::vector<std::string> headers);
    /// Must have as many cells as there are headers.
    void add(std::vector<std::string> cells);
    /// Two blanks between columns, a rule of '-' under the header, no trailing blanks.
    [[nodiscard]] std::string str() const;

  private:
    std::vector<std::string> headers_;
    std::vector<bool> right_;
    std::vector<std::vector<std::string>> rows_;
};

/// One CSV line with RFC 4180 quoting, without the newline.
std::string csv_line(const std::vector<std::string>& cells);
/// Splits CSV text (RFC 4180: quotes, embedded newlines) into rows of cells.
std::vector<std::vector<std::string>> parse_csv(const std::string& text);

}  // namespace plansim
