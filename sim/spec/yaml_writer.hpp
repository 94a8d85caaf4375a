// SPDX-License-Identifier: Apache-2.0
// Writes the block YAML of our documents: maps, scalars and short flow lists, in the order given.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/quantity_text.hpp"

namespace plansim {

class YamlWriter {
  public:
    void text(std::string_view key, std::string_view value) { line(key, quoted(value)); }
    void integer(std::string_view key, std::int64_t value) { line(key, std::to_string(value)); }
    void number(std::string_view key, double value) { line(key, to_text(value)); }
    void flag(std::string_view key, bool value) { line(key, value ? "true" : "false"); }
    template <class T>
    void quantity(std::string_view key, T value) {
        line(key, to_text(value));
    }
    /// A value that is YAML already, such as a flow list.
    void raw(std::string_view key, std::string_view value) { line(key, value); }
    void integers(std::string_view key, const std::vector<std::int64_t>& values);
    void texts(std::string_view key, const std::vector<std::string>& values);
    void begin(std::string_view key);  // a map; close with end()
    void end() { --depth_; }
    /// One element of a list of maps or lists, written in flow style below the last begin().
    void item(std::string_view flow);

    [[nodiscard]] const std::string& str() const { return text_; }
    /// The value as a YAML scalar, quoted if a plain one would read as something else.
    static std::string quoted(std::string_view value);
    static std::string flow_list(const std::vector<std::string>& values);

  private:
    void line(std::string_view key, std::string_view value);
    std::string text_;
    int depth_ = 0;
};

}  // namespace plansim
