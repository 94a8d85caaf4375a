// SPDX-License-Identifier: Apache-2.0
#include "sim/spec/power.hpp"

#include <array>

#include "sim/base/reader.hpp"
#include "sim/spec/yaml_writer.hpp"

namespace plansim {
namespace {

constexpr std::array<std::pair<std::string_view, AirflowOrder>, 2> kOrders{
    {{"block", AirflowOrder::block}, {"alternating", AirflowOrder::alternating}}};
constexpr Range kTemperatures{-50, 200};  // degC; beyond lies a slip of the unit

PowerModelFigures read_model(Reader map) {
    PowerModelFigures model;
    model.constant = map.quantity<Watts>("constant", Range::not_negative());
    model.leakage = map.quantity<Watts>("leakage", Range::not_negative());
    model.leakage_growth = map.number("leakage_growth", Range::share());
    model.switching = map.number("switching", Range::positive());
    model.hbm_energy = map.number("hbm_energy", Range::not_negative());
    model.link_energy = map.number("link_energy", Range::not_negative());
    model.lowest_voltage = map.number("lowest_voltage", Range::positive());
    model.highest_voltage = map.number("highest_voltage", Range::at_least(model.lowest_voltage));
    model.idle_voltage = map.number_or("idle_voltage", model.lowest_voltage, Range::positive());
    model.lowest_clock = map.quantity<Hertz>("lowest_clock");
    model.knee_clock = map.quantity<Hertz>("knee_clock", Range::at_least(model.lowest_clock.value()));
    model.highest_clock = map.quantity<Hertz>("highest_clock");
    if (model.highest_clock <= model.knee_clock)
        map.fail("highest_clock", "the highest clock must lie above the knee of the voltage curve");
    model.brake_clock = map.quantity_or<Hertz>("brake_clock", model.lowest_clock);
    model.averaging_time = map.quantity_or<Seconds>("averaging_time", model.averaging_time);
    map.finish();
    return model;
}

ThermalStage read_stage(Reader map) {
    ThermalStage stage;
    stage.resistance = map.number("resistance", Range::not_negative());
    stage.time = map.quantity<Seconds>("time");
    map.finish();
    return stage;
}

ThermalFigures read_thermal(Reader map) {
    ThermalFigures thermal;
    thermal.die = read_stage(map.map("die"));
    thermal.package = read_stage(map.map("package"));
    thermal.sink = read_stage(map.map("sink"));
    thermal.slowdown = map.quantity_or<Celsius>("slowdown", thermal.slowdown, kTemperatures);
    thermal.hardware_slowdown = map.quantity_or<Celsius>("hardware_slowdown", thermal.hardware_slowdown, kTemperatures);
    if (thermal.hardware_slowdown < thermal.slowdown)
        map.fail("hardware_slowdown", "the hardware steps in before the software does");
    map.finish();
    return thermal;
}

void write_stage(YamlWriter& out, std::string_view key, const ThermalStage& stage) {
    out.begin(key);
    out.number("resistance", stage.resistance);
    out.quantity("time", stage.time);
    out.end();
}

void write_model(YamlWriter& out, const PowerModelFigures& model) {
    out.begin("model");
    out.quantity("constant", model.constant);
    out.quantity("leakage", model.leakage);
    out.number("leakage_growth", model.leakage_growth);
    out.number("switching", model.switching);
    out.number("hbm_energy", model.hbm_energy);
    out.number("link_energy", model.link_energy);
    out.number("idle_voltage", model.idle_voltage);
    out.number("lowest_voltage", model.lowest_voltage);
    out.number("highest_voltage", model.highest_voltage);
    out.quantity("lowest_clock", model.lowest_clock);
    out.quantity("knee_clock", model.knee_clock);
    out.quantity("highest_clock", model.highest_clock);
    out.quantity("brake_clock", model.brake_clock);
    out.quantity("averaging_time", model.averaging_time);
    out.end();
}

}  // namespace

PowerFigures read_power(Reader map) {
    PowerFigures figures;
    figures.tdp = map.quantity<Watts>("tdp");
    figures.idle = map.quantity_or<Watts>("idle", figures.idle, Range::not_negative());
    if (map.has("model")) figures.model = read_model(map.map("model"));
    if (map.has("thermal")) figures.thermal = read_thermal(map.map("thermal"));
    if (figures.thermal.has_value() && !figures.model.has_value())
        map.fail("thermal", "heat without power", "give power.model too");
    map.finish();
    return figures;
}

CoolingFigures read_cooling(Reader map) {
    CoolingFigures figures;
    figures.inlet = map.quantity_or<Celsius>("inlet", figures.inlet, kTemperatures);
    figures.rear_coupling = map.number_or("rear_coupling", figures.rear_coupling, Range::not_negative());
    figures.rear_time = map.quantity_or<Seconds>("rear_time", figures.rear_time);
    figures.order = map.one_of_or<AirflowOrder>("order", kOrders, figures.order);
    map.finish();
    return figures;
}

void write_power(YamlWriter& out, const PowerFigures& figures) {
    if (figures.tdp == Watts(0)) return;
    out.begin("power");
    out.quantity("tdp", figures.tdp);
    out.quantity("idle", figures.idle);
    if (figures.model.has_value()) write_model(out, *figures.model);
    if (figures.thermal.has_value()) {
        out.begin("thermal");
        write_stage(out, "die", figures.thermal->die);
        write_stage(out, "package", figures.thermal->package);
        write_stage(out, "sink", figures.thermal->sink);
        out.quantity("slowdown", figures.thermal->slowdown);
        out.quantity("hardware_slowdown", figures.thermal->hardware_slowdown);
        out.end();
    }
    out.end();
}

void write_cooling(YamlWriter& out, const CoolingFigures& figures) {
    out.begin("cooling");
    out.quantity("inlet", figures.inlet);
    out.number("rear_coupling", figures.rear_coupling);
    out.quantity("rear_time", figures.rear_time);
    out.text("order", figures.order == AirflowOrder::block ? "block" : "alternating");
    out.end();
}

}  // namespace plansim
