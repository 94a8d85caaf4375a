// SPDX-License-Identifier: Apache-2.0
#include "planner/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "planner/split.hpp"
#include "sim/base/quantity_text.hpp"

namespace plansim {
namespace {

std::vector<std::int64_t> divisors(std::int64_t number) {
    std::vector<std::int64_t> small;
    std::vector<std::int64_t> large;
    for (std::int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
        if (number % divisor != 0) continue;
        small.push_back(divisor);
        if (divisor != number / divisor) large.push_back(number / divisor);
    }
    small.insert(small.end(), large.rbegin(), large.rend());
    return small;
}

/// Enumerates the legal combinations of degrees, batch and switches.
class Enumeration {
  public:
    Enumeration(const Scenario& scenario, const SearchConstraints& constraints)
        : scenario_(scenario), constraints_(constraints) {}

    /// Degrees tp, pp, dp that multiply to the devices.
    [[nodiscard]] std::vector<Plan> degrees() const {
        std::vector<Plan> result;
        const Workload& workload = scenario_.workload;
        const std::int64_t units = workload.transformer ? workload.transformer->all_layers() : workload.chain_length();
        for (const std::int64_t tp : divisors(scenario_.platform.devices)) {
            if (tp > 1 && !workload.transformer) break;
            if (tp > 1 && (workload.transformer->heads % tp != 0 || workload.transformer->ffn % tp != 0 ||
                           (workload.transformer->kv_heads % tp != 0 && tp % workload.transformer->kv_heads != 0)))
                continue;
            for (const std::int64_t pp : divisors(scenario_.platform.devices / tp)) {
                const std::int64_t dp = scenario_.platform.devices / tp / pp;
                const std::int64_t gbs = constraints_.gbs.value_or(workload.gbs);
                if (pp > units || gbs % dp != 0) continue;
                Plan plan;
                plan.workload = workload.name;
                plan.platform = scenario_.platform.name;
                plan.software = scenario_.software.name;
                plan.tp = static_cast<int>(tp);
                plan.etp = plan.tp;  // experts are split, not spread
                plan.pp = static_cast<int>(pp);
                plan.dp = static_cast<int>(dp);
                plan.gbs = gbs;
                result.push_back(plan);
            }
        }
        return result;
    }

    [[nodiscard]] std::vector<std::int64_t> microbatch_sizes(const Plan& plan) const {
        return divisors(plan.gbs / plan.dp);
    }

    /// Recomputation, sequence parallelism, ZeRO and chunks for given degrees and microbatch.
    [[nodiscard]] std::vector<Plan> variants(const Plan& base) const {
        std::vector<Plan> result;
        for (const Recompute recompute : recompute_modes())
            for (const bool sequence : {false, true}) {
                if (sequence && (base.tp == 1 || scenario_.workload.seq % base.tp != 0)) continue;
                for (const int zero : {0, 1}) {
                    if (zero > 0 && base.dp == 1) continue;
                    for (const int vpp : chunk_counts(base)) {
                        Plan plan = base;
                        plan.recompute.assign(static_cast<std::size_t>(plan.pp), recompute);
                        plan.sequence_parallel = sequence;
                        plan.zero = zero;
                        plan.vpp = vpp;
                        plan.schedule = vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
                        if (constraints_.allow(plan)) result.push_back(std::move(plan));
                    }
                }
            }
        return result;
    }

  private:
    [[nodiscard]] std::vector<Recompute> recompute_modes() const {
        // Selective recomputation drops the attention scores, which a fused kernel never keeps.
        const bool selective =
            scenario_.workload.transformer && scenario_.software.attention == AttentionImplementation::materialised;
        if (selective) return {Recompute::none, Recompute::selective, Recompute::full};
        return {Recompute::none, Recompute::full};
    }

    /// 1, and every number of equal chunks that the interleaved schedule allows.
    [[nodiscard]] std::vector<int> chunk_counts(const Plan& plan) const {
        std::vector<int> result{1};
        if (!scenario_.workload.transformer || plan.pp == 1 || plan.microbatches() % plan.pp != 0) return result;
        const std::int64_t layers = scenario_.workload.transformer->all_layers();
        if (layers % plan.pp != 0) return result;
        for (const std::int64_t chunks : divisors(layers / plan.pp))
            if (chunks > 1) result.push_back(static_cast<int>(chunks));
        return result;
    }

    const Scenario& scenario_;
    const SearchConstraints& constraints_;
};

class Search {
  public:
    Search(CostModel& model, int top, const SearchConstraints& constraints)
        : model_(model), top_(static_cast<std::size_t>(top)), constraints_(constraints) {}

    SearchResult run(const std::function<void(std::size_t, std::size_t)>& progress) {
        const Enumeration enumeration(model_.scenario(), constraints_);
        const auto degrees = enumeration.degrees();
        for (std::size_t index = 0; index < degrees.size(); ++index) {
            bool any_fits = true;
            for (const std::int64_t mbs : enumeration.microbatch_sizes(degrees[index])) {
                Plan base = degrees[index];
                base.mbs = mbs;
                const auto variants = enumeration.variants(base);
                if (variants.empty()) continue;
                result_.candidates += static_cast<std::int64_t>(variants.size());
                // Memory grows with the microbatch: once nothing fits, larger ones fit neither.
                const bool skip = !any_fits;
                any_fits = false;
                for (const Plan& variant : variants) {
                    if (!skip && consider(variant))
                        any_fits = true;
                    else
                        ++result_.infeasible;
                }
            }
            progress(index + 1, degrees.size());
        }
        return finish();
    }

  private:
    /// False if no split of the plan fits.
    bool consider(Plan plan) {
        const Bytes capacity = planned_capacity(model_.scenario());
        const bool split = plan.vpp == 1 && split_stages(model_, plan, capacity);
        if (!split) plan.stages = even_stages(model_.scenario().workload, plan.shape());
        Estimate estimate = plansim::estimate(model_, plan, capacity);
        if (split) {
            // The split minimises the slowest stage alone; transfers and data-parallel traffic may favour the even one.
            Plan even = plan;
            even.stages = even_stages(model_.scenario().workload, plan.shape());
            const Estimate other = plansim::estimate(model_, even, capacity);
            if (!other.shortfall && other.iteration_time < estimate.iteration_time) {
                plan = std::move(even);
                estimate = other;
            }
        }
        if (estimate.shortfall) {
            if (!result_.shortfall || estimate.shortfall->missing() < result_.shortfall->missing()) {
                result_.nearest = plan;
                result_.shortfall = estimate.shortfall;
            }
            return false;
        }
        keep({std::move(plan), estimate, ""});
        return true;
    }

    /// One entry per degrees, microbatch and kind of schedule: the fastest of its switches and chunk counts.
    void keep(Candidate candidate) {
        const Plan& plan = candidate.plan;
        const auto [entry, added] = families_.try_emplace({plan.tp, plan.pp, plan.mbs, plan.vpp > 1}, candidate);
        if (!added && better(candidate, entry->second)) entry->second = std::move(candidate);
    }

    static bool better(const Candidate& a, const Candidate& b) {
        if (a.estimate.iteration_time != b.estimate.iteration_time)
            return a.estimate.iteration_time < b.estimate.iteration_time;
        return a.estimate.peak_memory < b.estimate.peak_memory;
    }

    SearchResult finish() {
        for (auto& [family, candidate] : families_)
            result_.best.push_back(std::move(candidate));
        std::stable_sort(result_.best.begin(), result_.best.end(), better);
        if (result_.best.size() > top_) result_.best.resize(top_);
        if (!result_.best.empty()) {
            result_.nearest.reset();
            result_.shortfall.reset();
        }
        for (Candidate& candidate : result_.best)
            candidate.why = explain(candidate, result_.best.front());
        return std::move(result_);
    }

    [[nodiscard]] std::string explain(const Candidate& candidate, const Candidate& best) const {
        const Estimate& own = candidate.estimate;
        const auto share = [&](Seconds part) { return 100 * (part / own.iteration_time); };
        std::string text = fmt::format(
            "slowest stage {} takes {} per microbatch; bubble {:.1f} %, transfers {:.1f} %, data parallel {:.1f} %; "
            "fullest stage {} holds {} of {}",
            own.slowest_stage, to_human(own.bottleneck), share(own.bubble), share(own.p2p), share(own.dp_exposed),
            own.fullest_stage, to_human(own.peak_memory),
            to_human(model_.scenario().platform.accelerator.hbm_capacity));
        const double loss = 100 * (own.iteration_time / best.estimate.iteration_time - 1);
        return loss > 0 ? fmt::format("{:.1f} % slower than the best; {}", loss, text) : text;
    }

    CostModel& model_;
    std::size_t top_;
    const SearchConstraints& constraints_;
    SearchResult result_;
    std::map<std::tuple<int, int, std::int64_t, bool>, Candidate> families_;
};

}  // namespace

bool SearchConstraints::allow(const Plan& plan) const {
    const auto matches = [](const auto& fixed, auto value) { return !fixed || *fixed == value; };
    return matches(tp, plan.tp) && matches(pp, plan.pp) && matches(dp, plan.dp) && matches(vpp, plan.vpp) &&
           matches(mbs, plan.mbs) && matches(zero, plan.zero) && matches(sequence_parallel, plan.sequence_parallel) &&
           matches(recompute, plan.recompute.front());
}

SearchResult search(CostModel& model, int top, const SearchConstraints& constraints,
                    const std::function<void(std::size_t, std::size_t)>& progress) {
    return Search(model, top, constraints).run(progress);
}

std::string explain_infeasible(const SearchResult& result, const Scenario& scenario) {
    if (!result.shortfall || !result.nearest)
        return fmt::format(
            "no legal plan: {} devices, a global batch of {} and the model's heads and layers admit no combination of "
            "degrees",
            scenario.platform.devices, scenario.workload.gbs);
    return fmt::format(
        "{} does not fit {} devices of {} ({} planned, the rest is headroom): none of {} plans fits. The nearest ({}) "
        "needs {} bytes on stage {} and has "
        "{}: "
        "{} bytes ({}) are short",
        scenario.workload.name, scenario.platform.devices, to_human(scenario.platform.accelerator.hbm_capacity),
        to_human(result.shortfall->capacity), result.candidates, summary(*result.nearest),
        result.shortfall->needed.value(), result.shortfall->stage, result.shortfall->capacity.value(),
        result.shortfall->missing().value(), to_human(result.shortfall->missing()));
}

}  // namespace plansim
