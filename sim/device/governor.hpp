// SPDX-License-Identifier: Apache-2.0
// One device under its clock governor: power, temperature and clock over time, piecewise constant between events.
//
// Clock = the lowest of boost, locked clock, power brake, thermal ceilings and what the power cap allows. The cap acts
// on the exponential mean of the power, so a phase above it runs at boost until that mean has reached the cap. Leakage
// is frozen between events and refreshed when the die has moved by 1 K (error below 0.8 W). Upward changes are
// immediate.
#pragma once

#include <array>
#include <optional>

#include "sim/device/heat.hpp"
#include "sim/device/power_model.hpp"

namespace plansim {

/// Why the clock is below boost.
enum class ClockReason { none, power, thermal, hardware, brake, locked };
inline constexpr std::size_t kClockReasons = 6;

struct GovernorLimits {
    Watts cap{0};     // 0: none
    Hertz locked{0};  // 0: not locked
    bool brake = false;
};

/// Integrals over the time that has passed. Deficit: 1 - clock / highest clock.
struct DeviceTotals {
    Seconds time;
    Seconds active;  // more than waiting
    Joules energy;
    double clock = 0;        // Hz s
    double temperature = 0;  // degC s
    Seconds deficit;
    Seconds active_deficit;
    std::array<Seconds, kClockReasons> by_reason{};
    Watts peak_power{0};
    Celsius peak_temperature{0};  // at events, so within 1 K of the true one
};

class GovernedDevice {
  public:
    /// Starts idle at the temperature of the inlet air. Without `thermal` figures the die stays at 60 degC, the
    /// reference of the leakage. Precondition: figures.model.
    GovernedDevice(const PowerFigures& figures, const CoolingFigures& cooling, const GovernorLimits& limits, bool rear);

    /// Time passes until `now` under the present load; events on the way change the clock.
    void advance(Seconds now);
    /// What the device does from `now` on.
    void set_load(Seconds now, const DeviceLoad& load);
    /// Power of the partner in front from `now` on.
    void set_front(Seconds now, Watts power);
    /// Temperature and mean power of the present load held for ever, at once; totals stay.
    void settle();

    [[nodiscard]] Hertz clock() const { return clock_; }
    [[nodiscard]] Watts power() const { return power_; }
    [[nodiscard]] Celsius temperature() const;
    [[nodiscard]] ClockReason reason() const { return reason_; }
    /// When the clock or the power may next change by itself.
    [[nodiscard]] Seconds next_event() const { return next_event_; }
    [[nodiscard]] const DeviceTotals& totals() const { return totals_; }

  private:
    void integrate(Seconds now);
    void step_ceilings();
    void decide();
    void choose_ceiling();
    [[nodiscard]] Seconds next_thermal_event() const;

    PowerModel model_;
    std::optional<Heat> heat_;
    ThermalFigures thermal_;
    GovernorLimits limits_;
    DeviceLoad load_ = kIdle;
    Watts front_{0};

    Seconds now_{0};
    Seconds next_event_{0};
    Seconds last_step_{0};  // of the thermal ceiling
    double ceiling_ = 1;    // thermal, share of the highest clock
    bool hot_ = false;      // hardware slow-down
    Hertz clock_{0};
    Watts power_{0};
    Watts mean_power_{0};
    ClockReason reason_ = ClockReason::none;
    DeviceTotals totals_;
};

}  // namespace plansim
