// SPDX-License-Identifier: Apache-2.0
// Numbers and quantities: what is accepted, the exact text of every refusal, and that writing reads back to the same
// bits.
#include "sim/base/quantity_text.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace plansim {
namespace {

template <class T>
T value(std::string_view text) {
    const auto parsed = parse_quantity<T>(text);
    if (const auto* problem = std::get_if<QuantityProblem>(&parsed)) {
        ADD_FAILURE() << text << ": " << problem->message;
        return T{};
    }
    return std::get<T>(parsed);
}

template <class Parsed>
std::string problem_of(const Parsed& parsed) {
    const auto* problem = std::get_if<QuantityProblem>(&parsed);
    if (problem == nullptr) return "no problem";
    return problem->hint.empty() ? problem->message : problem->message + "; " + problem->hint;
}

template <class T>
std::string problem(std::string_view text) {
    return problem_of(parse_quantity<T>(text));
}

TEST(QuantityText, ReadsEveryDimension) {
    EXPECT_EQ(value<Bytes>("80 GiB"), Bytes(85899345920));
    EXPECT_EQ(value<Bytes>("1.5 kB"), Bytes(1500));
    EXPECT_EQ(value<Bytes>("0 B"), Bytes(0));
    EXPECT_EQ(value<Bytes>("-2 MiB"), Bytes(-2097152));
    EXPECT_EQ(value<Seconds>("2.5 us"), Seconds(2.5e-6));
    EXPECT_EQ(value<Seconds>("3 min"), Seconds(180));
    EXPECT_EQ(value<Seconds>("1.5 h"), Seconds(5400));
    EXPECT_EQ(value<BytesPerSecond>("400 Gbps"), BytesPerSecond(50e9));
    EXPECT_EQ(value<BytesPerSecond>("3.35 TB/s"), BytesPerSecond(3.35e12));
    EXPECT_EQ(value<BytesPerSecond>("1 GiB/s"), BytesPerSecond(1073741824));
    EXPECT_EQ(value<BytesPerSecond>("8 bps"), BytesPerSecond(1));
    EXPECT_EQ(value<FlopsPerSecond>("989 TFLOPS"), FlopsPerSecond(989e12));
    EXPECT_EQ(value<FlopsPerSecond>("989 TFLOP/s"), FlopsPerSecond(989e12));
    EXPECT_EQ(value<FlopsPerSecond>("5 EFLOPS"), FlopsPerSecond(5e18));
    EXPECT_EQ(value<Flops>("7 GFLOP"), Flops(7e9));
    EXPECT_EQ(value<Hertz>("1.41 GHz"), Hertz(1.41e9));
    EXPECT_EQ(value<Watts>("700 W"), Watts(700));
    EXPECT_EQ(value<Watts>("1 mW"), Watts(1e-3));
    EXPECT_EQ(value<Watts>("1 MW"), Watts(1e6));
    EXPECT_EQ(value<Joules>("2 kJ"), Joules(2000));
    EXPECT_EQ(value<Celsius>("35 C"), Celsius(35));
    EXPECT_EQ(value<Celsius>("-5.5 C"), Celsius(-5.5));
}

TEST(QuantityText, BlanksAreOptional) {
    EXPECT_EQ(value<BytesPerSecond>("400Gbps"), BytesPerSecond(50e9));
    EXPECT_EQ(value<BytesPerSecond>("  400 \t Gbps "), BytesPerSecond(50e9));
    EXPECT_EQ(value<Seconds>("1e3s"), Seconds(1000));
    EXPECT_EQ(value<FlopsPerSecond>("5EFLOPS"), FlopsPerSecond(5e18));
}

TEST(QuantityText, APrefixRoundsOnlyOnce) {
    // 2.3 * 1e-6 differs from the double nearest to 0.0000023 in its last bit.
    EXPECT_NE(2.3 * 1e-6, 2.3e-6);
    EXPECT_EQ(value<Seconds>("2.3 us").value(), 2.3e-6);
}

TEST(QuantityText, ABareNumberLacksItsUnit) {
    EXPECT_EQ(problem<Bytes>("400"), "missing unit in '400'; did you mean '400 GiB'?");
    EXPECT_EQ(problem<Seconds>("400"), "missing unit in '400'; did you mean '400 us'?");
    EXPECT_EQ(problem<BytesPerSecond>("400"), "missing unit in '400'; did you mean '400 Gbps'?");
    EXPECT_EQ(problem<FlopsPerSecond>("4.5"), "missing unit in '4.5'; did you mean '4.5 TFLOPS'?");
    EXPECT_EQ(problem<Flops>("400"), "missing unit in '400'; did you mean '400 GFLOP'?");
    EXPECT_EQ(problem<Hertz>("400"), "missing unit in '400'; did you mean '400 GHz'?");
    EXPECT_EQ(problem<Watts>("400"), "missing unit in '400'; did you mean '400 W'?");
    EXPECT_EQ(problem<Joules>("400"), "missing unit in '400'; did you mean '400 J'?");
    EXPECT_EQ(problem<Celsius>("-4"), "missing unit in '-4'; did you mean '-4 C'?");
}

TEST(QuantityText, SlipsInAUnitGetAHint) {
    EXPECT_EQ(problem<BytesPerSecond>("400 gbps"), "unknown unit 'gbps' in '400 gbps'; did you mean '400 Gbps'?");
    EXPECT_EQ(problem<BytesPerSecond>("400 GBps"), "unknown unit 'GBps' in '400 GBps'; did you mean '400 GB/s'?");
    EXPECT_EQ(problem<BytesPerSecond>("400 Gb/s"), "unknown unit 'Gb/s' in '400 Gb/s'; did you mean '400 Gbps'?");
    EXPECT_EQ(problem<BytesPerSecond>("400 Gbit/s"), "unknown unit 'Gbit/s' in '400 Gbit/s'; did you mean '400 Gbps'?");
    EXPECT_EQ(problem<BytesPerSecond>("400 G"), "unknown unit 'G' in '400 G'; did you mean '400 Gbps'?");
    EXPECT_EQ(problem<Bytes>("80 gb"), "unknown unit 'gb' in '80 gb'; did you mean '80 GB'?");
    EXPECT_EQ(problem<Bytes>("80 Gi"), "unknown unit 'Gi' in '80 Gi'; did you mean '80 GiB'?");
    EXPECT_EQ(problem<Bytes>("4 KB"), "unknown unit 'KB' in '4 KB'; did you mean '4 kB'?");
    EXPECT_EQ(problem<FlopsPerSecond>("9 tflops"), "unknown unit 'tflops' in '9 tflops'; did you mean '9 TFLOPS'?");
    EXPECT_EQ(problem<FlopsPerSecond>("9 TFLPOS"), "unknown unit 'TFLPOS' in '9 TFLPOS'; did you mean '9 TFLOPS'?");
    EXPECT_EQ(problem<Seconds>("5 \u00b5s"), "unknown unit '\u00b5s' in '5 \u00b5s'; did you mean '5 us'?");
    EXPECT_EQ(problem<Seconds>("5 usec"), "unknown unit 'usec' in '5 usec'; did you mean '5 us'?");
    EXPECT_EQ(problem<Watts>("5 mw"), "unknown unit 'mw' in '5 mw'; did you mean '5 mW'?");
    EXPECT_EQ(problem<Celsius>("35 \u00b0C"), "unknown unit '\u00b0C' in '35 \u00b0C'; did you mean '35 C'?");
    EXPECT_EQ(problem<Celsius>("300 K"), "unknown unit 'K' in '300 K'; write it like '35 C'");
    EXPECT_EQ(problem<Bytes>("8 x y"), "unknown unit 'x y' in '8 x y'; write it like '80 GiB'");
}

TEST(QuantityText, AUnitOfAnotherDimensionIsNamed) {
    EXPECT_EQ(problem<BytesPerSecond>("80 GiB"), "'80 GiB' is not a bandwidth; did you mean '80 GiB/s'?");
    EXPECT_EQ(problem<Bytes>("80 GB/s"), "'80 GB/s' is not a size in bytes; did you mean '80 GB'?");
    EXPECT_EQ(problem<FlopsPerSecond>("5 TFLOP"), "'5 TFLOP' is not a compute rate; did you mean '5 TFLOPS'?");
    EXPECT_EQ(problem<Flops>("5 TFLOPS"), "'5 TFLOPS' is not an amount of computation; did you mean '5 TFLOP'?");
    EXPECT_EQ(problem<Bytes>("90 min"), "'90 min' is not a size in bytes; write it like '80 GiB'");
    EXPECT_EQ(problem<Seconds>("5 W"), "'5 W' is not a time; write it like '2.5 us'");
    EXPECT_EQ(problem<Hertz>("5 s"), "'5 s' is not a frequency; write it like '1.41 GHz'");
    EXPECT_EQ(problem<Watts>("5 J"), "'5 J' is not a power; write it like '700 W'");
    EXPECT_EQ(problem<Joules>("5 W"), "'5 W' is not an energy; write it like '5 J'");
    EXPECT_EQ(problem<Celsius>("5 W"), "'5 W' is not a temperature; write it like '35 C'");
}

TEST(QuantityText, WhatIsNoNumberIsRefused) {
    EXPECT_EQ(problem<Seconds>("fast"), "expected a time, found 'fast'; write it like '2.5 us'");
    EXPECT_EQ(problem<Seconds>(""), "expected a time, found ''; write it like '2.5 us'");
    EXPECT_EQ(problem<Seconds>("+5 s"), "expected a time, found '+5 s'; write it like '2.5 us'");
    EXPECT_EQ(problem<Bytes>("1,000 GB"), "expected a size in bytes, found '1,000 GB'; write it like '80 GiB'");
    EXPECT_EQ(problem<Bytes>("1_000 GB"), "expected a size in bytes, found '1_000 GB'; write it like '80 GiB'");
    EXPECT_EQ(problem<Seconds>("nan"), "'nan' is not a number; write it like '2.5 us'");
    EXPECT_EQ(problem<Seconds>(".NaN s"), "'.NaN s' is not a number; write it like '2.5 us'");
    EXPECT_EQ(problem<Seconds>("-.inf"), "'-.inf' is not a number; write it like '2.5 us'");
    EXPECT_EQ(problem<Bytes>("010 GB"), "leading zero in '010 GB'; did you mean '10 GB'?");
    EXPECT_EQ(problem<Bytes>("0x10 B"), "unknown unit 'x10 B' in '0x10 B'; write it like '80 GiB'");
}

TEST(QuantityText, BytesAreWholeAndFitIn64Bits) {
    EXPECT_EQ(value<Bytes>("9223372036854775807 B"), Bytes(std::numeric_limits<std::int64_t>::max()));
    EXPECT_EQ(value<Bytes>("-9223372036854775808 B"), Bytes(std::numeric_limits<std::int64_t>::min()));
    EXPECT_EQ(value<Bytes>("0.5 KiB"), Bytes(512));
    EXPECT_EQ(value<Bytes>("1e18 B"), Bytes(1'000'000'000'000'000'000));
    EXPECT_EQ(problem<Bytes>("9223372036854775808 B"), "'9223372036854775808 B' is out of range");
    EXPECT_EQ(problem<Bytes>("8192 PiB"), "'8192 PiB' is out of range");
    EXPECT_EQ(problem<Bytes>("1e999999999999 B"), "'1e999999999999 B' is out of range");
    EXPECT_EQ(problem<Bytes>("1.5 B"), "'1.5 B' is not a whole number of bytes; did you mean '2 B'?");
    EXPECT_EQ(problem<Bytes>("0.1 GiB"), "'0.1 GiB' is not a whole number of bytes; did you mean '107374182 B'?");
    EXPECT_EQ(problem<Bytes>("1e-300 PiB"), "'1e-300 PiB' is not a whole number of bytes; did you mean '0 B'?");
    EXPECT_EQ(problem<Bytes>(std::string(100, '1') + " B"), "'" + std::string(60, '1') + "...' is out of range");
}

TEST(QuantityText, DoublesStayFinite) {
    EXPECT_EQ(problem<Seconds>("1e400 s"), "'1e400 s' is out of range");
    EXPECT_EQ(problem<Seconds>("1e308 h"), "'1e308 h' is out of range");
    EXPECT_EQ(problem<Seconds>("1e-400 s"), "'1e-400 s' is out of range");
    EXPECT_EQ(value<Seconds>("0e999999999 s"), Seconds(0));
}

TEST(QuantityText, ReadsPlainNumbers) {
    EXPECT_EQ(std::get<double>(parse_number("0.1")), 0.1);
    EXPECT_EQ(std::get<double>(parse_number("-1e-12")), -1e-12);
    EXPECT_EQ(std::get<double>(parse_number("1E+3")), 1000);
    EXPECT_EQ(problem_of(parse_number("many")), "expected a number, found 'many'");
    EXPECT_EQ(problem_of(parse_number("5 W")), "expected a number, found '5 W'");
    EXPECT_EQ(problem_of(parse_number(".5")), "expected a number, found '.5'");
    EXPECT_EQ(problem_of(parse_number("5.")), "expected a number, found '5.'");
    EXPECT_EQ(problem_of(parse_number("0x10")), "expected a number, found '0x10'");
    EXPECT_EQ(problem_of(parse_number("nan")), "'nan' is not a number");
    EXPECT_EQ(problem_of(parse_number(".inf")), "'.inf' is not a number");
    EXPECT_EQ(problem_of(parse_number("00.5")), "leading zero in '00.5'; did you mean '0.5'?");
    EXPECT_EQ(problem_of(parse_number("1e999")), "'1e999' is out of range");
}

TEST(QuantityText, ReadsPlainIntegers) {
    EXPECT_EQ(std::get<std::int64_t>(parse_integer("-42")), -42);
    EXPECT_EQ(std::get<std::int64_t>(parse_integer("1000")), 1000);
    EXPECT_EQ(std::get<std::int64_t>(parse_integer("9223372036854775807")), std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(std::get<std::int64_t>(parse_integer("-9223372036854775808")), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(problem_of(parse_integer("many")), "expected an integer, found 'many'");
    EXPECT_EQ(problem_of(parse_integer("")), "expected an integer, found ''");
    EXPECT_EQ(problem_of(parse_integer("010")), "leading zero in '010'; did you mean '10'?");
    EXPECT_EQ(problem_of(parse_integer("1e3")), "expected an integer, found '1e3'; did you mean '1000'?");
    EXPECT_EQ(problem_of(parse_integer("1.0")), "expected an integer, found '1.0'; did you mean '1'?");
    EXPECT_EQ(problem_of(parse_integer("1.5")), "expected an integer, found '1.5'");
    EXPECT_EQ(problem_of(parse_integer("nan")), "'nan' is not a number");
    EXPECT_EQ(problem_of(parse_integer("9223372036854775808")), "'9223372036854775808' is out of range for an integer");
    EXPECT_EQ(problem_of(parse_integer(std::string(1'000'000, '9'))),
              "'" + std::string(60, '9') + "...' is out of range for an integer");
}

TEST(QuantityText, WritesTheShortestText) {
    EXPECT_EQ(to_text(Bytes(85899345920)), "80 GiB");
    EXPECT_EQ(to_text(Bytes(1000)), "1 kB");
    EXPECT_EQ(to_text(Bytes(1536)), "1536 B");
    EXPECT_EQ(to_text(Bytes(0)), "0 B");
    EXPECT_EQ(to_text(Bytes(std::numeric_limits<std::int64_t>::min())), "-8192 PiB");
    EXPECT_EQ(to_text(BytesPerSecond(50e9)), "50 GB/s");
    EXPECT_EQ(to_text(BytesPerSecond(12.5e9)), "100 Gbps");
    EXPECT_EQ(to_text(BytesPerSecond(3.35e12)), "3.35 TB/s");
    EXPECT_EQ(to_text(Seconds(2.5e-6)), "2.5 us");
    EXPECT_EQ(to_text(Seconds(60)), "60 s");
    EXPECT_EQ(to_text(Seconds(3600)), "1 h");
    EXPECT_EQ(to_text(Seconds(0)), "0 s");
    EXPECT_EQ(to_text(FlopsPerSecond(989.4e12)), "989.4 TFLOPS");
    EXPECT_EQ(to_text(Flops(1e30)), "1e30 FLOP");
    EXPECT_EQ(to_text(Hertz(1.41e9)), "1.41 GHz");
    EXPECT_EQ(to_text(Watts(700)), "700 W");
    EXPECT_EQ(to_text(Joules(2500)), "2.5 kJ");
    EXPECT_EQ(to_text(Celsius(35)), "35 C");
    EXPECT_EQ(to_text(0.1), "0.1");
    EXPECT_EQ(to_text(1e-12), "1e-12");
    EXPECT_EQ(to_text(5.0), "5");
    EXPECT_EQ(to_text(-1234567.5), "-1234567.5");
    EXPECT_EQ(to_text(std::numeric_limits<double>::infinity()), "inf");
}

template <class T>
void expect_round_trip(double number) {
    const std::string text = to_text(T(number));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(value<T>(text).value()), std::bit_cast<std::uint64_t>(number)) << text;
}

TEST(QuantityText, WritingReadsBackToTheSameBits) {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> exponent(-300, 290);
    std::uniform_real_distribution<double> mantissa(-10, 10);
    for (int round = 0; round < 5000; ++round) {
        const double number =
            mantissa(random) * std::pow(10, round % 2 == 0 ? exponent(random) : exponent(random) / 20);
        expect_round_trip<Seconds>(number);
        expect_round_trip<BytesPerSecond>(number);
        expect_round_trip<FlopsPerSecond>(number);
        expect_round_trip<Flops>(number);
        expect_round_trip<Hertz>(number);
        expect_round_trip<Watts>(number);
        expect_round_trip<Joules>(number);
        expect_round_trip<Celsius>(number);
        EXPECT_EQ(std::get<double>(parse_number(to_text(number))), number);
        const auto bytes = static_cast<std::int64_t>(random()) >> (round % 63);
        EXPECT_EQ(value<Bytes>(to_text(Bytes(bytes))).value(), bytes);
        EXPECT_EQ(value<Bytes>(to_text(Bytes(bytes / 1'000'000 * 1'000'000))).value(), bytes / 1'000'000 * 1'000'000);
    }
}

TEST(QuantityText, ExtremeDoublesRoundTrip) {
    using Limits = std::numeric_limits<double>;
    for (const double number : {Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min(), 0.0, -0.0}) {
        expect_round_trip<Seconds>(number);
        expect_round_trip<BytesPerSecond>(number);
        expect_round_trip<Watts>(number);
    }
}

TEST(QuantityText, RoundsForPeople) {
    EXPECT_EQ(to_human(Bytes(76557890000)), "71.3 GiB");
    EXPECT_EQ(to_human(Bytes(0)), "0 B");
    EXPECT_EQ(to_human(Bytes(1023)), "1020 B");
    EXPECT_EQ(to_human(Bytes(1024)), "1 KiB");
    EXPECT_EQ(to_human(Seconds(4.2123)), "4.21 s");
    EXPECT_EQ(to_human(Seconds(0.812)), "812 ms");
    EXPECT_EQ(to_human(Seconds(0.9996)), "1 s");
    EXPECT_EQ(to_human(Seconds(90)), "90 s");
    EXPECT_EQ(to_human(Seconds(600)), "10 min");
    EXPECT_EQ(to_human(Seconds(86400)), "24 h");
    EXPECT_EQ(to_human(Seconds(-0.002)), "-2 ms");
    EXPECT_EQ(to_human(Seconds(0)), "0 s");
    EXPECT_EQ(to_human(Seconds(std::numeric_limits<double>::infinity())), "inf s");
    EXPECT_EQ(to_human(BytesPerSecond(50e9)), "50 GB/s");
    EXPECT_EQ(to_human(FlopsPerSecond(412.34e12)), "412 TFLOPS");
}

}  // namespace
}  // namespace plansim
