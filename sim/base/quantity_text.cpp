// SPDX-License-Identifier: Apache-2.0
// Numbers and quantities as text. Powers of ten never meet binary arithmetic: a number is held as decimal digits and an
// exponent, a prefix only shifts that exponent, and the conversion to a double rounds once. So "2.5 us" is the double
// nearest to 2.5e-6, and the shortest digits of a double, shifted by any decimal prefix, read back to the same bits.
// Powers of 1024 and the 1/8 of bits are exact in a double anyway; min and h cost one more rounding, which writing
// verifies by reading back.
#include "sim/base/quantity_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/base/names.hpp"
#include "sim/base/reader.hpp"

namespace plansim {

namespace {

__extension__ using Wide = unsigned __int128;

enum class Dimension { bytes, time, byte_rate, flop_rate, flops, frequency, power, energy, temperature };

struct Unit {
    Dimension dimension;
    std::string name;
    int exponent = 0;     // of ten
    double scale = 1;     // on top of it: powers of 1024, 1/8 of bits, 60, 3600
    bool written = true;  // false for a second spelling
};

struct DimensionText {
    const char* noun;     // "expected a bandwidth"
    const char* example;  // unit of hints for a missing unit
    const char* base;     // the unit without prefix
    const char* typical;  // a complete example
};

const DimensionText& text_of(Dimension dimension) {
    static constexpr std::array<DimensionText, 9> kTexts = {{
        {"a size in bytes", "GiB", "B", "80 GiB"},
        {"a time", "us", "s", "2.5 us"},
        {"a bandwidth", "Gbps", "B/s", "400 Gbps"},
        {"a compute rate", "TFLOPS", "FLOPS", "989 TFLOPS"},
        {"an amount of computation", "GFLOP", "FLOP", "5 GFLOP"},
        {"a frequency", "GHz", "Hz", "1.41 GHz"},
        {"a power", "W", "W", "700 W"},
        {"an energy", "J", "J", "5 J"},
        {"a temperature", "C", "C", "35 C"},
    }};
    return kTexts[static_cast<std::size_t>(dimension)];
}

template <class T>
constexpr Dimension dimension_of();
template <>
constexpr Dimension dimension_of<Bytes>() {
    return Dimension::bytes;
}
template <>
constexpr Dimension dimension_of<Seconds>() {
    return Dimension::time;
}
template <>
constexpr Dimension dimension_of<BytesPerSecond>() {
    return Dimension::byte_rate;
}
template <>
constexpr Dimension dimension_of<FlopsPerSecond>() {
    return Dimension::flop_rate;
}
template <>
constexpr Dimension dimension_of<Flops>() {
    return Dimension::flops;
}
template <>
constexpr Dimension dimension_of<Hertz>() {
    return Dimension::frequency;
}
template <>
constexpr Dimension dimension_of<Watts>() {
    return Dimension::power;
}
template <>
constexpr Dimension dimension_of<Joules>() {
    return Dimension::energy;
}
template <>
constexpr Dimension dimension_of<Celsius>() {
    return Dimension::temperature;
}

/// All units; within a dimension the one without prefix comes first.
std::vector<Unit> make_units() {
    std::vector<Unit> units;
    const auto decimal = [&](Dimension dimension, const std::string& base, std::string_view prefixes, double scale,
                             bool written) {
        units.push_back({dimension, base, 0, scale, written});
        for (const char prefix : prefixes) {
            const std::size_t power = std::string_view("kMGTPE").find(prefix);
            const int exponent = prefix == 'm' ? -3 : 3 * (static_cast<int>(power) + 1);
            units.push_back({dimension, prefix + base, exponent, scale, written});
        }
    };
    const auto binary = [&](Dimension dimension, const std::string& base) {
        double scale = 1;
        for (const char prefix : std::string_view("KMGTP"))
            units.push_back({dimension, prefix + ("i" + base), 0, scale *= 1024, true});
    };
    decimal(Dimension::bytes, "B", "kMGTP", 1, true);
    binary(Dimension::bytes, "B");
    units.push_back({Dimension::time, "s"});
    units.push_back({Dimension::time, "ms", -3});
    units.push_back({Dimension::time, "us", -6});
    units.push_back({Dimension::time, "ns", -9});
    units.push_back({Dimension::time, "min", 0, 60});
    units.push_back({Dimension::time, "h", 0, 3600});
    decimal(Dimension::byte_rate, "B/s", "kMGTP", 1, true);
    binary(Dimension::byte_rate, "B/s");
    decimal(Dimension::byte_rate, "bps", "kMGTP", 0.125, true);
    decimal(Dimension::flop_rate, "FLOPS", "kMGTPE", 1, true);
    decimal(Dimension::flop_rate, "FLOP/s", "kMGTPE", 1, false);
    decimal(Dimension::flops, "FLOP", "kMGTPE", 1, true);
    decimal(Dimension::frequency, "Hz", "kMG", 1, true);
    decimal(Dimension::power, "W", "mkM", 1, true);
    decimal(Dimension::energy, "J", "kM", 1, true);
    units.push_back({Dimension::temperature, "C"});
    return units;
}

const std::vector<Unit>& units() {
    static const std::vector<Unit> all = make_units();
    return all;
}

const Unit* find_unit(std::string_view name, std::optional<Dimension> dimension = std::nullopt) {
    for (const Unit& unit : units())
        if (unit.name == name && (!dimension || unit.dimension == *dimension)) return &unit;
    return nullptr;
}

// ---- numbers -------------------------------------------------------------------------------------------------------

/// (-1)^negative x digits x 10^exponent. Digits without leading zeros ("0" for zero).
struct Decimal {
    bool negative = false;
    std::string digits;
    int exponent = 0;
};

/// A number at the start of a text and where it ended.
struct Scanned {
    Decimal number;
    std::size_t length = 0;
    bool leading_zero = false;  // as in 010, which may mean eight elsewhere
    bool whole = true;          // neither a point nor an exponent
};

bool is_digit(std::string_view text, std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r\n";
    const std::size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// The exponent of "e-12" at `at`, if there is one; moves `at` behind it. Absurd ones become out of range for any use.
int scan_exponent(std::string_view text, std::size_t& at) {
    if (at >= text.size() || (text[at] != 'e' && text[at] != 'E')) return 0;
    const bool has_sign = at + 1 < text.size() && (text[at + 1] == '-' || text[at + 1] == '+');
    const bool negative = has_sign && text[at + 1] == '-';
    std::size_t end = at + (has_sign ? 2U : 1U);
    if (!is_digit(text, end)) return 0;  // a unit: 5 EFLOPS
    int exponent = 0;
    for (; is_digit(text, end); ++end)
        exponent = std::min(exponent * 10 + (text[end] - '0'), 1'000'000);
    at = end;
    return negative ? -exponent : exponent;
}

std::optional<Scanned> scan_number(std::string_view text) {
    Scanned result;
    std::size_t at = 0;
    if (text.starts_with('-')) {
        result.number.negative = true;
        ++at;
    }
    if (!is_digit(text, at)) return std::nullopt;
    result.leading_zero = text[at] == '0' && is_digit(text, at + 1);
    std::string& digits = result.number.digits;
    for (; is_digit(text, at); ++at)
        digits += text[at];
    std::size_t decimals = 0;
    if (at < text.size() && text[at] == '.' && is_digit(text, at + 1)) {
        result.whole = false;
        for (++at; is_digit(text, at); ++at, ++decimals)
            digits += text[at];
    }
    const std::size_t before_exponent = at;
    const int exponent = scan_exponent(text, at);
    if (at != before_exponent) result.whole = false;
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
    while (decimals > 0 && digits.size() > 1 && digits.back() == '0') {
        digits.pop_back();
        --decimals;
    }
    result.number.exponent = exponent - static_cast<int>(std::min<std::size_t>(decimals, 100'000'000));
    result.length = at;
    return result;
}

/// The nearest double to number x 10^exponent; nothing if it is beyond the range of doubles.
std::optional<double> to_double(const Decimal& number, int exponent = 0) {
    if (number.digits == "0") return number.negative ? -0.0 : 0.0;
    const std::string text =
        fmt::format("{}{}e{}", number.negative ? "-" : "", number.digits, number.exponent + exponent);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
    return value;
}

enum class WholeProblem { none, fraction, too_large };

/// number x 10^exponent x scale as an exact integer; scale is a power of two. 128 bits hold every intermediate value:
/// 23 digits (below 2^77) x 1024^5. More digits count as a fraction, though they could be a few bytes given in PiB.
std::pair<std::int64_t, WholeProblem> to_whole(Decimal number, int exponent, std::uint64_t scale) {
    constexpr auto kMost = static_cast<Wide>(std::numeric_limits<std::int64_t>::max());
    if (number.digits == "0") return {0, WholeProblem::none};
    exponent += number.exponent;
    while (number.digits.back() == '0') {
        number.digits.pop_back();
        ++exponent;
    }
    const auto digits = static_cast<int>(std::min<std::size_t>(number.digits.size(), 1'000'000));
    if (digits + exponent > 19) return {0, WholeProblem::too_large};
    // To be whole, the digits must hold a factor of 5 for each decimal place: 5^34 has more than 23 digits.
    if (digits > 23 || exponent < -33) return {0, WholeProblem::fraction};
    Wide value = 0;
    for (const char digit : number.digits)
        value = value * 10 + static_cast<unsigned>(digit - '0');
    for (; exponent > 0; --exponent)
        value *= 10;
    value *= scale;
    Wide divisor = 1;
    for (; exponent < 0; ++exponent)
        divisor *= 10;
    if (value % divisor != 0) return {0, WholeProblem::fraction};
    value /= divisor;
    if (value > kMost + (number.negative ? 1U : 0U)) return {0, WholeProblem::too_large};
    // Through unsigned arithmetic, since the most negative value has no positive counterpart.
    const auto bits = static_cast<std::uint64_t>(value);
    return {static_cast<std::int64_t>(number.negative ? ~bits + 1U : bits), WholeProblem::none};
}

/// True for the spellings of YAML and C of values that are no finite numbers: .nan, NaN, -.inf, infinity.
bool is_not_finite_word(std::string_view text) {
    std::string word;
    for (const char letter : text) {
        if (std::isspace(static_cast<unsigned char>(letter)) != 0 || word.size() > 10) break;
        word += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
    std::string_view rest = word;
    if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
    if (rest.starts_with('.')) rest.remove_prefix(1);
    return rest == "nan" || rest == "inf" || rest == "infinity";
}

std::string did_you_mean(const std::string& text) {
    return "did you mean '" + text + "'?";
}

QuantityProblem leading_zero_problem(std::string_view text) {
    const bool negative = text.starts_with('-');
    std::string_view rest = text.substr(negative ? 1 : 0);
    while (rest.size() > 1 && rest[0] == '0' && is_digit(rest, 1))
        rest.remove_prefix(1);
    return {"leading zero in " + in_quotes(text),
            did_you_mean((negative ? "-" : "") + std::string(rest.substr(0, 60)))};
}

// ---- reading quantities --------------------------------------------------------------------------------------------

std::string lower(std::string_view text) {
    std::string result;
    for (const char letter : text)
        result += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    return result;
}

/// The unit of this dimension that differs only in case, the one with the fewest differences first ("" if none).
std::string same_but_for_case(std::string_view name, Dimension dimension) {
    std::string best;
    std::size_t best_differences = name.size() + 1;
    for (const Unit& unit : units()) {
        if (unit.dimension != dimension || lower(unit.name) != lower(name)) continue;
        std::size_t differences = 0;
        for (std::size_t at = 0; at < name.size(); ++at)
            if (unit.name[at] != name[at]) ++differences;
        if (differences < best_differences) {
            best_differences = differences;
            best = unit.name;
        }
    }
    return best;
}

/// Spells that people use for a unit of this dimension, rewritten as ours; the prefix in front stays.
std::string respelled(std::string_view name, Dimension dimension) {
    struct Slip {
        Dimension dimension;
        std::string_view ending;
        std::string_view ours;
    };
    // For each dimension longer endings first. "Bps" is case-sensitive: that capital B surely means bytes.
    static constexpr Slip kSlips[] = {
        {Dimension::byte_rate, "Bps", "B/s"},
        {Dimension::byte_rate, "bits/s", "bps"},
        {Dimension::byte_rate, "bit/s", "bps"},
        {Dimension::byte_rate, "b/s", "bps"},
        {Dimension::byte_rate, "B", "B/s"},
        {Dimension::byte_rate, "b", "bps"},
        {Dimension::byte_rate, "bytes/s", "B/s"},
        {Dimension::byte_rate, "byte/s", "B/s"},
        {Dimension::bytes, "B/s", "B"},
        {Dimension::bytes, "bytes", "B"},
        {Dimension::bytes, "byte", "B"},
        {Dimension::bytes, "i", "iB"},
        {Dimension::flop_rate, "FLOPs/s", "FLOPS"},
        {Dimension::flop_rate, "FLOP", "FLOPS"},
        {Dimension::flop_rate, "F", "FLOPS"},
        {Dimension::flops, "FLOPs", "FLOP"},
        {Dimension::flops, "FLOPS", "FLOP"},
        {Dimension::flops, "FLOP/s", "FLOP"},
        {Dimension::time, "seconds", "s"},
        {Dimension::time, "second", "s"},
        {Dimension::time, "secs", "s"},
        {Dimension::time, "sec", "s"},
        {Dimension::time, "\u00b5s", "us"},
        {Dimension::time, "\u03bcs", "us"},
        {Dimension::time, "minutes", "min"},
        {Dimension::time, "minute", "min"},
        {Dimension::time, "mins", "min"},
        {Dimension::time, "hours", "h"},
        {Dimension::time, "hour", "h"},
        {Dimension::time, "hrs", "h"},
        {Dimension::time, "hr", "h"},
        {Dimension::power, "watts", "W"},
        {Dimension::power, "watt", "W"},
        {Dimension::energy, "joules", "J"},
        {Dimension::energy, "joule", "J"},
        {Dimension::temperature, "\u00b0C", "C"},
        {Dimension::temperature, "degC", "C"},
        {Dimension::temperature, "celsius", "C"},
    };
    for (const Slip& slip : kSlips) {
        if (slip.dimension != dimension || !name.ends_with(slip.ending)) continue;
        std::string candidate = std::string(name.substr(0, name.size() - slip.ending.size())).append(slip.ours);
        if (find_unit(candidate, dimension) != nullptr) return candidate;
        std::string other_case = same_but_for_case(candidate, dimension);
        if (!other_case.empty()) return other_case;
    }
    return "";
}

/// True for a unit of any dimension, in any case: then nothing is misspelled, and the nearest name would mislead.
bool is_unit_of_any(std::string_view name) {
    return std::any_of(units().begin(), units().end(),
                       [&](const Unit& unit) { return lower(unit.name) == lower(name); });
}

/// The unit of this dimension that was probably meant, or "".
std::string probable_unit(std::string_view name, Dimension dimension) {
    if (name.size() > 20) return "";
    std::string meant = respelled(name, dimension);
    if (meant.empty()) meant = same_but_for_case(name, dimension);
    if (meant.empty() && name.size() == 1) {  // only a prefix
        const std::string base = dimension == Dimension::byte_rate ? "bps" : text_of(dimension).base;
        meant = same_but_for_case(std::string(name) + base, dimension);
    }
    if (meant.empty() && name.size() >= 3 && !is_unit_of_any(name)) {
        std::vector<std::string> names;
        for (const Unit& unit : units())
            if (unit.dimension == dimension) names.push_back(unit.name);
        meant = nearest_name(name, names);
    }
    return meant;
}

std::string typical_hint(Dimension dimension) {
    return fmt::format("write it like '{}'", text_of(dimension).typical);
}

struct NumberWithUnit {
    Decimal number;
    const Unit* unit = nullptr;
};

QuantityProblem unit_problem(std::string_view text, std::string_view number, std::string_view unit,
                             Dimension dimension) {
    const std::string meant = probable_unit(unit, dimension);
    const std::string hint =
        meant.empty() ? typical_hint(dimension) : did_you_mean(fmt::format("{} {}", number.substr(0, 40), meant));
    if (find_unit(unit) != nullptr)
        return {fmt::format("{} is not {}", in_quotes(text), text_of(dimension).noun), hint};
    const bool looks_like_unit = std::isalpha(static_cast<unsigned char>(unit[0])) != 0 || (unit[0] & 0x80) != 0;
    if (!looks_like_unit) return {fmt::format("expected {}, found {}", text_of(dimension).noun, in_quotes(text)), hint};
    return {fmt::format("unknown unit {} in {}", in_quotes(unit), in_quotes(text)), hint};
}

std::variant<NumberWithUnit, QuantityProblem> split_quantity(std::string_view whole_text, Dimension dimension) {
    const std::string_view text = trimmed(whole_text);
    if (is_not_finite_word(text)) return QuantityProblem{in_quotes(text) + " is not a number", typical_hint(dimension)};
    const auto scanned = scan_number(text);
    if (!scanned)
        return QuantityProblem{fmt::format("expected {}, found {}", text_of(dimension).noun, in_quotes(text)),
                               typical_hint(dimension)};
    if (scanned->leading_zero) return leading_zero_problem(text);
    const std::string_view number = text.substr(0, scanned->length);
    const std::string_view name = trimmed(text.substr(scanned->length));
    if (name.empty())
        return QuantityProblem{fmt::format("missing unit in {}", in_quotes(text)),
                               did_you_mean(fmt::format("{} {}", number.substr(0, 40), text_of(dimension).example))};
    const Unit* unit = find_unit(name, dimension);
    if (unit == nullptr) return unit_problem(text, number, name, dimension);
    return NumberWithUnit{scanned->number, unit};
}

ParsedQuantity<Bytes> convert(const NumberWithUnit& quantity, std::string_view text, Bytes*) {
    const auto scale = static_cast<std::uint64_t>(quantity.unit->scale);
    const auto [bytes, problem] = to_whole(quantity.number, quantity.unit->exponent, scale);
    if (problem == WholeProblem::none) return Bytes(bytes);
    if (problem == WholeProblem::too_large) return QuantityProblem{in_quotes(text) + " is out of range", ""};
    const auto nearest = to_double(quantity.number, quantity.unit->exponent);
    std::string hint;
    if (nearest && std::abs(*nearest) * quantity.unit->scale < 1e15)
        hint = did_you_mean(to_text(Bytes::rounded(*nearest * quantity.unit->scale)));
    return QuantityProblem{in_quotes(text) + " is not a whole number of bytes", hint};
}

template <class T>
ParsedQuantity<T> convert(const NumberWithUnit& quantity, std::string_view text, T*) {
    const auto number = to_double(quantity.number, quantity.unit->exponent);
    if (!number || !std::isfinite(*number * quantity.unit->scale))
        return QuantityProblem{in_quotes(text) + " is out of range", ""};
    return T(*number * quantity.unit->scale);
}

// ---- writing -------------------------------------------------------------------------------------------------------

/// The shortest digits that read back to a finite value.
Decimal shortest_digits(double value) {
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
    return scan_number(std::string_view(buffer, static_cast<std::size_t>(end - buffer)))->number;
}

/// Without an exponent if that takes at most 12 characters, "-1.5e-30" otherwise.
std::string decimal_text(Decimal number) {
    while (number.digits.size() > 1 && number.digits.back() == '0') {
        number.digits.pop_back();
        ++number.exponent;
    }
    const std::string sign = number.negative ? "-" : "";
    if (number.digits == "0") return sign + "0";
    const int count = static_cast<int>(number.digits.size());
    const int before_point = count + number.exponent;
    std::string plain = number.digits;
    if (number.exponent >= 0 && before_point <= 25)
        plain.append(static_cast<std::size_t>(number.exponent), '0');
    else if (before_point > 0 && before_point < count)
        plain.insert(static_cast<std::size_t>(before_point), ".");
    else if (before_point <= 0 && before_point > -25)
        plain = "0." + std::string(static_cast<std::size_t>(-before_point), '0') + plain;
    else
        plain.clear();
    std::string scientific = number.digits;
    if (count > 1) scientific.insert(1, ".");
    scientific += fmt::format("e{}", before_point - 1);
    const bool short_enough = !plain.empty() && (plain.size() <= 12 || plain.size() <= scientific.size());
    return sign + (short_enough ? plain : scientific);
}

/// The number that, followed by the unit, reads as `value`.
Decimal in_unit(double value, const Unit& unit) {
    Decimal number = shortest_digits(value / unit.scale);
    number.exponent -= unit.exponent;
    return number;
}

/// Bytes beyond 2^53 have no double, so whole multiples are divided as integers.
Decimal in_unit(Bytes value, const Unit& unit) {
    const auto scale = static_cast<std::int64_t>(unit.scale);
    if (value.value() % scale != 0) return in_unit(value.as_double(), unit);
    Decimal number = scan_number(fmt::format("{}", value.value() / scale))->number;
    number.exponent -= unit.exponent;
    return number;
}

Decimal in_unit(auto value, const Unit& unit) {
    return in_unit(value.value(), unit);
}

double raw(Bytes value) {
    return value.as_double();
}
double raw(auto value) {
    return value.value();
}

/// Among texts of equal length: bytes before bits, "100 Gbps" before "0.1 Tbps", then the larger unit.
bool preferred(const std::string& text, const Unit& unit, const std::string& other_text, const Unit& other) {
    const bool bits = unit.scale < 1, other_bits = other.scale < 1;
    if (bits != other_bits) return other_bits;
    const bool below_one = text.starts_with("0."), other_below_one = other_text.starts_with("0.");
    if (below_one != other_below_one) return other_below_one;
    return unit.scale * std::pow(10, unit.exponent) > other.scale * std::pow(10, other.exponent);
}

/// Shortest text over all units that reads back to the same value.
template <class T>
std::string shortest_text(T value) {
    const Dimension dimension = dimension_of<T>();
    if (raw(value) == 0 || !std::isfinite(raw(value))) return fmt::format("{} {}", raw(value), text_of(dimension).base);
    std::string best;
    const Unit* best_unit = nullptr;
    for (const Unit& unit : units()) {
        if (unit.dimension != dimension || !unit.written || !std::isfinite(raw(value) / unit.scale)) continue;
        std::string text = decimal_text(in_unit(value, unit)) + " " + unit.name;
        if (best_unit != nullptr && text.size() > best.size()) continue;
        if (best_unit != nullptr && text.size() == best.size() && !preferred(text, unit, best, *best_unit)) continue;
        const auto back = parse_quantity<T>(text);
        if (!std::holds_alternative<T>(back) || std::get<T>(back) != value) continue;
        best = std::move(text);
        best_unit = &unit;
    }
    return best;
}

struct HumanUnit {
    double factor;
    const char* name;
};

/// Three significant digits in the largest of the units (given from small to large) that leaves at least one of it.
std::string human(double value, std::span<const HumanUnit> scale) {
    if (value == 0 || !std::isfinite(value)) return fmt::format("{:.3g} {}", value, scale[0].name);
    std::string text;
    for (const HumanUnit& unit : scale) {
        const double rounded = *to_double(scan_number(fmt::format("{:.3g}", value / unit.factor))->number);
        if (!text.empty() && std::abs(rounded) < 1) break;
        text = fmt::format("{} {}", to_text(rounded), unit.name);
    }
    return text;
}

}  // namespace

template <class T>
ParsedQuantity<T> parse_quantity(std::string_view text) {
    const auto quantity = split_quantity(text, dimension_of<T>());
    if (const auto* problem = std::get_if<QuantityProblem>(&quantity)) return *problem;
    return convert(std::get<NumberWithUnit>(quantity), trimmed(text), static_cast<T*>(nullptr));
}

template ParsedQuantity<Bytes> parse_quantity<Bytes>(std::string_view);
template ParsedQuantity<Seconds> parse_quantity<Seconds>(std::string_view);
template ParsedQuantity<BytesPerSecond> parse_quantity<BytesPerSecond>(std::string_view);
template ParsedQuantity<FlopsPerSecond> parse_quantity<FlopsPerSecond>(std::string_view);
template ParsedQuantity<Flops> parse_quantity<Flops>(std::string_view);
template ParsedQuantity<Hertz> parse_quantity<Hertz>(std::string_view);
template ParsedQuantity<Watts> parse_quantity<Watts>(std::string_view);
template ParsedQuantity<Joules> parse_quantity<Joules>(std::string_view);
template ParsedQuantity<Celsius> parse_quantity<Celsius>(std::string_view);

ParsedQuantity<double> parse_number(std::string_view whole_text) {
    const std::string_view text = trimmed(whole_text);
    if (is_not_finite_word(text)) return QuantityProblem{in_quotes(text) + " is not a number", ""};
    const auto scanned = scan_number(text);
    if (!scanned || scanned->length != text.size())
        return QuantityProblem{"expected a number, found " + in_quotes(text), ""};
    if (scanned->leading_zero) return leading_zero_problem(text);
    const auto value = to_double(scanned->number);
    if (!value) return QuantityProblem{in_quotes(text) + " is out of range", ""};
    return *value;
}

ParsedQuantity<std::int64_t> parse_integer(std::string_view whole_text) {
    const std::string_view text = trimmed(whole_text);
    if (is_not_finite_word(text)) return QuantityProblem{in_quotes(text) + " is not a number", ""};
    const auto scanned = scan_number(text);
    if (!scanned || scanned->length != text.size())
        return QuantityProblem{"expected an integer, found " + in_quotes(text), ""};
    if (scanned->leading_zero) return leading_zero_problem(text);
    const auto [value, problem] = to_whole(scanned->number, 0, 1);
    if (!scanned->whole)
        return QuantityProblem{"expected an integer, found " + in_quotes(text),
                               problem == WholeProblem::none ? did_you_mean(fmt::format("{}", value)) : ""};
    if (problem != WholeProblem::none) return QuantityProblem{in_quotes(text) + " is out of range for an integer", ""};
    return value;
}

std::string to_text(Bytes value) {
    return shortest_text(value);
}
std::string to_text(Seconds value) {
    return shortest_text(value);
}
std::string to_text(BytesPerSecond value) {
    return shortest_text(value);
}
std::string to_text(FlopsPerSecond value) {
    return shortest_text(value);
}
std::string to_text(Flops value) {
    return shortest_text(value);
}
std::string to_text(Hertz value) {
    return shortest_text(value);
}
std::string to_text(Watts value) {
    return shortest_text(value);
}
std::string to_text(Joules value) {
    return shortest_text(value);
}
std::string to_text(Celsius value) {
    return shortest_text(value);
}

std::string to_text(double value) {
    if (!std::isfinite(value)) return fmt::format("{}", value);
    return decimal_text(shortest_digits(value));
}

std::string to_human(Bytes value) {
    static constexpr HumanUnit kUnits[] = {{1, "B"},        {0x1p10, "KiB"}, {0x1p20, "MiB"},
                                           {0x1p30, "GiB"}, {0x1p40, "TiB"}, {0x1p50, "PiB"}};
    return human(value.as_double(), kUnits);
}

std::string to_human(Seconds value) {
    static constexpr HumanUnit kShort[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}};
    static constexpr HumanUnit kMinutes[] = {{60, "min"}};
    static constexpr HumanUnit kHours[] = {{3600, "h"}};
    // "90 s" and "90 min" say more than "1.5 min" and "1.5 h"; from two of a unit on it is used.
    const double magnitude = std::abs(value.value());
    if (magnitude == 0 || !std::isfinite(magnitude)) return fmt::format("{:.3g} s", value.value());
    if (magnitude < 120) return human(value.value(), kShort);
    if (magnitude < 7200) return human(value.value(), kMinutes);
    return human(value.value(), kHours);
}

std::string to_human(BytesPerSecond value) {
    static constexpr HumanUnit kUnits[] = {{1, "B/s"},    {1e3, "kB/s"},  {1e6, "MB/s"},
                                           {1e9, "GB/s"}, {1e12, "TB/s"}, {1e15, "PB/s"}};
    return human(value.value(), kUnits);
}

std::string to_human(FlopsPerSecond value) {
    static constexpr HumanUnit kUnits[] = {{1, "FLOPS"},     {1e3, "kFLOPS"},  {1e6, "MFLOPS"}, {1e9, "GFLOPS"},
                                           {1e12, "TFLOPS"}, {1e15, "PFLOPS"}, {1e18, "EFLOPS"}};
    return human(value.value(), kUnits);
}

}  // namespace plansim
