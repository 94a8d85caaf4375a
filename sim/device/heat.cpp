// SPDX-License-Identifier: Apache-2.0
#include "sim/device/heat.hpp"

#include <algorithm>
#include <cmath>

namespace plansim {
namespace {

constexpr int kBisections = 50;  // halvings until a bracket of time has no width left in a double
// Samples between which a crossing is looked for, in equal ratios of time: a sum of four exponentials turns round at
// most three times, at times that the time constants (0.1 s to 1 min) spread over three decades.
constexpr int kSamples = 24;
constexpr double kFirstSample = 1e-4;  // of the horizon

}  // namespace

Heat::Heat(const ThermalFigures& thermal, const CoolingFigures& cooling, bool rear)
    : modes_{Mode{thermal.die.resistance, thermal.die.time}, Mode{thermal.package.resistance, thermal.package.time},
             Mode{thermal.sink.resistance, thermal.sink.time},
             Mode{rear ? cooling.rear_coupling : 0, cooling.rear_time, 0, true}},
      inlet_(cooling.inlet) {}

void Heat::advance(Seconds time, Watts own, Watts front) {
    for (Mode& mode : modes_) {
        const double target = (mode.front ? front : own).value();
        mode.power = target + (mode.power - target) * std::exp(-(time / mode.time));
    }
}

void Heat::settle(Watts own, Watts front) {
    for (Mode& mode : modes_)
        mode.power = (mode.front ? front : own).value();
}

Celsius Heat::after(Seconds time, Watts own, Watts front) const {
    Celsius sum = inlet_;
    for (const Mode& mode : modes_) {
        const double target = (mode.front ? front : own).value();
        sum += Celsius(mode.resistance * (target + (mode.power - target) * std::exp(-(time / mode.time))));
    }
    return sum;
}

Celsius Heat::mean(Seconds time, Watts own, Watts front) const {
    if (time <= Seconds(0)) return temperature();
    Celsius sum = inlet_;
    for (const Mode& mode : modes_) {
        const double target = (mode.front ? front : own).value();
        const double steps = time / mode.time;
        sum += Celsius(mode.resistance * (target - (mode.power - target) * std::expm1(-steps) / steps));
    }
    return sum;
}

std::optional<Seconds> Heat::reaches(Celsius limit, Seconds horizon, Watts own, Watts front) const {
    const bool rising = temperature() < limit;
    // Cheap refusal: no mode goes beyond the larger of where it is and where it is driven.
    Celsius bound = inlet_;
    for (const Mode& mode : modes_) {
        const double target = (mode.front ? front : own).value();
        bound += Celsius(mode.resistance * (rising ? std::max(mode.power, target) : std::min(mode.power, target)));
    }
    if (rising ? bound < limit : bound > limit) return std::nullopt;
    const auto across = [&](Seconds time) { return rising == (after(time, own, front) >= limit); };
    Seconds low(0);
    for (int sample = 0; sample <= kSamples; ++sample) {
        Seconds high = horizon * std::pow(kFirstSample, 1 - static_cast<double>(sample) / kSamples);
        if (!across(high)) {
            low = high;
            continue;
        }
        for (int step = 0; step < kBisections; ++step) {
            const Seconds middle = (low + high) / 2;
            (across(middle) ? high : low) = middle;
        }
        return high;
    }
    return std::nullopt;
}

}  // namespace plansim
