// SPDX-License-Identifier: Apache-2.0
// The defects, as the published comparison has them: nodes are numbered with the embedding as 0 while the splitter
// takes layers to be 0..L-1 and sweeps what lies beyond into the last stage, so the first stage has a layer too few and
// the last one too many; and stages are stored back to front while the evaluator takes the first for the front, so that
// the overfull last stage also recomputes and holds most microbatches.
#include "planner/nest/rivals.hpp"

#include <algorithm>
#include <numeric>

namespace plansim::nest {
namespace {

/// Ends of `count` layers in `stages` runs of ceil(count / stages), layer numbers taken for node numbers; what lies
/// beyond the last layer number goes into the last run. Runs may be empty.
std::vector<std::size_t> shipped_cuts(const Rival& rival, std::size_t nodes) {
    const std::size_t layers = nodes - 1;
    const auto stages = static_cast<std::size_t>(rival.pp);
    const std::size_t even = (layers + stages - 1) / stages;
    std::vector<std::size_t> cuts{0};
    for (std::size_t stage = 0; stage + 1 < stages; ++stage) {
        const std::size_t size = rival.partition.empty() ? even : static_cast<std::size_t>(rival.partition[stage]);
        cuts.push_back(std::min(cuts.back() + size, layers));
    }
    cuts.push_back(nodes);
    return cuts;
}

/// As even as possible, fuller stages in front, the embedding beside the first layers. Empty if stages outnumber
/// layers.
std::vector<std::size_t> fair_cuts(const Rival& rival, std::size_t nodes) {
    const std::size_t layers = nodes - 1;
    const auto stages = static_cast<std::size_t>(rival.pp);
    if (stages > nodes) return {};
    if (stages == nodes) {
        std::vector<std::size_t> each(nodes + 1);
        std::iota(each.begin(), each.end(), std::size_t{0});
        return each;
    }
    std::vector<std::size_t> cuts{0};
    std::size_t placed = 1;
    for (std::size_t stage = 0; stage < stages; ++stage) {
        placed += layers / stages + (stage < layers % stages ? 1 : 0);
        cuts.push_back(placed);
    }
    return cuts;
}

/// Time by the formula with stages in reverse: the stage in front is taken for the last one and the other way round.
std::optional<double> reversed_time(const Costs& costs, const std::vector<std::size_t>& cuts, std::int64_t dp) {
    const auto stages = static_cast<std::int64_t>(cuts.size()) - 1;
    double slowest = 0;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
        const std::size_t begin = cuts[static_cast<std::size_t>(stage)];
        const std::size_t end = cuts[static_cast<std::size_t>(stage) + 1];
        if (stage_bytes(costs, begin, end, stage + 1) > costs.planned().memory_bytes) return std::nullopt;
        slowest = std::max(slowest, stage_load(costs, begin, end, stage + 1));
    }
    const std::int64_t batch = costs.planned().microbatches;
    const std::size_t level = costs.planned().network.level(0, (dp - 1) * stages * costs.profile().group);
    const std::int64_t reduced = costs.parameters(cuts[cuts.size() - 2], cuts.back());
    return slowest * static_cast<double>((batch + dp - 1) / dp + stages - 1) + costs.all_reduce(dp, reduced, level);
}

}  // namespace

std::optional<RivalScore> score(const Rival& rival, const std::vector<Costs>& profiles) {
    const auto costs = std::find_if(profiles.begin(), profiles.end(),
                                    [&](const Costs& each) { return each.profile().tp == rival.tp; });
    if (costs == profiles.end() || costs->nodes() < 2) return std::nullopt;
    RivalScore result;
    result.name = rival.name;
    result.plan.profile = static_cast<std::size_t>(costs - profiles.begin());
    result.plan.dp = rival.dp > 0 ? rival.dp : std::max<std::int64_t>(1, costs->groups() / rival.pp);
    const std::int64_t dp = result.plan.dp;
    if (rival.pp * dp > costs->groups() || dp > costs->planned().microbatches) return result;
    result.shipped = reversed_time(*costs, shipped_cuts(rival, costs->nodes()), dp);
    const std::vector<std::size_t> cuts = fair_cuts(rival, costs->nodes());
    if (cuts.empty()) return result;
    result.plan.cuts = cuts;
    result.plan.time = chain_time(*costs, result.plan);
    if (chain_fits(*costs, result.plan)) result.fair = result.plan.time;
    return result;
}

}  // namespace plansim::nest
