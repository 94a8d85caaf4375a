// SPDX-License-Identifier: Apache-2.0
#include "sim/app/outcome.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <filesystem>
#include <map>

#include "sim/app/expected_error.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/log.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/replay/engine.hpp"
#include "sim/replay/isolate.hpp"
#include "sim/trace/writers.hpp"

namespace plansim {
double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

namespace {

std::int64_t peak_rss_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return std::int64_t{usage.ru_maxrss} * 1024;  // Linux counts in KiB
}

/// The closed form of a plan. Documents may hold any positive rate and factor; where they add up to times and amounts
/// that neither clock nor ledger can count (0.1 ms vanish beside 1e12 s), the replay is not started.
Estimate checked_estimate(CostModel& model, const Plan& plan) {
    constexpr Seconds kMostTime(1e9);  // 32 years
    constexpr Bytes kMostMemory(std::int64_t{1'000'000'000'000'000'000});
    const Estimate formula = estimate(model, plan);
    const bool countable = formula.iteration_time > Seconds(0) && formula.iteration_time <= kMostTime;
    if (countable && formula.peak_memory <= kMostMemory) return formula;
    throw InputError(fmt::format(
        "by the formula a step of this plan takes {:.3g} s and {:.3g} bytes of a device; at most {:.0e} s and {:.0e} "
        "bytes can be simulated: a size, rate or factor in one of the documents is far off",
        formula.iteration_time.value(), formula.peak_memory.as_double(), kMostTime.value(), kMostMemory.as_double()));
}

Json breakdown_json(const Breakdown& breakdown) {
    Json json;
    for (std::size_t index = 0; index < kTimeClasses; ++index) {
        const auto time_class = static_cast<TimeClass>(index);
        // What is not modelled yet is absent, never zero.
        if (time_class == TimeClass::throttle_loss) continue;
        json[std::string(name_of(time_class))] = breakdown[time_class].value();
    }
    return json;
}

Json memory_json(const ReplayRecord& record, const Scenario& scenario, const Plan& plan) {
    const Bytes capacity = scenario.platform.accelerator.hbm_capacity;
    Bytes peak;
    Json stages = Json::array();
    for (int stage = 0; stage < plan.pp; ++stage) {
        // All replicas of a stage allocate alike; the fullest is shown.
        const WorkerRecord* fullest = nullptr;
        for (const WorkerRecord& worker : record.workers)
            if (worker.stage == stage && (fullest == nullptr || worker.peak_memory > fullest->peak_memory))
                fullest = &worker;
        Json entry{{"stage", stage}};
        for (std::size_t tag = 0; tag < kMemoryTags; ++tag)
            entry[std::string(kMemoryTagNames[tag]) + "_bytes"] = fullest->at_peak[tag].value();
        entry["peak_bytes"] = fullest->peak_memory.value();
        peak = std::max(peak, fullest->peak_memory);
        stages.push_back(std::move(entry));
    }
    return {{"peak_bytes", peak.value()},
            {"capacity_bytes", capacity.value()},
            {"fits", peak <= capacity},
            {"per_stage", std::move(stages)}};
}

Json links_json(const ReplayRecord& record) {
    struct Sum {
        std::int64_t count = 0;
        std::int64_t bytes = 0;
        double utilisation = 0;
        double peak = 0;
    };
    std::map<std::string, Sum> classes;
    for (const LinkRecord& link : record.links) {
        Sum& sum = classes[link.link_class];
        const double utilisation =
            static_cast<double>(link.bytes) / (link.bandwidth.value() * record.iteration_time.value());
        ++sum.count;
        sum.bytes += link.bytes;
        sum.utilisation += utilisation;
        sum.peak = std::max(sum.peak, utilisation);
    }
    Json json = Json::array();
    for (const auto& [name, sum] : classes)
        json.push_back({{"class", name},
                        {"count", sum.count},
                        {"bytes", sum.bytes},
                        {"mean_utilisation", sum.utilisation / static_cast<double>(sum.count)},
                        {"peak_utilisation", sum.peak}});
    return json;
}

Json outcome_json(const ReplayRecord& record, CostModel& model, const Plan& plan, const Estimate& formula) {
    const Scenario& scenario = model.scenario();
    const double time = record.iteration_time.value();
    const double tokens = static_cast<double>(scenario.workload.seq * plan.gbs);
    const FlopsPerSecond peak = scenario.platform.accelerator.peak_rate(scenario.workload.dtype);
    const double available = peak.value() * scenario.platform.devices * time;
    double executed = 0;
    for (const WorkerRecord& worker : record.workers)
        executed += worker.flops.value() * static_cast<double>(worker.devices.size());
    Json json;
    json["iteration_time_s"] = time;
    json["tokens_per_s"] = tokens / time;
    json["tokens_per_s_per_device"] = tokens / time / scenario.platform.devices;
    json["mfu"] = model_totals(scenario.workload).training_flops_per_token.value() * tokens / available;
    json["hfu"] = executed / available;
    json["devices"] = scenario.platform.devices;
    json["gbs"] = plan.gbs;
    json["plan"] = plan_json(plan, scenario.workload);
    json["analytic"] = estimate_json(formula);
    json["breakdown_s"] = breakdown_json(record.workers[record.slowest].breakdown);
    json["memory"] = memory_json(record, scenario, plan);
    json["links"] = links_json(record);
    const ExpectedError error = expected_error(scenario);
    json["error_pct"] = {{"expected", error.mean_pct}, {"p90", error.p90_pct}, {"compared_with_runs", error.compared}};
    json["simulation"] = {{"events", record.events},
                          {"flows", record.flows},
                          {"timers", record.delays},
                          {"replicas", record.folded ? "folded" : "all"},
                          {"cpu_s", cpu_seconds()},
                          {"peak_rss_bytes", peak_rss_bytes()},
                          {"simgrid", Engine::simgrid_version()}};
    return json;
}

void write_record(const ReplayRecord& record, const Plan& plan, int devices_per_node,
                  const std::filesystem::path& folder) {
    write_file(folder / "trace.json", [&](std::ostream& out) { write_trace(out, record, plan, devices_per_node); });
    write_file(folder / "devices.csv", [&](std::ostream& out) { write_devices_csv(out, record, devices_per_node); });
    write_file(folder / "links.csv", [&](std::ostream& out) { write_links_csv(out, record); });
    write_file(folder / "memory.csv", [&](std::ostream& out) { write_memory_csv(out, record); });
}

}  // namespace

std::string json_text(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json simulate_plan(const Scenario& scenario, const Plan& plan, const SimulateRequest& request) {
    if (const auto problem = length_problem(plan)) throw InputError(*problem);
    return Json::parse(run_isolated([&] {
        const Topology topology(scenario.platform);
        CostModel model(scenario, topology);
        const Estimate formula = checked_estimate(model, plan);
        ReplayOptions options = request.replay;
        options.record = !request.trace_folder.empty();
        const ReplayRecord record = replay(model, plan, options);
        if (options.record) write_record(record, plan, scenario.platform.devices_per_node, request.trace_folder);
        return outcome_json(record, model, plan, formula).dump();
    }));
}

Estimate estimate_plan(const Scenario& scenario, const Plan& plan) {
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    return checked_estimate(model, plan);
}

Json plan_json(const Plan& plan, const Workload& workload) {
    Json json;
    for (const auto& [key, value] : plan_fields(plan, workload))
        std::visit([&, &name = key](const auto& content) { json[name] = content; }, value);
    return json;
}

Json estimate_json(const Estimate& estimate) {
    return {{"iteration_time_s", estimate.iteration_time.value()}, {"peak_memory_bytes", estimate.peak_memory.value()}};
}

void stamp(Plan& plan, const Scenario& scenario) {
    const auto fill = [](std::string& name, std::string& hash, const std::string& actual_name, const std::string& text,
                         std::string_view what) {
        const std::string actual = content_hash(text);
        if (!hash.empty() && hash != actual)
            log_warning(fmt::format("the plan was made for {} '{}' with content {}, but the {} given is '{}' with {}",
                                    what, name, hash, what, actual_name, actual));
        name = actual_name;
        hash = actual;
    };
    fill(plan.workload, plan.workload_hash, scenario.workload.name, to_yaml(scenario.workload), "workload");
    fill(plan.platform, plan.platform_hash, scenario.platform.name, to_yaml(scenario.platform), "platform");
    fill(plan.software, plan.software_hash, scenario.software.name, to_yaml(scenario.software), "software");
}

std::string outcome_fingerprint(const Scenario& scenario, const Plan& plan) {
    ReplayOptions options;
    options.fidelity = Fidelity::stage;
    return run_isolated([&] {
        const Topology topology(scenario.platform);
        CostModel model(scenario, topology);
        const Estimate formula = checked_estimate(model, plan);
        const ReplayRecord record = replay(model, plan, options);
        return fmt::format("{} {} {} {} {}", to_text(formula.iteration_time.value()), formula.peak_memory.value(),
                           formula.shortfall.has_value(), to_text(record.iteration_time.value()),
                           scenario.workload.seq * plan.gbs);
    });
}

}  // namespace plansim
