// SPDX-License-Identifier: Apache-2.0
// Reader over the tree of yaml_tree.hpp. Scalars are converted here, by the key that asks for them, never by YAML's
// rules: 010, .nan, yes and quoted numbers are problems.
#include "sim/base/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <type_traits>
#include <unordered_map>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/names.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/yaml_tree.hpp"

namespace plansim {

namespace {

constexpr std::size_t kMostLines = 20;

/// "above 0", "at least 1", "between 0 and 1", with the bounds written by `text`.
template <class Text>
std::string describe_range(const Range& range, const Text& text) {
    const bool has_least = std::isfinite(range.least), has_most = std::isfinite(range.most);
    if (has_least && has_most) {
        if (range.exclusive_least) return fmt::format("above {} and at most {}", text(range.least), text(range.most));
        return fmt::format("between {} and {}", text(range.least), text(range.most));
    }
    if (has_most) return "at most " + text(range.most);
    return (range.exclusive_least ? "above " : "at least ") + text(range.least);
}

bool lies_in(const Range& range, double value) {
    return (range.exclusive_least ? value > range.least : value >= range.least) && value <= range.most;
}

double raw(double value) {
    return value;
}
double raw(std::int64_t value) {
    return static_cast<double>(value);
}
double raw(Bytes value) {
    return value.as_double();
}
template <class Dimension>
double raw(Quantity<Dimension> value) {
    return value.value();
}

/// A bound of a range of T's; zero needs no unit.
template <class T>
std::string bound_text(double bound) {
    if constexpr (std::is_arithmetic_v<T>)
        return to_text(bound);
    else if (bound == 0)
        return to_text(bound);
    else if constexpr (std::is_same_v<T, Bytes>)
        return to_text(Bytes::rounded(bound));
    else
        return to_text(T(bound));
}

template <class T>
ParsedQuantity<T> parse_value(std::string_view text) {
    if constexpr (std::is_same_v<T, double>)
        return parse_number(text);
    else if constexpr (std::is_same_v<T, std::int64_t>)
        return parse_integer(text);
    else
        return parse_quantity<T>(text);
}

/// What a value of type T is called after "expected".
template <class T>
std::string expected() {
    if constexpr (std::is_same_v<T, double>)
        return "a number";
    else if constexpr (std::is_same_v<T, std::int64_t>)
        return "an integer";
    else
        return "a number with a unit";
}

}  // namespace

// ---- Diagnostics ---------------------------------------------------------------------------------------------------

void Diagnostics::add(const std::string& where, const std::string& key, const std::string& message,
                      const std::string& hint) {
    std::string line = where + ": error: ";
    if (!key.empty()) line += key + ": ";
    line += message;
    if (!hint.empty()) line += "; " + hint;
    lines_.push_back(std::move(line));
}

void Diagnostics::throw_if_any() const {
    if (lines_.empty()) return;
    std::string text;
    for (std::size_t line = 0; line < std::min(lines_.size(), kMostLines); ++line)
        text += (line == 0 ? "" : "\n") + lines_[line];
    if (const std::size_t rest = lines_.size() - std::min(lines_.size(), kMostLines); rest > 0)
        text += fmt::format("\nand {} more error{}", rest, rest == 1 ? "" : "s");
    throw InputError(text);
}

// ---- Reader::State -------------------------------------------------------------------------------------------------

struct Reader::State {
    State(std::shared_ptr<const YamlDocument> of_document, Diagnostics& to_problems, const YamlNode& of_node,
          std::string at_path, bool is_poisoned)
        : document(std::move(of_document)),
          problems(&to_problems),
          node(&of_node),
          path(std::move(at_path)),
          poisoned(is_poisoned) {
        if (poisoned) return;
        for (std::size_t entry = 0; entry < node->keys.size(); ++entry)
            entries.emplace(node->keys[entry], entry);
        asked.resize(node->keys.size());
    }

    /// The value of a key, which counts as known and asked for from now on.
    const YamlNode* ask(std::string_view key) {
        learn(key);
        const auto found = entries.find(key);
        if (found == entries.end()) return nullptr;
        asked[found->second] = true;
        return &node->children[found->second];
    }
    [[nodiscard]] const YamlNode* peek(std::string_view key) const {
        const auto found = entries.find(key);
        return found == entries.end() ? nullptr : &node->children[found->second];
    }
    void learn(std::string_view key) { known.emplace(key); }

    /// Reports a problem of the value of a key, or of one of its elements.
    void report_at(std::string_view key, const YamlNode& at, const std::string& full_path, const std::string& message,
                   const std::string& hint = "") {
        failed.emplace(key);
        problems->add(document->where(at.at), full_path, message, hint);
    }
    void report(std::string_view key, const YamlNode& at, const std::string& message, const std::string& hint = "") {
        report_at(key, at, joined_path(path, key), message, hint);
    }

    /// The value of a key, or null after reporting that it is missing or (if required) absent.
    const YamlNode* value(std::string_view key, bool required) {
        const YamlNode* found = ask(key);
        if (found == nullptr) {
            if (required && !poisoned) report(key, *node, "missing key");
            return nullptr;
        }
        if (found->kind != YamlNode::Kind::null) return found;
        report(key, *found, "missing value");
        return nullptr;
    }

    /// The list under a key; null after reporting.
    const YamlNode* list(std::string_view key, const char* of_what) {
        const YamlNode* found = value(key, true);
        if (found == nullptr || found->kind == YamlNode::Kind::list) return found;
        report(key, *found, fmt::format("expected a list of {}, found {}", of_what, describe(*found)));
        return nullptr;
    }

    /// The scalar of a node that must be a text.
    std::optional<std::string> text(std::string_view key, const YamlNode& found, const std::string& full_path) {
        if (found.kind == YamlNode::Kind::scalar) return found.scalar;
        report_at(key, found, full_path,
                  found.kind == YamlNode::Kind::null ? "missing value" : "expected a text, found " + describe(found));
        return std::nullopt;
    }

    /// The number or quantity of a node.
    template <class T>
    std::optional<T> convert(std::string_view key, const YamlNode& found, const Range& range,
                             const std::string& full_path) {
        // Quotes around a number say "text"; around a quantity they say nothing, since its blank may suggest them.
        const bool is_text = found.is_quoted && std::is_arithmetic_v<T>;
        if (found.kind != YamlNode::Kind::scalar || is_text) {
            report_at(key, found, full_path,
                      found.kind == YamlNode::Kind::null
                          ? "missing value"
                          : fmt::format("expected {}, found {}", expected<T>(), describe(found)));
            return std::nullopt;
        }
        const ParsedQuantity<T> parsed = parse_value<T>(found.scalar);
        if (const auto* problem = std::get_if<QuantityProblem>(&parsed)) {
            report_at(key, found, full_path, problem->message, problem->hint);
            return std::nullopt;
        }
        const T result = std::get<T>(parsed);
        if (lies_in(range, raw(result))) return result;
        std::string shown = in_quotes(found.scalar);
        shown = shown.substr(1, shown.size() - 2);
        report_at(key, found, full_path,
                  fmt::format("must be {}, found {}", describe_range(range, bound_text<T>), shown));
        return std::nullopt;
    }

    template <class T>
    T number(std::string_view key, T fallback, bool required, const Range& range) {
        const YamlNode* found = value(key, required);
        if (found == nullptr) return fallback;
        return convert<T>(key, *found, range, joined_path(path, key)).value_or(fallback);
    }

    bool flag(std::string_view key, bool fallback, bool required) {
        const YamlNode* found = value(key, required);
        if (found == nullptr) return fallback;
        if (found->kind == YamlNode::Kind::scalar && !found->is_quoted) {
            if (found->scalar == "true" || found->scalar == "on") return true;
            if (found->scalar == "false" || found->scalar == "off") return false;
        }
        report(key, *found, "expected true, false, on or off, found " + describe(*found));
        return fallback;
    }

    /// A State for a child that must be a map; poisoned if it is none.
    std::shared_ptr<State> child(std::string_view key, const YamlNode& found, const std::string& full_path) {
        const bool is_map = found.kind == YamlNode::Kind::map;
        if (!is_map)
            report_at(
                key, found, full_path,
                found.kind == YamlNode::Kind::null ? "missing value" : "expected a map, found " + describe(found));
        return std::make_shared<State>(document, *problems, found, full_path, !is_map);
    }

    std::shared_ptr<const YamlDocument> document;
    Diagnostics* problems;
    const YamlNode* node;
    std::string path;
    bool poisoned;  // stands for a map that could not be read: has no entries and reports nothing
    std::unordered_map<std::string_view, std::size_t> entries;
    std::vector<bool> asked;
    std::set<std::string, std::less<>> known;   // every name that was asked for, present or not
    std::set<std::string, std::less<>> failed;  // keys with a reported problem
};

Reader::Reader(std::shared_ptr<State> state) : state_(std::move(state)) {}

Reader Reader::open(const std::filesystem::path& path, const std::vector<Override>& overrides, Diagnostics& problems,
                    const std::optional<Inclusion>& inclusion) {
    return parse(read_file(path, kMostDocumentBytes), path.string(), overrides, problems, inclusion);
}

Reader Reader::parse(std::string_view text, const std::string& name, const std::vector<Override>& overrides,
                     Diagnostics& problems, const std::optional<Inclusion>& inclusion) {
    auto document = std::make_shared<YamlDocument>(YamlDocument{name, overrides, {}, {}});
    // Problems found earlier, in other documents, are thrown with these rather than lost.
    if (!parse_document(text, *document, problems)) problems.throw_if_any();
    apply_overrides(*document, inclusion, problems);
    const YamlNode& root = document->root;
    return Reader(std::make_shared<State>(std::move(document), problems, root, "", false));
}

// ---- presence ------------------------------------------------------------------------------------------------------

bool Reader::has(std::string_view key) const {
    state_->learn(key);
    return state_->peek(key) != nullptr;
}

std::vector<std::string> Reader::keys() const {
    if (state_->poisoned) return {};
    state_->asked.assign(state_->asked.size(), true);
    return state_->node->keys;
}

bool Reader::is_map(std::string_view key) const {
    const YamlNode* found = state_->peek(key);
    return found != nullptr && found->kind == YamlNode::Kind::map;
}

bool Reader::is_list(std::string_view key) const {
    const YamlNode* found = state_->peek(key);
    return found != nullptr && found->kind == YamlNode::Kind::list;
}

bool Reader::is_flag(std::string_view key) const {
    const YamlNode* found = state_->peek(key);
    return found != nullptr && found->kind == YamlNode::Kind::scalar &&
           (found->scalar == "true" || found->scalar == "false" || found->scalar == "on" || found->scalar == "off");
}

// ---- required values -----------------------------------------------------------------------------------------------

std::string Reader::text(std::string_view key) {
    const YamlNode* found = state_->value(key, true);
    if (found == nullptr) return "";
    return state_->text(key, *found, joined_path(state_->path, key)).value_or("");
}

std::int64_t Reader::integer(std::string_view key, Range range) {
    return state_->number<std::int64_t>(key, 0, true, range);
}

double Reader::number(std::string_view key, Range range) {
    return state_->number<double>(key, 0, true, range);
}

bool Reader::flag(std::string_view key) {
    return state_->flag(key, false, true);
}

template <class T>
T Reader::quantity(std::string_view key, Range range) {
    return state_->number<T>(key, T{}, true, range);
}

std::vector<std::int64_t> Reader::integers(std::string_view key, Range range) {
    std::vector<std::int64_t> result;
    const YamlNode* list = state_->list(key, "integers");
    if (list == nullptr) return result;
    for (std::size_t index = 0; index < list->children.size(); ++index) {
        const std::string full_path = indexed_path(joined_path(state_->path, key), index);
        const auto value = state_->convert<std::int64_t>(key, list->children[index], range, full_path);
        if (value) result.push_back(*value);
    }
    return result;
}

std::vector<std::string> Reader::texts(std::string_view key) {
    std::vector<std::string> result;
    const YamlNode* list = state_->list(key, "texts");
    if (list == nullptr) return result;
    for (std::size_t index = 0; index < list->children.size(); ++index) {
        const std::string full_path = indexed_path(joined_path(state_->path, key), index);
        auto value = state_->text(key, list->children[index], full_path);
        if (value) result.push_back(std::move(*value));
    }
    return result;
}

Reader Reader::map(std::string_view key) {
    const std::string full_path = joined_path(state_->path, key);
    const YamlNode* found = state_->value(key, true);
    if (found != nullptr) return Reader(state_->child(key, *found, full_path));
    return Reader(std::make_shared<State>(state_->document, *state_->problems, *state_->node, full_path, true));
}

std::vector<Reader> Reader::maps(std::string_view key) {
    std::vector<Reader> result;
    const YamlNode* list = state_->list(key, "maps");
    if (list == nullptr) return result;
    const std::string full_path = joined_path(state_->path, key);
    for (std::size_t index = 0; index < list->children.size(); ++index)
        result.push_back(Reader(state_->child(key, list->children[index], indexed_path(full_path, index))));
    return result;
}

// ---- optional values -----------------------------------------------------------------------------------------------

std::string Reader::text(std::string_view key, std::string_view fallback) {
    const YamlNode* found = state_->value(key, false);
    if (found == nullptr) return std::string(fallback);
    return state_->text(key, *found, joined_path(state_->path, key)).value_or(std::string(fallback));
}

std::int64_t Reader::integer_or(std::string_view key, std::int64_t fallback, Range range) {
    return state_->number<std::int64_t>(key, fallback, false, range);
}

double Reader::number_or(std::string_view key, double fallback, Range range) {
    return state_->number<double>(key, fallback, false, range);
}

bool Reader::flag_or(std::string_view key, bool fallback) {
    return state_->flag(key, fallback, false);
}

template <class T>
T Reader::quantity_or(std::string_view key, T fallback, Range range) {
    return state_->number<T>(key, fallback, false, range);
}

std::size_t Reader::choose(std::string_view key, const std::vector<std::string_view>& names,
                           std::optional<std::size_t> fallback) {
    const std::size_t otherwise = fallback.value_or(0);
    const YamlNode* found = state_->value(key, !fallback);
    if (found == nullptr) return otherwise;
    const auto given = state_->text(key, *found, joined_path(state_->path, key));
    if (!given) return otherwise;
    const auto match = std::find(names.begin(), names.end(), *given);
    if (match != names.end()) return static_cast<std::size_t>(match - names.begin());
    const std::string nearest = nearest_name(*given, {names.begin(), names.end()});
    std::string message = "unknown value " + in_quotes(*given);
    if (!nearest.empty()) message += "; did you mean '" + nearest + "'?";
    state_->report(key, *found, fmt::format("{} (one of {})", message, fmt::join(names, ", ")));
    return otherwise;
}

// ---- problems ------------------------------------------------------------------------------------------------------

void Reader::fail(std::string_view key, const std::string& message, const std::string& hint) const {
    if (state_->poisoned || state_->failed.contains(key)) return;
    state_->problems->add(where(key), key.empty() ? state_->path : joined_path(state_->path, key), message, hint);
}

std::string Reader::where(std::string_view key) const {
    const YamlNode* found = state_->peek(key);
    return state_->document->where(found != nullptr ? found->at : state_->node->at);
}

std::string Reader::path() const {
    return state_->path;
}

Diagnostics& Reader::problems() const {
    return *state_->problems;
}

void Reader::finish() {
    if (state_->poisoned) return;
    const std::vector<std::string> known(state_->known.begin(), state_->known.end());
    for (std::size_t entry = 0; entry < state_->node->keys.size(); ++entry) {
        if (state_->asked[entry]) continue;
        const std::string& key = state_->node->keys[entry];
        const std::string nearest = nearest_name(key, known);
        state_->report(key, state_->node->children[entry], "unknown key",
                       nearest.empty() ? "" : "did you mean '" + nearest + "'?");
    }
}

// clang-format off
#define PLANSIM_READS(T) \
    template T Reader::quantity<T>(std::string_view, Range); \
    template T Reader::quantity_or<T>(std::string_view, T, Range);
// clang-format on
PLANSIM_READS(Bytes)
PLANSIM_READS(Seconds)
PLANSIM_READS(BytesPerSecond)
PLANSIM_READS(FlopsPerSecond)
PLANSIM_READS(Flops)
PLANSIM_READS(Hertz)
PLANSIM_READS(Watts)
PLANSIM_READS(Joules)
PLANSIM_READS(Celsius)
#undef PLANSIM_READS

}  // namespace plansim
