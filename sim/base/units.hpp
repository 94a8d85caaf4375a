// SPDX-License-Identifier: Apache-2.0
// Physical quantities as distinct types, so that only meaningful arithmetic compiles.
// Values are held in SI base units (seconds, bytes, FLOPs, watts, joules); Celsius is a temperature on its own scale.
// A multiply-add counts as two FLOPs. Bytes are whole numbers; everything else is a double.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace plansim {

/// A double tagged with its dimension. Sums, differences and scalar multiples keep the dimension; a ratio loses it.
template <class Dimension>
class Quantity {
  public:
    constexpr Quantity() = default;
    constexpr explicit Quantity(double value) : value_(value) {}

    /// The number in the base unit of the dimension.
    [[nodiscard]] constexpr double value() const { return value_; }

    constexpr Quantity& operator+=(Quantity other) {
        value_ += other.value_;
        return *this;
    }
    constexpr Quantity& operator-=(Quantity other) {
        value_ -= other.value_;
        return *this;
    }
    constexpr Quantity& operator*=(double factor) {
        value_ *= factor;
        return *this;
    }
    friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
    friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
    friend constexpr Quantity operator*(Quantity a, double factor) { return Quantity(a.value_ * factor); }
    friend constexpr Quantity operator*(double factor, Quantity a) { return Quantity(a.value_ * factor); }
    friend constexpr Quantity operator/(Quantity a, double divisor) { return Quantity(a.value_ / divisor); }
    friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
    friend constexpr auto operator<=>(Quantity, Quantity) = default;

  private:
    double value_ = 0;
};

using Seconds = Quantity<struct SecondsDimension>;
using BytesPerSecond = Quantity<struct BytesPerSecondDimension>;
using Flops = Quantity<struct FlopsDimension>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondDimension>;
using Hertz = Quantity<struct HertzDimension>;
using Watts = Quantity<struct WattsDimension>;
using Joules = Quantity<struct JoulesDimension>;
using Celsius = Quantity<struct CelsiusDimension>;

/// A whole number of bytes. Scaling by a double rounds to the nearest byte. Sums and products that leave the range of
/// 64 bits stay at its end (9.2 EB): absurd amounts are too large for every device instead of turning negative.
class Bytes {
  public:
    constexpr Bytes() = default;
    constexpr explicit Bytes(std::int64_t value) : value_(value) {}
    /// Nearest whole byte.
    static Bytes rounded(double value) {
        if (value >= 0x1p63) return Bytes(std::numeric_limits<std::int64_t>::max());
        if (value < -0x1p63) return Bytes(std::numeric_limits<std::int64_t>::min());
        return Bytes(std::llround(value));
    }

    [[nodiscard]] constexpr std::int64_t value() const { return value_; }
    [[nodiscard]] constexpr double as_double() const { return static_cast<double>(value_); }

    constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }
    constexpr Bytes& operator-=(Bytes other) { return *this = *this - other; }
    friend constexpr Bytes operator+(Bytes a, Bytes b) {
        std::int64_t sum = 0;
        return Bytes(__builtin_add_overflow(a.value_, b.value_, &sum) ? end_of_range(b.value_ < 0) : sum);
    }
    friend constexpr Bytes operator-(Bytes a, Bytes b) {
        std::int64_t rest = 0;
        return Bytes(__builtin_sub_overflow(a.value_, b.value_, &rest) ? end_of_range(b.value_ > 0) : rest);
    }
    friend Bytes operator*(Bytes a, double factor) { return rounded(a.as_double() * factor); }
    friend Bytes operator*(double factor, Bytes a) { return rounded(a.as_double() * factor); }
    friend Bytes operator/(Bytes a, double divisor) { return rounded(a.as_double() / divisor); }
    friend constexpr double operator/(Bytes a, Bytes b) { return a.as_double() / b.as_double(); }
    friend constexpr auto operator<=>(Bytes, Bytes) = default;

  private:
    static constexpr std::int64_t end_of_range(bool negative) {
        return negative ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
    }
    std::int64_t value_ = 0;
};

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
    return Seconds(amount.as_double() / rate.value());
}
constexpr Seconds operator/(Flops amount, FlopsPerSecond rate) {
    return Seconds(amount.value() / rate.value());
}
constexpr BytesPerSecond operator/(Bytes amount, Seconds time) {
    return BytesPerSecond(amount.as_double() / time.value());
}
constexpr FlopsPerSecond operator/(Flops amount, Seconds time) {
    return FlopsPerSecond(amount.value() / time.value());
}
constexpr Joules operator*(Watts power, Seconds time) {
    return Joules(power.value() * time.value());
}
constexpr Watts operator/(Joules energy, Seconds time) {
    return Watts(energy.value() / time.value());
}

inline constexpr Bytes kGiB{std::int64_t{1} << 30};

}  // namespace plansim
