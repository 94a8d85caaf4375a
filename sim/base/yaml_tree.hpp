// SPDX-License-Identifier: Apache-2.0
// The subset of YAML that documents may use, as a tree of unconverted texts with positions: maps with distinct plain
// keys, lists and scalars. Left out on purpose: anchors, aliases, tags, several documents, and YAML's own idea of what
// a number or a truth value is. Private to sim/base; documents are read through Reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/reader.hpp"

namespace plansim {

/// Longest document that is read.
inline constexpr std::size_t kMostDocumentBytes = std::size_t{16} << 20U;

/// A place in the file, in an included one, or the override that gave a node.
struct Position {
    std::uint32_t line = 0;  // from 1; 0 if unknown
    std::uint32_t column = 0;
    std::int32_t override_index = -1;
    std::int32_t included_index = -1;
};

struct YamlNode {
    enum class Kind { null, scalar, list, map };
    Kind kind = Kind::null;
    bool is_quoted = false;
    Position at;                    // of its key, if it has one: that is where a reader of the message looks
    std::string scalar;             // unconverted
    std::vector<std::string> keys;  // of a map, parallel to children
    std::vector<YamlNode> children;

    [[nodiscard]] const YamlNode* find(std::string_view key) const;
};

/// A document and where its parts came from.
struct YamlDocument {
    std::string name;
    std::vector<Override> overrides;
    YamlNode root;
    std::vector<std::string> included;  // names of documents whose nodes are part of the tree

    [[nodiscard]] std::string where(const Position& position) const;
};

/// "a map", "a list", "'text'", "the text '5'" (quoted) or "nothing", for "expected ..., found ...".
std::string describe(const YamlNode& node);

std::string joined_path(std::string_view path, std::string_view key);
std::string indexed_path(std::string_view path, std::size_t index);

/// Parses `text` into document.root, which is a map afterwards, or adds at least one problem and returns false.
bool parse_document(std::string_view text, YamlDocument& document, Diagnostics& problems);
/// Applies document.overrides in their order. One that cannot be applied is a problem and leaves the rest untouched.
/// Whenever the value of the inclusion's key is a text, in the file or by an override, the document that it names takes
/// its place at once.
void apply_overrides(YamlDocument& document, const std::optional<Inclusion>& inclusion, Diagnostics& problems);

}  // namespace plansim
