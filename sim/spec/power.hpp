// SPDX-License-Identifier: Apache-2.0
// What a platform says about power and heat: parameters of the model in sim/device. The time model reads none of them.
// Schema, units and sources: platforms/README.md.
#pragma once

#include <optional>

#include "sim/base/units.hpp"

namespace plansim {

class Reader;
class YamlWriter;

/// Power of a device = constant + leakage(V, T) + switching * V^2 * clock * activity + energy per byte * byte rates.
/// The voltage is flat up to the knee of the clock and linear from there to the highest clock.
struct PowerModelFigures {
    Watts constant{0};
    Watts leakage{0};            // at 60 degC and the highest voltage
    double leakage_growth = 0;   // 1/K, exponent
    double switching = 0;        // W per V^2 and GHz at activity 1
    double hbm_energy = 0;       // pJ per byte of device memory traffic
    double link_energy = 0;      // pJ per byte received from a link
    double idle_voltage = 0;     // V, without a context
    double lowest_voltage = 0;   // V, up to the knee
    double highest_voltage = 0;  // V, at the highest clock
    Hertz lowest_clock{0};
    Hertz knee_clock{0};
    Hertz highest_clock{0};
    Hertz brake_clock{0};          // what the node's power brake leaves; 0: the lowest clock
    Seconds averaging_time{0.05};  // of the mean power that the cap acts on; guess: the loop runs every 20 to 100 ms
};

/// One stage of the way of the heat: temperature rise = resistance * mean of the power with this memory.
struct ThermalStage {
    double resistance = 0;  // K/W
    Seconds time{1};
};

/// From the die to the local inlet air, and the temperatures at which the device protects itself.
struct ThermalFigures {
    ThermalStage die;
    ThermalStage package;
    ThermalStage sink;
    Celsius slowdown{87};           // the clock is lowered step by step
    Celsius hardware_slowdown{89};  // the clock is halved
};

struct PowerFigures {
    Watts tdp{0};   // 0: not given
    Watts idle{0};  // measured, for describe; 0: not given
    std::optional<PowerModelFigures> model;
    std::optional<ThermalFigures> thermal;
};

/// Which devices of a node sit in the exhaust of others: the upper half of the numbers, or the odd ones.
enum class AirflowOrder { block, alternating };

/// Cooling of a node. A device in the rear also feels the power of its partner in front.
struct CoolingFigures {
    Celsius inlet{28};        // guess
    double rear_coupling{0};  // K of the rear device per W of its front partner; 0: liquid, or no rear
    Seconds rear_time{15};    // memory of that coupling; guess
    AirflowOrder order = AirflowOrder::block;
};

PowerFigures read_power(Reader map);
CoolingFigures read_cooling(Reader map);
void write_power(YamlWriter& out, const PowerFigures& figures);
void write_cooling(YamlWriter& out, const CoolingFigures& figures);

}  // namespace plansim
