// SPDX-License-Identifier: Apache-2.0
// Foreign text in messages, and the nearest known name for a misspelled one.
#include "sim/base/names.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

#include "sim/base/reader.hpp"

namespace plansim {

namespace {

constexpr std::size_t kMostShown = 60;

/// Upper and lower case, '-' and '_' count as the same letter.
char folded(char letter) {
    if (letter == '-') return '_';
    return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

/// Optimal string alignment: insert, delete, replace a letter or swap two neighbours.
std::size_t edit_distance(std::string_view from, std::string_view to) {
    std::vector<std::size_t> before_last(to.size() + 1), last(to.size() + 1), current(to.size() + 1);
    for (std::size_t column = 0; column <= to.size(); ++column)
        last[column] = column;
    for (std::size_t row = 1; row <= from.size(); ++row) {
        current[0] = row;
        for (std::size_t column = 1; column <= to.size(); ++column) {
            const bool same = folded(from[row - 1]) == folded(to[column - 1]);
            current[column] =
                std::min({last[column] + 1, current[column - 1] + 1, last[column - 1] + (same ? 0U : 1U)});
            if (row > 1 && column > 1 && folded(from[row - 1]) == folded(to[column - 2]) &&
                folded(from[row - 2]) == folded(to[column - 1]))
                current[column] = std::min(current[column], before_last[column - 2] + 1);
        }
        std::swap(before_last, last);
        std::swap(last, current);
    }
    return last[to.size()];
}

/// How many slips are likely in a word of this length; fewer than its letters, or any word would match.
std::size_t likely_slips(std::size_t length) {
    if (length <= 1) return 0;
    if (length <= 3) return 1;
    return std::clamp<std::size_t>(length / 3, 2, 8);
}

}  // namespace

std::string in_quotes(std::string_view text) {
    std::size_t end = text.size();
    if (end > kMostShown) {
        end = kMostShown;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
            --end;
    }
    std::string result = "'";
    for (const char letter : text.substr(0, end)) {
        if (letter == '\n')
            result += "\\n";
        else if (letter == '\r')
            result += "\\r";
        else if (letter == '\t')
            result += "\\t";
        else
            result += letter;
    }
    if (end < text.size()) result += "...";
    return result + "'";
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
    const std::size_t limit = likely_slips(word.size());
    std::size_t best_distance = limit + 1;
    std::string best;
    for (const std::string& candidate : candidates) {
        const std::size_t longer = std::max(word.size(), candidate.size());
        if (longer - std::min(word.size(), candidate.size()) > limit) continue;
        const std::size_t distance = edit_distance(word, candidate);
        if (distance < best_distance && distance < longer) {
            best_distance = distance;
            best = candidate;
        }
    }
    return best;
}

}  // namespace plansim
