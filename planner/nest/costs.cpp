// SPDX-License-Identifier: Apache-2.0
#include "planner/nest/costs.hpp"

#include <algorithm>
#include <bit>

namespace plansim::nest {
namespace {

template <class T, class Value>
std::vector<T> prefix_sums(const std::vector<Node>& nodes, Value value) {
    std::vector<T> sums{T{}};
    for (const Node& node : nodes)
        sums.push_back(sums.back() + value(node));
    return sums;
}

}  // namespace

Costs::Costs(const Case& planned, const Profile& profile)
    : case_(&planned),
      profile_(&profile),
      forward_(prefix_sums<double>(profile.nodes, [](const Node& node) { return node.forward; })),
      backward_(prefix_sums<double>(profile.nodes, [](const Node& node) { return node.backward; })),
      recompute_(prefix_sums<double>(profile.nodes, [](const Node& node) { return node.recompute; })),
      parameters_(prefix_sums<std::int64_t>(profile.nodes, [](const Node& node) { return node.parameter_bytes; })),
      states_(prefix_sums<std::int64_t>(profile.nodes, [](const Node& node) { return node.state_bytes; })),
      activations_(prefix_sums<std::int64_t>(profile.nodes, [](const Node& node) { return node.activation_bytes; })),
      bandwidth_(planned.network.bandwidth) {
    for (std::size_t level = 1; level < bandwidth_.size(); ++level)
        bandwidth_[level] = std::min(bandwidth_[level], bandwidth_[level - 1]);
}

double Costs::transfer(std::size_t cut, std::size_t level) const {
    if (cut == 0 || cut == nodes()) return 0;
    const double once = static_cast<double>(boundary(cut)) / bandwidth_[level] + case_->network.latency[level];
    return level == 0 ? once : 2 * once;
}

std::size_t Costs::level_of_groups(std::int64_t a, std::int64_t b) const {
    if (a > b) std::swap(a, b);
    const std::int64_t group = profile_->group;
    return a == b ? 0 : case_->network.level((a + 1) * group - 1, b * group);
}

double Costs::all_reduce(std::int64_t copies, std::int64_t bytes, std::size_t level) const {
    if (copies <= 1) return 0;
    const Network& network = case_->network;
    const double size = static_cast<double>(bytes);
    double time = 0;
    double part = size;
    for (auto step = std::bit_width(static_cast<std::uint64_t>(copies)) - 1; step > 0; --step) {
        time += network.latency[0] + part / network.bandwidth[0];
        part /= 2;
    }
    double carried = 0;
    for (std::size_t l = 1; l <= level; ++l) {
        time += 2 * (network.latency[l] + size / network.bandwidth[l]) + carried;
        carried += time;
    }
    return time;
}

}  // namespace plansim::nest
