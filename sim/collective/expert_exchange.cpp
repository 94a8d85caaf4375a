// SPDX-License-Identifier: Apache-2.0
#include "sim/collective/expert_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace plansim {
namespace {

double visit_probability(std::size_t places, std::int64_t top_k) {
    return 1 - std::pow(1 - 1 / static_cast<double>(places), static_cast<double>(top_k));
}

/// Bytes that put the load of an all-to-all on a link, which moves them at its own efficiency.
Bytes loaded(double bytes, const CollectiveFigures& figures) {
    return Bytes::rounded(bytes * figures.efficiency / figures.all_to_all_efficiency);
}

}  // namespace

Decomposition expert_exchange(const Group& group, Bytes tokens, std::int64_t top_k, const Topology& topology) {
    Decomposition result;
    result.algorithm = CollectiveAlgorithm::direct;
    if (group.size() < 2 || tokens.value() == 0) return result;
    const bool by_node = topology.has_node_fabric();
    std::map<int, Group> nodes;
    for (const DeviceId device : group)
        nodes[by_node ? topology.node_of(device) : 0].push_back(device);
    const auto spans = static_cast<double>(nodes.size());
    const double per_rank = tokens.as_double() * visit_probability(group.size(), top_k);
    const double per_node = tokens.as_double() * visit_probability(nodes.size(), top_k);
    const CollectiveFigures& inside = topology.figures(by_node);
    const CollectiveFigures& across = topology.figures(false);
    for (const auto& [node, members] : nodes)
        for (std::size_t rank = 0; rank < members.size(); ++rank) {
            // Own tokens, and those that arrive from the other nodes and are passed on.
            for (const DeviceId peer : members)
                if (peer != members[rank])
                    result.flows.push_back({members[rank], peer, loaded(per_rank * spans, inside)});
            for (const auto& [other, peers] : nodes)
                if (other != node)
                    result.flows.push_back({members[rank], peers[rank % peers.size()], loaded(per_node, across)});
        }
    const CollectiveFigures& figures = nodes.size() > 1 ? across : inside;
    const Seconds transfer = bottleneck_time(result.flows, topology);
    const double growth = std::min(1.0, std::log2(static_cast<double>(group.size())) / 3);
    const double volume = per_rank * static_cast<double>(group.size() - 1);
    result.latency = inside.latency + (nodes.size() > 1 ? across.hop_latency : Seconds(0)) +
                     transfer * (0.75 * figures.ramp * growth / (1 + volume / figures.ramp_bytes.as_double()));
    return result;
}

}  // namespace plansim
