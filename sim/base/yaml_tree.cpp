// SPDX-License-Identifier: Apache-2.0
// Builds the tree from yaml-cpp's parser events rather than from its nodes: only events tell every position, repeated
// keys, aliases and whether a scalar was quoted. Depth and size are limited so that no file exhausts stack or memory.
#include "sim/base/yaml_tree.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <variant>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/names.hpp"

namespace plansim {

namespace {

constexpr std::size_t kMostDepth = 64;
constexpr std::size_t kMostNodes = 1'000'000;
// Runs of opening brackets cost yaml-cpp stack and time before the first event, so they are counted beforehand. More
// than the allowed depth, since brackets may also stand in comments and quotes.
constexpr std::size_t kMostOpenersInARow = 200;

/// Length of the well-formed UTF-8 character at `at`, 0 if there is none or if it is a control character.
std::size_t character_length(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t offset) -> unsigned {
        return at + offset < text.size() ? static_cast<unsigned char>(text[at + offset]) : 0U;
    };
    const unsigned first = byte(0);
    if (first < 0x80) return (first >= 0x20 && first != 0x7F) || first == '\n' || first == '\r' || first == '\t';
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4) return 0;
    unsigned code = first & (0xFFU >> (length + 1));
    for (std::size_t offset = 1; offset < length; ++offset) {
        if ((byte(offset) & 0xC0U) != 0x80U) return 0;
        code = (code << 6U) | (byte(offset) & 0x3FU);
    }
    constexpr unsigned kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    const bool control = code < 0xA0 && code != 0x85;
    return code < kLeast[length] || code > 0x10FFFF || surrogate || control ? 0 : length;
}

/// Offset of the first byte that is not text.
std::optional<std::size_t> first_bad_byte(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = character_length(text, at);
        if (length == 0) return at;
        at += length;
    }
    return std::nullopt;
}

Position position_of_byte(std::string_view text, std::size_t offset) {
    const std::string_view before = text.substr(0, offset);
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    return {static_cast<std::uint32_t>(lines + 1), static_cast<std::uint32_t>(offset - line_start + 1), -1};
}

/// Offset of the first bracket that opens a hopelessly deep flow collection.
std::optional<std::size_t> first_absurd_nesting(std::string_view text) {
    std::size_t openers = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char letter = text[at];
        if (letter == '[' || letter == '{') {
            if (++openers > kMostOpenersInARow) return at;
        } else if (letter != ' ' && letter != '\t' && letter != '\n' && letter != '\r') {
            openers = 0;
        }
    }
    return std::nullopt;
}

/// Turns parser events into a tree. Problems are gathered; only exceeded limits end the parsing early.
class TreeBuilder : public YAML::EventHandler {
  public:
    struct Stop {};

    /// All nodes get the position of the override, if there is one. `base_path` is the path of the root.
    TreeBuilder(std::string_view text, const YamlDocument& document, std::int32_t override_index, std::string base_path,
                Diagnostics& problems)
        : text_(text),
          document_(document),
          override_index_(override_index),
          base_path_(std::move(base_path)),
          problems_(problems) {}

    [[nodiscard]] bool failed() const { return failed_; }
    YamlNode take_root() { return std::move(root_); }

    void problem(const Position& position, const std::string& path, const std::string& message) {
        problems_.add(document_.where(position), path, message);
        failed_ = true;
    }
    [[nodiscard]] Position position(const YAML::Mark& mark) const {
        if (override_index_ >= 0 || mark.line < 0) return {0, 0, override_index_};
        return {static_cast<std::uint32_t>(mark.line) + 1, static_cast<std::uint32_t>(mark.column) + 1, -1};
    }
    [[nodiscard]] const std::string& base_path() const { return base_path_; }

    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        check_properties(mark, "", anchor);
        place(start(YamlNode::Kind::null, mark));
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        problem(position(mark), next_path(), "aliases (*name) are not supported");
        place(start(YamlNode::Kind::null, mark));
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override {
        check_properties(mark, tag, anchor);
        YamlNode node = start(YamlNode::Kind::scalar, mark);
        node.is_quoted = tag == "!";
        if (node.is_quoted && is_never_closed(mark, value))
            problem(node.at, next_path(), "not valid YAML: the quote is never closed");
        if (first_bad_byte(value)) problem(node.at, next_path(), "a text with control characters");
        node.scalar = value;
        place(std::move(node));
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open(YamlNode::Kind::list, mark, tag, anchor);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open(YamlNode::Kind::map, mark, tag, anchor);
    }
    void OnMapEnd() override { close(); }

  private:
    struct Frame {
        YamlNode node;
        bool has_key = false;  // the next node is the value of the last of node.keys
        Position key_at;
        std::unordered_map<std::string, std::uint32_t> first_lines;
    };

    /// yaml-cpp accepts a quote that opens at the very end of the text, as files cut short may have one.
    [[nodiscard]] bool is_never_closed(const YAML::Mark& mark, const std::string& value) const {
        if (mark.pos < 0 || value.find_first_not_of(" \n") != std::string::npos) return false;
        const std::size_t byte_order_mark = text_.starts_with("\xEF\xBB\xBF") ? 3 : 0;
        const std::size_t opening = static_cast<std::size_t>(mark.pos) + byte_order_mark;
        if (opening >= text_.size() || (text_[opening] != '"' && text_[opening] != '\'')) return false;
        return text_.find(text_[opening], opening + 1) == std::string_view::npos;
    }

    YamlNode start(YamlNode::Kind kind, const YAML::Mark& mark) {
        YamlNode node;
        node.kind = kind;
        node.at = position(mark);
        if (++nodes_ > kMostNodes) {
            problem(node.at, "", fmt::format("more than {} values in one document", kMostNodes));
            throw Stop{};
        }
        return node;
    }

    void check_properties(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
        if (anchor != 0) problem(position(mark), next_path(), "anchors (&name) are not supported");
        if (!tag.empty() && tag != "?" && tag != "!") problem(position(mark), next_path(), "tags are not supported");
    }

    void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
        check_properties(mark, tag, anchor);
        if (frames_.size() >= kMostDepth) {
            problem(position(mark), "", fmt::format("nested more than {} levels deep", kMostDepth));
            throw Stop{};
        }
        Frame frame;
        frame.node = start(kind, mark);
        frames_.push_back(std::move(frame));
    }

    void close() {
        YamlNode node = std::move(frames_.back().node);
        frames_.pop_back();
        place(std::move(node));
    }

    void place(YamlNode node) {
        if (frames_.empty()) {
            root_ = std::move(node);
            return;
        }
        Frame& frame = frames_.back();
        if (frame.node.kind == YamlNode::Kind::map && !frame.has_key) {
            place_key(frame, std::move(node));
            return;
        }
        if (frame.has_key) node.at = frame.key_at;
        frame.has_key = false;
        frame.node.children.push_back(std::move(node));
    }

    void place_key(Frame& frame, YamlNode key) {
        if (key.kind != YamlNode::Kind::scalar) {
            problem(key.at, next_path(), "a key must be a plain text");
        } else {
            const auto [first, is_new] = frame.first_lines.emplace(key.scalar, key.at.line);
            if (!is_new) {
                const std::string given =
                    override_index_ >= 0 ? "" : fmt::format("; first given at line {}", first->second);
                problem(key.at, joined_path(next_path(), key.scalar), "duplicate key" + given);
            }
        }
        frame.has_key = true;
        frame.key_at = key.at;
        frame.node.keys.push_back(std::move(key.scalar));
    }

    /// Path of the node that comes next; for a key, the path of its map.
    [[nodiscard]] std::string next_path() const {
        std::string path = base_path_;
        for (const Frame& frame : frames_) {
            if (frame.node.kind == YamlNode::Kind::list)
                path = indexed_path(path, frame.node.children.size());
            else if (frame.has_key)
                path = joined_path(path, frame.node.keys.back());
        }
        return path;
    }

    std::string_view text_;
    const YamlDocument& document_;
    std::int32_t override_index_;
    std::string base_path_;
    Diagnostics& problems_;
    bool failed_ = false;
    std::size_t nodes_ = 0;
    std::vector<Frame> frames_;
    YamlNode root_;
};

/// Everything that can be said against the bytes before they are parsed.
bool check_text(std::string_view text, TreeBuilder& builder, std::int32_t override_index) {
    const auto at = [&](std::size_t offset) {
        return override_index >= 0 ? Position{0, 0, override_index} : position_of_byte(text, offset);
    };
    if (const auto offset = first_bad_byte(text)) {
        const auto byte = static_cast<unsigned char>(text[*offset]);
        const char* kind = byte < 0x80 ? "the control character" : "invalid UTF-8 at byte";
        builder.problem(at(*offset), builder.base_path(), fmt::format("not a text file: {} 0x{:02X}", kind, byte));
        return false;
    }
    if (const auto offset = first_absurd_nesting(text)) {
        builder.problem(at(*offset), builder.base_path(), fmt::format("nested more than {} levels deep", kMostDepth));
        return false;
    }
    return true;
}

/// Parses at most one document; an empty text gives a null node. Returns nothing after problems.
std::optional<YamlNode> parse_tree(std::string_view text, const YamlDocument& document, std::int32_t override_index,
                                   const std::string& base_path, Diagnostics& problems) {
    TreeBuilder builder(text, document, override_index, base_path, problems);
    if (!check_text(text, builder, override_index)) return std::nullopt;
    try {
        std::istringstream stream{std::string(text)};
        YAML::Parser parser(stream);
        if (parser.HandleNextDocument(builder)) {
            Diagnostics unused;
            TreeBuilder second(text, document, override_index, base_path, unused);
            if (parser.HandleNextDocument(second)) builder.problem({}, base_path, "more than one YAML document");
        }
    } catch (const TreeBuilder::Stop&) {
        return std::nullopt;
    } catch (const YAML::Exception& error) {
        builder.problem(builder.position(error.mark), base_path, "not valid YAML: " + error.msg);
    }
    if (builder.failed()) return std::nullopt;
    return builder.take_root();
}

// ---- overrides -----------------------------------------------------------------------------------------------------

using Step = std::variant<std::string, std::size_t>;

/// "links[2].bandwidth" as steps; empty if it is not a key path.
std::vector<Step> parse_path(std::string_view path) {
    std::vector<Step> steps;
    std::size_t at = 0;
    while (at < path.size() && steps.size() < kMostDepth) {
        if (path[at] == '[') {
            std::size_t index = 0;
            const char* end = path.data() + path.size();
            const auto [after, error] = std::from_chars(path.data() + at + 1, end, index);
            if (steps.empty() || error != std::errc() || after == end || *after != ']') return {};
            steps.emplace_back(index);
            at = static_cast<std::size_t>(after - path.data()) + 1;
            if (at < path.size() && path[at] != '.' && path[at] != '[') return {};
            continue;
        }
        if (path[at] == '.' && steps.empty()) return {};
        if (path[at] == '.') ++at;
        const std::size_t end = std::min(path.find_first_of(".[", at), path.size());
        if (end == at) return {};
        steps.emplace_back(std::string(path.substr(at, end - at)));
        at = end;
    }
    return at < path.size() ? std::vector<Step>{} : steps;
}

void set_position(YamlNode& node, const Position& position) {
    node.at = position;
    for (YamlNode& child : node.children)
        set_position(child, position);
}

/// Replaces the name under the inclusion's key by the document that it names. One that cannot be read ends the reading,
/// as a document that cannot be read does.
void include(YamlDocument& document, const Inclusion& inclusion, Diagnostics& problems) {
    YamlNode* node = nullptr;
    for (std::size_t child = 0; child < document.root.keys.size(); ++child)
        if (document.root.keys[child] == inclusion.key) node = &document.root.children[child];
    if (node == nullptr || node->kind != YamlNode::Kind::scalar) return;
    YamlDocument part;
    std::string text;
    try {
        const std::filesystem::path path = inclusion.find(node->scalar);
        part.name = path.string();
        text = read_file(path, kMostDocumentBytes);
    } catch (const InputError& error) {
        problems.add(document.where(node->at), inclusion.key, error.what());
        problems.throw_if_any();
    }
    if (!parse_document(text, part, problems)) problems.throw_if_any();
    const auto index = static_cast<std::int32_t>(document.included.size());
    const auto mark = [index](auto&& self, YamlNode& at) -> void {
        at.at.included_index = index;
        for (YamlNode& child : at.children)
            self(self, child);
    };
    mark(mark, part.root);
    document.included.push_back(part.name);
    *node = std::move(part.root);
}

class OverrideWriter {
  public:
    OverrideWriter(YamlDocument& document, std::int32_t index, Diagnostics& problems)
        : document_(document),
          given_(document.overrides[static_cast<std::size_t>(index)]),
          at_{0, 0, index},
          problems_(problems) {}

    void apply() {
        const std::vector<Step> steps = parse_path(given_.key);
        if (steps.empty()) {
            problem("", fmt::format("{} is not a key path such as 'links[2].bandwidth'", in_quotes(given_.key)));
            return;
        }
        std::optional<YamlNode> value = parse_tree(given_.value, document_, at_.override_index, given_.key, problems_);
        if (!value) return;
        YamlNode* node = &document_.root;
        std::string path;
        for (const Step& step : steps) {
            node = std::holds_alternative<std::string>(step) ? child_of_map(*node, std::get<std::string>(step), path)
                                                             : child_of_list(*node, std::get<std::size_t>(step), path);
            if (node == nullptr) return;
        }
        *node = std::move(*value);
        set_position(*node, at_);
    }

  private:
    void problem(const std::string& path, const std::string& message) {
        problems_.add(document_.where(at_), path, message);
    }

    /// The value under the key, made if it is missing; extends the path.
    YamlNode* child_of_map(YamlNode& node, const std::string& key, std::string& path) {
        if (node.kind == YamlNode::Kind::null) node.kind = YamlNode::Kind::map;
        if (node.kind != YamlNode::Kind::map) {
            problem(path, fmt::format("expected a map with the key {}, found {}", in_quotes(key), describe(node)));
            return nullptr;
        }
        path = joined_path(path, key);
        for (std::size_t child = 0; child < node.keys.size(); ++child)
            if (node.keys[child] == key) return &node.children[child];
        node.keys.push_back(key);
        node.children.emplace_back();
        node.children.back().at = at_;
        return &node.children.back();
    }

    YamlNode* child_of_list(YamlNode& node, std::size_t index, std::string& path) {
        if (node.kind != YamlNode::Kind::list) {
            problem(path, fmt::format("expected a list, found {}", describe(node)));
            return nullptr;
        }
        path = indexed_path(path, index);
        if (index >= node.children.size()) {
            problem(path, fmt::format("index out of range; the list has {} element{}", node.children.size(),
                                      node.children.size() == 1 ? "" : "s"));
            return nullptr;
        }
        return &node.children[index];
    }

    YamlDocument& document_;
    const Override& given_;
    Position at_;
    Diagnostics& problems_;
};

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
    const auto found = std::find(keys.begin(), keys.end(), key);
    return found == keys.end() ? nullptr : &children[static_cast<std::size_t>(found - keys.begin())];
}

std::string YamlDocument::where(const Position& position) const {
    if (position.override_index >= 0) {
        const Override& given = overrides[static_cast<std::size_t>(position.override_index)];
        return "--set " + (given.shown.empty() ? given.key : given.shown);
    }
    const std::string& file =
        position.included_index < 0 ? name : included[static_cast<std::size_t>(position.included_index)];
    return position.line == 0 ? file : fmt::format("{}:{}:{}", file, position.line, position.column);
}

std::string describe(const YamlNode& node) {
    switch (node.kind) {
        case YamlNode::Kind::null:
            return "nothing";
        case YamlNode::Kind::list:
            return "a list";
        case YamlNode::Kind::map:
            return "a map";
        case YamlNode::Kind::scalar:
            break;
    }
    return (node.is_quoted ? "the text " : "") + in_quotes(node.scalar);
}

std::string joined_path(std::string_view path, std::string_view key) {
    return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string indexed_path(std::string_view path, std::size_t index) {
    return fmt::format("{}[{}]", path, index);
}

bool parse_document(std::string_view text, YamlDocument& document, Diagnostics& problems) {
    std::optional<YamlNode> root = parse_tree(text, document, -1, "", problems);
    if (!root) return false;
    if (root->kind != YamlNode::Kind::map) {
        const bool is_empty = root->kind == YamlNode::Kind::null;
        problems.add(document.where(root->at), "",
                     is_empty ? "the document is empty" : "expected a map, found " + describe(*root));
        return false;
    }
    document.root = std::move(*root);
    return true;
}

void apply_overrides(YamlDocument& document, const std::optional<Inclusion>& inclusion, Diagnostics& problems) {
    if (inclusion) include(document, *inclusion, problems);
    for (std::size_t index = 0; index < document.overrides.size(); ++index) {
        OverrideWriter(document, static_cast<std::int32_t>(index), problems).apply();
        if (inclusion) include(document, *inclusion, problems);
    }
}

}  // namespace plansim
