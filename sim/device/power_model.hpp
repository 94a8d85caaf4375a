// SPDX-License-Identifier: Apache-2.0
// Power of one device as a function of what it does, its clock and its temperature.
#pragma once

#include "sim/spec/power.hpp"

namespace plansim {

/// What keeps the transistors of a device busy.
enum class KernelClass { gemm, attention, elementwise, collective, spin };

/// Share of the switching power that a kernel draws; `tensor_use` is its achieved rate over the peak at its clock, 0
/// .. 1. Beside each other, activities add up. Source: fitted to cap curves of the H100; spin: 100 to 117 W measured.
double activity_of(KernelClass kernel, double tensor_use = 0);

/// What a device does over a phase (one pass of a microbatch through a stage), as means at the highest clock. A lower
/// clock stretches the clock-bound share of the time; the rest, bound by memory or links, keeps its duration.
struct DeviceLoad {
    double clock_bound = 0;     // share of the time
    double bound_activity = 0;  // activity of the clock-bound kernels times their share of the time
    double other_activity = 0;  // the same of the others
    BytesPerSecond hbm{0};      // traffic of the device memory
    BytesPerSecond link{0};     // received from links
    bool idle = false;          // no context: idle voltage

    /// Duration at a clock over that at the highest one, given highest / clock.
    [[nodiscard]] double stretch(double slowness) const { return 1 + clock_bound * (slowness - 1); }
    /// More than waiting.
    [[nodiscard]] bool active() const { return bound_activity + other_activity > activity_of(KernelClass::spin); }
    friend bool operator==(const DeviceLoad&, const DeviceLoad&) = default;
};

/// No context on the device.
inline constexpr DeviceLoad kIdle{.idle = true};

class PowerModel {
  public:
    explicit PowerModel(const PowerModelFigures& figures) : figures_(figures) {}

    [[nodiscard]] const PowerModelFigures& figures() const { return figures_; }
    /// Volts at a clock under load.
    [[nodiscard]] double voltage(Hertz clock) const;
    /// Mean power over the phase if it runs at this clock.
    [[nodiscard]] Watts power(const DeviceLoad& load, Hertz clock, Celsius die) const;
    /// The highest clock at or below `most` at which the power stays within the cap; the lowest clock if none does.
    /// Not rounded to a step of the clock: differences below one step (15 MHz) decide comparisons.
    [[nodiscard]] Hertz clock_within(Watts cap, const DeviceLoad& load, Celsius die, Hertz most) const;

  private:
    PowerModelFigures figures_;
};

}  // namespace plansim
