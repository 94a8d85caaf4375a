// SPDX-License-Identifier: Apache-2.0
// Quantities as text with units: "400 Gbps", "80 GiB", "989 TFLOPS", "2.5 us", "700 W", "1.41 GHz", "35 C".
// b is bit, B is byte; k M G T P = powers of 1000, Ki Mi Gi Ti = powers of 1024 (bytes and rates of bytes only).
// Rates of bytes are written B/s or bps. Writing uses the shortest text that reads back to the same value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "sim/base/units.hpp"

namespace plansim {

/// Why a text is not a quantity, and what was probably meant ("" if there is no good guess).
struct QuantityProblem {
    std::string message;  // e.g. "missing unit in '400'"
    std::string hint;     // e.g. "did you mean '400 Gbps'?"
};

template <class T>
using ParsedQuantity = std::variant<T, QuantityProblem>;

/// Parses a number and a unit of T's dimension. Defined for Bytes, Seconds, BytesPerSecond, FlopsPerSecond, Flops,
/// Hertz, Watts, Joules, Celsius. A bare number, NaN, infinity, an unknown unit, a unit of another dimension or a
/// fraction of a byte is a problem.
template <class T>
ParsedQuantity<T> parse_quantity(std::string_view text);

/// Parses a plain decimal number (no octal, hexadecimal, NaN, infinity or trailing text).
ParsedQuantity<double> parse_number(std::string_view text);
/// Parses a plain decimal integer; '010', '1e3' and '1.0' are problems.
ParsedQuantity<std::int64_t> parse_integer(std::string_view text);

/// Exact text: parse_quantity<T>(to_text(value)) == value, with the largest prefix that keeps it shortest.
std::string to_text(Bytes value);
std::string to_text(Seconds value);
std::string to_text(BytesPerSecond value);
std::string to_text(FlopsPerSecond value);
std::string to_text(Flops value);
std::string to_text(Hertz value);
std::string to_text(Watts value);
std::string to_text(Joules value);
std::string to_text(Celsius value);
/// Shortest decimal text that reads back to the same double, e.g. "0.1", "1e-12", "5".
std::string to_text(double value);

/// Rounded text for people: three significant digits and a prefix, e.g. "71.3 GiB", "4.21 s", "812 ms", "50 GB/s".
std::string to_human(Bytes value);
std::string to_human(Seconds value);
std::string to_human(BytesPerSecond value);
std::string to_human(FlopsPerSecond value);

}  // namespace plansim
