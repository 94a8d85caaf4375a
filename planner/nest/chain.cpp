// SPDX-License-Identifier: Apache-2.0
// best[s][i] = least load of the slowest stage when nodes i.. lie on exactly s stages:
//   best[s][i] = min over j > i of max(load(i, j, s), best[s-1][j]) where nodes i..j-1 fit at position s
// The first stage is chosen last, since the all-reduce depends on it, and with it the number of copies.
#include "planner/nest/chain.hpp"

#include <algorithm>

namespace plansim::nest {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Level between the stages at positions `position` and `position + 1`; stages lie along the devices, last stage first.
std::size_t level_in_front(const Costs& costs, std::int64_t position) {
    return costs.level_of_groups(position - 1, position);
}

/// Level that joins `copies` pipelines of `pp` groups.
std::size_t level_of_copies(const Costs& costs, std::int64_t pp, std::int64_t copies) {
    return costs.planned().network.level(0, (copies - 1) * pp * costs.profile().group);
}

struct Table {
    std::vector<std::vector<double>> best;       // [position][first node]; position 0 is unused
    std::vector<std::vector<std::size_t>> next;  // first node of the stage behind
};

Table solve(const Costs& costs, std::size_t stages) {
    const std::size_t nodes = costs.nodes();
    Table table{std::vector(stages + 1, std::vector(nodes + 1, kNever)),
                std::vector(stages + 1, std::vector(nodes + 1, nodes))};
    for (std::size_t s = 1; s <= stages; ++s) {
        const auto position = static_cast<std::int64_t>(s);
        for (std::size_t i = nodes; i-- > 0;) {
            double& best = table.best[s][i];
            for (std::size_t j = i + 1; j <= nodes; ++j) {
                if (stage_bytes(costs, i, j, position) > costs.planned().memory_bytes) break;
                const double behind = s == 1 ? (j == nodes ? 0 : kNever) : table.best[s - 1][j];
                if (behind >= best) continue;
                const double load = std::max(stage_load(costs, i, j, position), behind);
                if (load >= best) continue;
                best = load;
                table.next[s][i] = j;
            }
        }
    }
    return table;
}

/// Improves `best` by the plans of one profile with `s` stages whose first one ends before node `end`.
void choose_copies(const Costs& costs, const Table& table, std::size_t s, std::size_t end, ChainPlan& best,
                   bool& chosen) {
    const auto pp = static_cast<std::int64_t>(s);
    const double behind = s == 1 ? (end == costs.nodes() ? 0 : kNever) : table.best[s - 1][end];
    const double load = std::max(stage_load(costs, 0, end, pp), behind);
    if (load == kNever) return;
    const std::int64_t batch = costs.planned().microbatches;
    const std::int64_t most = std::min(costs.groups() / pp, batch);
    for (std::int64_t dp = 1; dp <= most; ++dp) {
        const double slots = static_cast<double>((batch + dp - 1) / dp + pp - 1);
        if (load * slots >= best.time) continue;
        const double time =
            load * slots + costs.all_reduce(dp, costs.parameters(0, end), level_of_copies(costs, pp, dp));
        if (time >= best.time) continue;
        best.time = time;
        best.dp = dp;
        best.cuts = {0, end};
        chosen = true;
    }
}

}  // namespace

double stage_load(const Costs& costs, std::size_t begin, std::size_t end, std::int64_t position) {
    const double in = begin == 0 ? 0 : costs.transfer(begin, level_in_front(costs, position));
    const double out = end == costs.nodes() ? 0 : costs.transfer(end, level_in_front(costs, position - 1));
    const double forward = costs.forward(begin, end);
    const double backward = costs.backward(begin, end);
    if (!costs.planned().recompute || position == 1) return in + forward + out + backward;
    return in + forward + std::max(costs.recompute(begin, end), out) + backward;
}

std::int64_t stage_bytes(const Costs& costs, std::size_t begin, std::size_t end, std::int64_t position) {
    const std::int64_t activations = costs.activations(begin, end);
    const std::int64_t waiting = costs.planned().recompute ? costs.boundary(begin) : activations;
    return costs.states(begin, end) + activations + (position - 1) * waiting;
}

double chain_time(const Costs& costs, const ChainPlan& plan) {
    double slowest = 0;
    for (std::int64_t stage = 0; stage < plan.pp(); ++stage) {
        const auto index = static_cast<std::size_t>(stage);
        slowest = std::max(slowest, stage_load(costs, plan.cuts[index], plan.cuts[index + 1], plan.pp() - stage));
    }
    const std::int64_t batch = costs.planned().microbatches;
    const double slots = static_cast<double>((batch + plan.dp - 1) / plan.dp + plan.pp() - 1);
    return slowest * slots +
           costs.all_reduce(plan.dp, costs.parameters(0, plan.cuts[1]), level_of_copies(costs, plan.pp(), plan.dp));
}

std::int64_t chain_bytes(const Costs& costs, const ChainPlan& plan) {
    std::int64_t most = 0;
    for (std::int64_t stage = 0; stage < plan.pp(); ++stage) {
        const auto index = static_cast<std::size_t>(stage);
        most = std::max(most, stage_bytes(costs, plan.cuts[index], plan.cuts[index + 1], plan.pp() - stage));
    }
    return most;
}

bool chain_fits(const Costs& costs, const ChainPlan& plan) {
    return plan.pp() * plan.dp <= costs.groups() && plan.dp <= costs.planned().microbatches &&
           chain_bytes(costs, plan) <= costs.planned().memory_bytes;
}

ChainPlan best_chain(const std::vector<Costs>& profiles) {
    ChainPlan best;
    for (std::size_t profile = 0; profile < profiles.size(); ++profile) {
        const Costs& costs = profiles[profile];
        const auto most = std::min(static_cast<std::int64_t>(costs.nodes()), costs.groups());
        const auto stages = static_cast<std::size_t>(most);
        const Table table = solve(costs, stages);
        for (std::size_t s = 1; s <= stages; ++s) {
            bool chosen = false;
            for (std::size_t end = 1; end <= costs.nodes(); ++end) {
                if (stage_bytes(costs, 0, end, static_cast<std::int64_t>(s)) > costs.planned().memory_bytes) break;
                choose_copies(costs, table, s, end, best, chosen);
            }
            if (!chosen) continue;
            best.profile = profile;
            for (std::size_t position = s - 1; position >= 1; --position)
                best.cuts.push_back(table.next[position][best.cuts.back()]);
        }
    }
    return best;
}

}  // namespace plansim::nest
