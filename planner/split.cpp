// SPDX-License-Identifier: Apache-2.0
// best[s][i] = least possible time of the slowest of stages 0..s when they hold exactly the units 0..i-1:
//   best[s][i] = min over j < i of max(best[s-1][j], time(j, i)) where units j..i-1 fit on stage s
// Ties are broken towards the later cut j, which keeps the earlier stages (with more microbatches in flight) smaller.
#include "planner/split.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/memory.hpp"

namespace plansim {
namespace {

class Splitter {
  public:
    Splitter(CostModel& model, const Plan& plan, Bytes capacity)
        : model_(model),
          plan_(plan),
          capacity_(capacity),
          units_(static_cast<std::size_t>(model.scenario().workload.chain_length())) {
        times_.push_back(0);
        for (std::size_t index = 0; index < units_; ++index) {
            costs_.push_back(&model.unit(static_cast<std::int64_t>(index), plan, plan.recompute.front()));
            const UnitCost& cost = *costs_.back();
            times_.push_back(times_.back() +
                             (cost.forward.total() + cost.backward.total() + cost.recompute.total()).value());
        }
    }

    std::optional<std::vector<ChainRange>> solve() {
        const auto stages = static_cast<std::size_t>(plan_.pp);
        std::vector<double> best(units_ + 1, INFINITY);
        best[0] = 0;
        std::vector<std::vector<std::size_t>> cut(stages, std::vector<std::size_t>(units_ + 1, 0));
        for (std::size_t stage = 0; stage < stages; ++stage) {
            std::vector<double> next(units_ + 1, INFINITY);
            const bool last_stage = stage + 1 == stages;
            for (std::size_t end = least_end(stage); end <= (last_stage ? units_ : most_end(stage)); ++end) {
                if (last_stage && end < units_) continue;
                choose_cut(static_cast<int>(stage), end, best, next[end], cut[stage][end]);
            }
            best = std::move(next);
        }
        if (std::isinf(best[units_])) return std::nullopt;
        std::vector<ChainRange> ranges(stages);
        std::size_t end = units_;
        for (std::size_t stage = stages; stage-- > 0;) {
            const std::size_t start = cut[stage][end];
            ranges[stage] = {static_cast<std::int64_t>(start), static_cast<std::int64_t>(end)};
            end = start;
        }
        return ranges;
    }

  private:
    // Every stage holds at least one layer: embedding and head of a transformer are no stages of their own.
    [[nodiscard]] std::size_t ends_per_side() const { return model_.scenario().workload.transformer ? 1 : 0; }
    [[nodiscard]] std::size_t least_end(std::size_t stage) const { return stage + 1 + ends_per_side(); }
    [[nodiscard]] std::size_t most_end(std::size_t stage) const {
        return units_ - ends_per_side() - (static_cast<std::size_t>(plan_.pp) - stage - 1);
    }

    /// Tries all starts of a stage that ends before unit `end`, shortest first, until it no longer fits.
    void choose_cut(int stage, std::size_t end, const std::vector<double>& best, double& value, std::size_t& cut) {
        StageLoad load;
        for (std::size_t start = end; start-- > 0;) {
            load.add(*costs_[start]);
            const double time = times_[end] - times_[start];
            if (time > value) return;  // longer stages are only slower
            StageLoad complete = load;
            const double copy = tied_copy(model_.scenario().workload, plan_,
                                          {{static_cast<std::int64_t>(start), static_cast<std::int64_t>(end)}});
            complete.parameters += copy;
            complete.trained += copy;
            if (peak_of(complete, model_.scenario(), plan_, stage).total() > capacity_) return;
            if (std::isinf(best[start])) continue;
            const double candidate = std::max(best[start], time);
            if (candidate < value) {
                value = candidate;
                cut = start;
            }
        }
    }

    CostModel& model_;
    const Plan& plan_;
    Bytes capacity_;
    std::size_t units_;
    std::vector<const UnitCost*> costs_;  // of each unit
    std::vector<double> times_;           // prefix sums
};

}  // namespace

bool split_stages(CostModel& model, Plan& plan, Bytes capacity) {
    const auto ranges = Splitter(model, plan, capacity).solve();
    if (!ranges) return false;
    plan.stages.clear();
    for (const ChainRange& range : *ranges)
        plan.stages.push_back({range});
    return true;
}

}  // namespace plansim
