// SPDX-License-Identifier: Apache-2.0
#include "sim/device/power_model.hpp"

#include <algorithm>
#include <cmath>

namespace plansim {
namespace {

constexpr double kLeakageReference = 60;  // degC, of PowerModelFigures::leakage
constexpr double kHertzPerGigahertz = 1e9;
constexpr double kJoulesPerPicojoule = 1e-12;
constexpr int kBisections = 50;  // halvings until the bracket of a clock has no width left in a double

}  // namespace

double activity_of(KernelClass kernel, double tensor_use) {
    // What a resident kernel draws, and what the tensor cores add at full use. Guesses around the fit of the cap
    // curves; spin and element-wise are set by measured power (H100 waiting in a collective, B200 element-wise
    // kernels).
    switch (kernel) {
        case KernelClass::gemm:
            return 0.25 + 0.75 * tensor_use;
        case KernelClass::attention:
            return 0.35 + 0.75 * tensor_use;
        case KernelClass::elementwise:
            return 0.30;
        case KernelClass::collective:
            return 0.10;
        case KernelClass::spin:
            break;
    }
    return 0.02;
}

double PowerModel::voltage(Hertz clock) const {
    const double above = (clock - figures_.knee_clock) / (figures_.highest_clock - figures_.knee_clock);
    return std::lerp(figures_.lowest_voltage, figures_.highest_voltage, std::clamp(above, 0.0, 1.0));
}

Watts PowerModel::power(const DeviceLoad& load, Hertz clock, Celsius die) const {
    const double volts = load.idle ? figures_.idle_voltage : voltage(clock);
    const double share = volts / figures_.highest_voltage;
    const Watts leakage =
        figures_.leakage * (share * share * std::exp(figures_.leakage_growth * (die.value() - kLeakageReference)));
    const double slowness = figures_.highest_clock / clock;
    const double stretch = load.stretch(slowness);
    const double activity = (load.bound_activity * slowness + load.other_activity) / stretch;
    const Watts switching(figures_.switching * volts * volts * clock.value() / kHertzPerGigahertz * activity);
    const Watts bytes((figures_.hbm_energy * load.hbm.value() + figures_.link_energy * load.link.value()) *
                      kJoulesPerPicojoule / stretch);
    return figures_.constant + leakage + switching + bytes;
}

Hertz PowerModel::clock_within(Watts cap, const DeviceLoad& load, Celsius die, Hertz most) const {
    if (power(load, most, die) <= cap) return most;
    Hertz low = std::min(figures_.lowest_clock, most);
    Hertz high = most;
    if (power(load, low, die) > cap) return low;
    for (int step = 0; step < kBisections; ++step) {
        const Hertz middle = (low + high) / 2;
        (power(load, middle, die) <= cap ? low : high) = middle;
    }
    return low;
}

}  // namespace plansim
