// SPDX-License-Identifier: Apache-2.0
#include "sim/spec/yaml_writer.hpp"

#include <algorithm>
#include <cctype>

namespace plansim {

std::string YamlWriter::quoted(std::string_view value) {
    const auto plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' || c == '/' ||
               c == ' ' || c == '(' || c == ')' || c == '+';
    };
    const bool starts_well = !value.empty() && std::isalpha(static_cast<unsigned char>(value.front()));
    if (starts_well && value.back() != ' ' && std::all_of(value.begin(), value.end(), plain)) return std::string(value);
    std::string result = "\"";
    for (const char c : value) {
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result + "\"";
}

std::string YamlWriter::flow_list(const std::vector<std::string>& values) {
    std::string result = "[";
    for (const auto& value : values)
        result += (result.size() > 1 ? ", " : "") + value;
    return result + "]";
}

void YamlWriter::integers(std::string_view key, const std::vector<std::int64_t>& values) {
    std::vector<std::string> parts;
    for (const auto value : values)
        parts.push_back(std::to_string(value));
    line(key, flow_list(parts));
}

void YamlWriter::texts(std::string_view key, const std::vector<std::string>& values) {
    std::vector<std::string> parts;
    for (const auto& value : values)
        parts.push_back(quoted(value));
    line(key, flow_list(parts));
}

void YamlWriter::begin(std::string_view key) {
    text_ += std::string(static_cast<std::size_t>(2 * depth_), ' ') + std::string(key) + ":\n";
    ++depth_;
}

void YamlWriter::item(std::string_view flow) {
    text_ += std::string(static_cast<std::size_t>(2 * depth_), ' ') + "- " + std::string(flow) + "\n";
}

void YamlWriter::line(std::string_view key, std::string_view value) {
    text_ +=
        std::string(static_cast<std::size_t>(2 * depth_), ' ') + std::string(key) + ": " + std::string(value) + "\n";
}

}  // namespace plansim
