// SPDX-License-Identifier: Apache-2.0
// Temperature of a die under power that is constant between events, exact for any step.
//
// The RC chain stands in Foster form: T = inlet + sum R_k y_k, where every y_k follows its driving power by
// dy/dt = (P - y) / tau_k. Modes do not see each other, so a step is one exponential each instead of that of a matrix.
// The last mode of a device in the rear is driven by the power of its partner in front, whose exhaust it breathes.
#pragma once

#include <array>
#include <optional>

#include "sim/spec/power.hpp"

namespace plansim {

class Heat {
  public:
    /// `rear`: the device sits behind a partner. Starts at the temperature of the inlet air.
    Heat(const ThermalFigures& thermal, const CoolingFigures& cooling, bool rear);

    /// Time passes at constant powers of the device and of its partner in front.
    void advance(Seconds time, Watts own, Watts front);
    /// The steady state of these powers, at once.
    void settle(Watts own, Watts front);
    [[nodiscard]] Celsius temperature() const { return after(Seconds(0), Watts(0), Watts(0)); }
    /// The temperature that advance() would lead to.
    [[nodiscard]] Celsius after(Seconds time, Watts own, Watts front) const;
    /// Mean temperature over the time that advance() would take; the present one for no time.
    [[nodiscard]] Celsius mean(Seconds time, Watts own, Watts front) const;
    /// When, within `horizon`, the temperature first reaches `limit` from where it is (upwards or downwards).
    [[nodiscard]] std::optional<Seconds> reaches(Celsius limit, Seconds horizon, Watts own, Watts front) const;

  private:
    struct Mode {
        double resistance = 0;  // K/W
        Seconds time{1};
        double power = 0;  // W, the filtered one: y
        bool front = false;
    };

    std::array<Mode, 4> modes_;
    Celsius inlet_;
};

}  // namespace plansim
