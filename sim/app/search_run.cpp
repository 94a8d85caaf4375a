// SPDX-License-Identifier: Apache-2.0
#include "sim/app/search_run.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include "sim/base/error.hpp"
#include "sim/base/log.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/table.hpp"

namespace plansim {
namespace {

/// plan.* overrides as constraints of the search.
SearchConstraints read_constraints(const std::vector<Override>& fixed, const Workload& workload) {
    SearchConstraints constraints;
    Diagnostics problems;
    Reader document = Reader::parse("{}", "plan", fixed, problems);
    const auto degree = [&](std::string_view key, std::optional<std::int64_t>& value) {
        if (document.has(key)) value = document.integer(key, Range{1, 1e9});
    };
    degree("tp", constraints.tp);
    degree("pp", constraints.pp);
    degree("dp", constraints.dp);
    degree("vpp", constraints.vpp);
    degree("mbs", constraints.mbs);
    degree("gbs", constraints.gbs);
    if (constraints.gbs)
        if (const auto problem = batch_problem(workload, *constraints.gbs)) document.fail("gbs", *problem);
    if (document.has("zero")) constraints.zero = document.integer("zero", Range{0, 1});
    if (document.has("sequence_parallel")) constraints.sequence_parallel = document.flag("sequence_parallel");
    static constexpr std::array<std::pair<std::string_view, Recompute>, 3> kModes{
        {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}};
    if (document.has("recompute")) constraints.recompute = document.one_of<Recompute>("recompute", kModes);
    document.finish();
    problems.throw_if_any();
    return constraints;
}

}  // namespace

SearchRun run_search(const Scenario& scenario, int top, const std::vector<Override>& fixed) {
    const SearchConstraints constraints = read_constraints(fixed, scenario.workload);
    const auto cpu = [] {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    };
    const double start = cpu();
    const Topology topology(scenario.platform);
    CostModel model(scenario, topology);
    SearchRun run;
    {
        std::unique_ptr<Progress> progress;
        run.result = search(model, top, constraints, [&](std::size_t done, std::size_t total) {
            if (!progress) progress = std::make_unique<Progress>("searching", total);
            if (done > 0) progress->advance();
        });
    }
    if (run.result.best.empty()) throw InfeasibleError(explain_infeasible(run.result, scenario));
    for (Candidate& candidate : run.result.best)
        stamp(candidate.plan, scenario);
    run.json = {{"candidates", run.result.candidates}, {"infeasible", run.result.infeasible}, {"cpu_s", cpu() - start}};
    return run;
}

std::string search_text(const SearchRun& found, const Scenario& scenario) {
    std::string text = fmt::format("{} on {} devices of {}: {} plans considered, {} do not fit, {:.2f} s of CPU\n",
                                   scenario.workload.name, scenario.platform.devices, scenario.platform.name,
                                   found.result.candidates, found.result.infeasible, found.json["cpu_s"].get<double>());
    Table table({">rank", "plan", ">formula", ">tokens/s", ">peak memory"});
    for (std::size_t index = 0; index < found.result.best.size(); ++index) {
        const Candidate& candidate = found.result.best[index];
        const double tokens = static_cast<double>(scenario.workload.seq * candidate.plan.gbs);
        table.add({std::to_string(index + 1), summary(candidate.plan), to_human(candidate.estimate.iteration_time),
                   fmt::format("{:.0f}", tokens / candidate.estimate.iteration_time.value()),
                   to_human(candidate.estimate.peak_memory)});
    }
    return text + table.str();
}

}  // namespace plansim
