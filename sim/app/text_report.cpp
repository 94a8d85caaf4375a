// SPDX-License-Identifier: Apache-2.0
#include "sim/app/text_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/quantity_text.hpp"
#include "sim/base/table.hpp"

namespace plansim {
namespace {

const std::map<std::string, std::string> kMeaning{
    {"compute", "kernels of forward and backward"},
    {"recompute", "forward computed again for the backward pass"},
    {"tp_exposed", "tensor-parallel collectives that nothing hides"},
    {"cp_exposed", "context-parallel transfers that attention does not hide"},
    {"ep_exposed", "exchanges of experts that nothing hides"},
    {"pp_exposed", "waiting for a stage boundary on its way"},
    {"bubble", "waiting for other stages"},
    {"dp_exposed", "waiting for gradients or parameters of the replicas"},
    {"optimizer", "optimizer step"},
    {"other", "host time that the device waits for"},
};

std::string plan_line(const Json& plan) {
    std::string text = fmt::format("tp={} pp={} dp={} mbs={}", plan["tp"].get<int>(), plan["pp"].get<int>(),
                                   plan["dp"].get<int>(), plan["mbs"].get<int>());
    if (plan["cp"].get<int>() > 1) text += fmt::format(" cp={}", plan["cp"].get<int>());
    if (plan["vpp"].get<int>() > 1) text += fmt::format(" vpp={}", plan["vpp"].get<int>());
    text += fmt::format(" schedule={}", plan["schedule"].get<std::string>());
    text += " recompute=" +
            (plan["recompute"].is_string() ? plan["recompute"].get<std::string>() : std::string("per-stage"));
    text += fmt::format(" zero={} sequence_parallel={}", plan["zero"].get<int>(),
                        plan["sequence_parallel"].get<bool>() ? "on" : "off");
    return text;
}

std::string breakdown_text(const Json& outcome) {
    constexpr int kBarWidth = 30;
    Table table({"where the time goes", ">time", ">share", "", ""});
    const double total = outcome["iteration_time_s"].get<double>();
    for (const auto& [name, value] : outcome["breakdown_s"].items()) {
        constexpr double kRounding = 1e-9;  // what sums of many events leave where there is nothing
        const double share = value.get<double>() < kRounding * total ? 0 : value.get<double>() / total;
        const auto bar = static_cast<std::size_t>(std::max(0.0, share * kBarWidth + 0.5));
        table.add({name, share == 0 ? "0 s" : seconds_text(value), fmt::format("{:.1f} %", 100 * share),
                   std::string(bar, '#'), kMeaning.at(name)});
    }
    return table.str();
}

std::string memory_text(const Json& memory) {
    Table table({">stage", ">weights", ">gradients", ">optimizer", ">activations", ">buffers", ">peak"});
    for (const Json& stage : memory["per_stage"])
        table.add({std::to_string(stage["stage"].get<int>()), bytes_text(stage["weights_bytes"]),
                   bytes_text(stage["gradients_bytes"]), bytes_text(stage["optimizer_bytes"]),
                   bytes_text(stage["activations_bytes"]), bytes_text(stage["buffers_bytes"]),
                   bytes_text(stage["peak_bytes"])});
    return table.str();
}

std::string links_text(const Json& links) {
    Table table({"links", ">count", ">bytes", ">mean use", ">busiest"});
    for (const Json& link : links)
        table.add({link["class"].get<std::string>(), std::to_string(link["count"].get<std::int64_t>()),
                   bytes_text(link["bytes"]), fmt::format("{:.1f} %", 100 * link["mean_utilisation"].get<double>()),
                   fmt::format("{:.1f} %", 100 * link["peak_utilisation"].get<double>())});
    return table.str();
}

}  // namespace

std::string bytes_text(const Json& bytes) {
    return to_human(Bytes(bytes.get<std::int64_t>()));
}
std::string seconds_text(const Json& seconds) {
    return to_human(Seconds(seconds.get<double>()));
}

std::string simulate_text(const Json& outcome) {
    const Json& memory = outcome["memory"];
    const Json& plan = outcome["plan"];
    std::string text = fmt::format(
        "{} on {} devices of {}: {} per step, {:.0f} tokens/s, MFU {:.1f} %, peak memory {} of {}{}\n",
        plan["workload"].get<std::string>(), outcome["devices"].get<int>(), plan["platform"].get<std::string>(),
        seconds_text(outcome["iteration_time_s"]), outcome["tokens_per_s"].get<double>(),
        100 * outcome["mfu"].get<double>(), bytes_text(memory["peak_bytes"]), bytes_text(memory["capacity_bytes"]),
        memory["fits"].get<bool>() ? "" : "  DOES NOT FIT");
    text += fmt::format("plan     {}\n", plan_line(plan));
    text +=
        fmt::format("formula  {} per step, peak memory {}\n\n", seconds_text(outcome["analytic"]["iteration_time_s"]),
                    bytes_text(outcome["analytic"]["peak_memory_bytes"]));
    text += breakdown_text(outcome) + "\n" + memory_text(memory) + "\n" + links_text(outcome["links"]);
    const Json& simulation = outcome["simulation"];
    text += fmt::format("\nsimulated {} events ({} flows, replicas: {}) in {:.2f} s of CPU\n",
                        simulation["events"].get<std::int64_t>(), simulation["flows"].get<std::int64_t>(),
                        simulation["replicas"].get<std::string>(), simulation["cpu_s"].get<double>());
    return text;
}

}  // namespace plansim
