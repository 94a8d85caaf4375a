// SPDX-License-Identifier: Apache-2.0
#include "sim/device/governor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/error.hpp"

namespace plansim {
namespace {

constexpr Celsius kWithoutHeat{60};        // reference temperature of the leakage
constexpr Celsius kRefresh{1};             // move of the die after which leakage is computed again
constexpr Seconds kHorizon{60};            // how far ahead crossings are looked for
constexpr Seconds kCeilingPeriod{0.1};     // of the thermal loop; guess
constexpr double kCeilingStep = 0.02;      // of the highest clock; guess
constexpr Celsius kHysteresis{2};          // below the slow-down temperature the ceiling rises again; guess: 2 to 5 K
constexpr double kHardwareSlowdown = 0.5;  // share of the highest clock; the driver documents "a factor of 2 or more"
constexpr double kAtCap = 1 - 1e-9;        // the mean power has reached the cap but for rounding

}  // namespace

GovernedDevice::GovernedDevice(const PowerFigures& figures, const CoolingFigures& cooling, const GovernorLimits& limits,
                               bool rear)
    : model_(figures.model.value()), thermal_(figures.thermal.value_or(ThermalFigures{})), limits_(limits) {
    if (figures.thermal.has_value()) heat_.emplace(*figures.thermal, cooling, rear);
    totals_.peak_temperature = temperature();
    decide();
    mean_power_ = power_;
}

Celsius GovernedDevice::temperature() const {
    return heat_.has_value() ? heat_->temperature() : kWithoutHeat;
}

void GovernedDevice::advance(Seconds now) {
    PLANSIM_CHECK(now >= now_, "a device cannot go back in time");
    while (next_event_ <= now) {
        integrate(next_event_);
        step_ceilings();
        decide();
    }
    integrate(now);
}

void GovernedDevice::set_load(Seconds now, const DeviceLoad& load) {
    advance(now);
    if (load == load_) return;
    load_ = load;
    decide();
}

void GovernedDevice::set_front(Seconds now, Watts power) {
    advance(now);
    if (power == front_) return;
    front_ = power;
    decide();
}

void GovernedDevice::settle() {
    // Power and temperature raise each other through the leakage; the loop gain is below 0.1.
    constexpr int kRounds = 30;
    for (int round = 0; round < kRounds; ++round) {
        if (heat_.has_value()) heat_->settle(power_, front_);
        mean_power_ = limits_.cap > Watts(0) ? limits_.cap : power_;  // what a load above the cap has reached
        decide();
    }
    mean_power_ = power_;
    decide();
}

void GovernedDevice::integrate(Seconds now) {
    const Seconds time = now - now_;
    if (time <= Seconds(0)) return;
    const double deficit = 1 - clock_ / model_.figures().highest_clock;
    totals_.time += time;
    totals_.energy += power_ * time;
    totals_.clock += clock_.value() * time.value();
    totals_.temperature +=
        (heat_.has_value() ? heat_->mean(time, power_, front_) : kWithoutHeat).value() * time.value();
    totals_.by_reason[static_cast<std::size_t>(reason_)] += time;
    totals_.peak_power = std::max(totals_.peak_power, power_);
    if (!load_.idle) totals_.deficit += time * deficit;
    if (load_.active()) {
        totals_.active += time;
        totals_.active_deficit += time * deficit;
    }
    if (heat_.has_value()) heat_->advance(time, power_, front_);
    totals_.peak_temperature = std::max(totals_.peak_temperature, temperature());
    mean_power_ = power_ + (mean_power_ - power_) * std::exp(-(time / model_.figures().averaging_time));
    now_ = now;
}

/// The thermal loops look at the die; they run at events only: crossings of their limits, then every period.
void GovernedDevice::step_ceilings() {
    if (!heat_.has_value()) return;
    const Celsius die = temperature();
    const Celsius release = thermal_.slowdown - kHysteresis;
    if (die >= thermal_.hardware_slowdown) hot_ = true;
    if (die < release) hot_ = false;
    if (now_ - last_step_ < kCeilingPeriod * kAtCap) return;
    const double lowest = model_.figures().lowest_clock / model_.figures().highest_clock;
    if (die >= thermal_.slowdown * kAtCap)
        ceiling_ = std::max(lowest, ceiling_ - kCeilingStep);
    else if (die < release)
        ceiling_ = std::min(1.0, ceiling_ + kCeilingStep);
    last_step_ = now_;
}

/// The lowest of all limits but the power cap.
void GovernedDevice::choose_ceiling() {
    const PowerModelFigures& figures = model_.figures();
    clock_ = figures.highest_clock;
    reason_ = ClockReason::none;
    const auto limit = [&](Hertz clock, ClockReason reason) {
        if (clock >= clock_) return;
        clock_ = clock;
        reason_ = reason;
    };
    if (limits_.locked > Hertz(0)) limit(limits_.locked, ClockReason::locked);
    limit(figures.highest_clock * ceiling_, ClockReason::thermal);
    if (hot_) limit(figures.highest_clock * kHardwareSlowdown, ClockReason::hardware);
    if (limits_.brake) limit(figures.brake_clock, ClockReason::brake);
    if (load_.idle) {
        clock_ = figures.lowest_clock;
        reason_ = ClockReason::none;
    }
}

/// Clock and power from now on, and when to look again.
void GovernedDevice::decide() {
    choose_ceiling();
    const Celsius die = temperature();
    power_ = model_.power(load_, clock_, die);
    next_event_ = next_thermal_event();
    if (limits_.cap <= Watts(0) || power_ <= limits_.cap) return;
    if (mean_power_ < limits_.cap * kAtCap) {  // the loop has not noticed yet
        const double times = std::log((power_ - mean_power_) / (power_ - limits_.cap));
        next_event_ = std::min(next_event_, now_ + model_.figures().averaging_time * times);
        return;
    }
    clock_ = model_.clock_within(limits_.cap, load_, die, clock_);
    reason_ = ClockReason::power;
    power_ = model_.power(load_, clock_, die);
    next_event_ = next_thermal_event();
}

Seconds GovernedDevice::next_thermal_event() const {
    if (!heat_.has_value()) return Seconds(std::numeric_limits<double>::infinity());
    Seconds wait = kHorizon;
    const auto crossing = [&](Celsius limit) {
        if (const auto time = heat_->reaches(limit, wait, power_, front_)) wait = std::min(wait, *time);
    };
    const Celsius die = temperature();
    crossing(die + kRefresh);
    crossing(die - kRefresh);
    if (die < thermal_.slowdown) crossing(thermal_.slowdown);
    if (die < thermal_.hardware_slowdown) crossing(thermal_.hardware_slowdown);
    if (hot_ || ceiling_ < 1 || die >= thermal_.slowdown) wait = std::min(wait, kCeilingPeriod);
    return now_ + std::max(wait, Seconds(1e-6));  // a crossing that rounds to now must not stop the clock
}

}  // namespace plansim
