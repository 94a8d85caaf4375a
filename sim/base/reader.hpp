// SPDX-License-Identifier: Apache-2.0
// Strict reading of YAML documents: one Reader over each map, every key asked for exactly once, unknown keys rejected.
//
// A document is opened with its overrides (--set KEY=VALUE without the document's name) already applied; an override
// may replace or add a key, and is reported as "--set KEY" where a file would be reported as file:line:column.
// Problems are gathered in Diagnostics; a reading function that found one returns its fallback or a default value so
// that reading goes on. Diagnostics::throw_if_any() then ends with one InputError that lists up to 20 problems.
//
// Messages read:  cluster.yaml:14:9: error: links[2].bandwidth: missing unit in '400'; did you mean '400 Gbps'?
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"

namespace plansim {

/// One KEY=VALUE of the command line, key relative to its document, e.g. {"fabric.bandwidth", "800 Gbps"}. Elements of
/// lists are addressed by index: "links[2].bandwidth". The value is YAML.
struct Override {
    std::string key;
    std::string value;
    std::string shown = {};  // what messages print after --set, e.g. "platform.fabric.bandwidth"; the key if empty
};

/// A key of a document whose value may be the name of another document, which then stands in its place: overrides
/// reach into it, and its problems are reported at their places in its own file.
struct Inclusion {
    std::string key;
    /// Path of the document with this name; throws InputError with the reason if there is none.
    std::function<std::filesystem::path(const std::string& name)> find;
};

/// Problems found in one or several documents, in order of discovery.
class Diagnostics {
  public:
    /// `where` is "file:line:column" or "--set KEY"; `key` may be empty.
    void add(const std::string& where, const std::string& key, const std::string& message,
             const std::string& hint = "");
    [[nodiscard]] bool empty() const { return lines_.empty(); }
    /// Throws InputError with all lines (the first 20, then a count of the rest) if there is any.
    void throw_if_any() const;

  private:
    std::vector<std::string> lines_;
};

template <class E>
using Choices = std::span<const std::pair<std::string_view, E>>;

/// Range that a number must lie in; `above` excludes its bound.
struct Range {
    double least = -std::numeric_limits<double>::infinity();
    double most = std::numeric_limits<double>::infinity();
    bool exclusive_least = false;

    static constexpr Range positive() { return {0, std::numeric_limits<double>::infinity(), true}; }
    static constexpr Range not_negative() { return {0, std::numeric_limits<double>::infinity(), false}; }
    static constexpr Range share() { return {0, 1, false}; }    // 0 .. 1
    static constexpr Range fraction() { return {0, 1, true}; }  // above 0, up to 1
    static constexpr Range at_least(double bound) { return {bound, std::numeric_limits<double>::infinity(), false}; }
};

/// Reads one map of a document. Copies are cheap and share the record of which keys were asked for.
class Reader {
  public:
    /// Opens a file. A missing file, a directory, text that is not UTF-8 or not YAML, an empty file, several documents,
    /// anchors/aliases, a root that is not a map and duplicate keys anywhere are problems: InputError at once.
    static Reader open(const std::filesystem::path& path, const std::vector<Override>& overrides, Diagnostics& problems,
                       const std::optional<Inclusion>& inclusion = std::nullopt);
    /// The same from text; `name` stands where the file name would.
    static Reader parse(std::string_view text, const std::string& name, const std::vector<Override>& overrides,
                        Diagnostics& problems, const std::optional<Inclusion>& inclusion = std::nullopt);

    /// True if the key is present (null counts as present).
    [[nodiscard]] bool has(std::string_view key) const;
    /// All keys of this map in file order; marks them as asked for. For maps from free names to values.
    [[nodiscard]] std::vector<std::string> keys() const;
    /// True if the key is present and holds a map (list; true, false, on or off); marks nothing.
    [[nodiscard]] bool is_map(std::string_view key) const;
    [[nodiscard]] bool is_list(std::string_view key) const;
    [[nodiscard]] bool is_flag(std::string_view key) const;

    // Required values: a missing key is a problem at the position of the map.
    std::string text(std::string_view key);
    std::int64_t integer(std::string_view key, Range range = {});
    double number(std::string_view key, Range range = {});
    bool flag(std::string_view key);  // true, false, on, off
    template <class T>
    T quantity(std::string_view key, Range range = Range::positive());
    std::vector<std::int64_t> integers(std::string_view key, Range range = {});
    std::vector<std::string> texts(std::string_view key);
    /// The map under a key. If it is missing or no map, the result is a Reader that returns defaults and reports
    /// nothing, so that one problem does not cause others; in maps() such an element keeps its place.
    Reader map(std::string_view key);
    std::vector<Reader> maps(std::string_view key);  // a list of maps

    // Optional values.
    std::string text(std::string_view key, std::string_view fallback);
    std::int64_t integer_or(std::string_view key, std::int64_t fallback, Range range = {});
    double number_or(std::string_view key, double fallback, Range range = {});
    bool flag_or(std::string_view key, bool fallback);
    template <class T>
    T quantity_or(std::string_view key, T fallback, Range range = Range::positive());

    /// One of the named choices; a wrong name lists them and suggests the nearest. Required, and with a fallback.
    template <class E>
    E one_of(std::string_view key, Choices<E> choices) {
        return choices[choose(key, names(choices), std::nullopt)].second;
    }
    template <class E>
    E one_of_or(std::string_view key, Choices<E> choices, E fallback) {
        std::size_t fallback_index = 0;
        for (std::size_t index = 0; index < choices.size(); ++index)
            if (choices[index].second == fallback) fallback_index = index;
        return choices[choose(key, names(choices), fallback_index)].second;
    }

    /// A contradiction between values: reported at the position of `key` (of the map if the key is absent or "").
    /// Not reported if reading that key or this map failed already: the contradiction would only be its echo.
    void fail(std::string_view key, const std::string& message, const std::string& hint = "") const;
    /// "file:line:column" (or "--set KEY") of a key, or of the map itself if `key` is "" or absent.
    [[nodiscard]] std::string where(std::string_view key = "") const;
    /// Path of this map within its document, e.g. "node.fabric"; "" at the root.
    [[nodiscard]] std::string path() const;
    [[nodiscard]] Diagnostics& problems() const;

    /// Reports every key of this map that nobody asked for, with the nearest key that was asked for. Call it last.
    void finish();

  private:
    struct State;
    explicit Reader(std::shared_ptr<State> state);
    template <class E>
    static std::vector<std::string_view> names(Choices<E> choices) {
        std::vector<std::string_view> result;
        for (const auto& choice : choices)
            result.push_back(choice.first);
        return result;
    }
    std::size_t choose(std::string_view key, const std::vector<std::string_view>& names,
                       std::optional<std::size_t> fallback);

    std::shared_ptr<State> state_;
};

/// The candidate with the smallest edit distance to `word`, or "" if none is close enough to be a likely slip.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace plansim
