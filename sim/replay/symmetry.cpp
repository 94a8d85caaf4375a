// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/symmetry.hpp"

#include <algorithm>
#include <set>

namespace plansim {
namespace {

using LinkSet = std::set<LinkId>;

/// Any size large enough that every flow of a pattern carries bytes.
constexpr Bytes kProbe{1 << 20};

bool is_binding(LinkId link, const Topology& topology) {
    return topology.links()[static_cast<std::size_t>(link)].binding;
}

void add_flows(const std::vector<HopFlow>& flows, const Topology& topology, LinkSet& into) {
    Route route;
    for (const HopFlow& flow : flows) {
        route.clear();
        topology.route(flow.source, flow.destination, route);
        for (const LinkId link : route)
            if (is_binding(link, topology)) into.insert(link);
    }
}

bool intersect(const LinkSet& a, const LinkSet& b) {
    return std::any_of(a.begin(), a.end(), [&](LinkId link) { return b.contains(link); });
}

std::vector<HopFlow> ring_flows(const Group& group, const Topology& topology) {
    return decompose(CollectiveKind::all_gather, CollectiveAlgorithm::automatic, group, kProbe, topology).flows;
}

/// Transfers of one tp rank of a stage to the next stage of the pipeline and back; the last stage is next to the first.
std::vector<HopFlow> boundary_flows(const Plan& plan, int replica, int stage, int rank) {
    std::vector<HopFlow> flows;
    for (int cp_rank = 0; plan.pp > 1 && cp_rank < plan.cp; ++cp_rank) {
        const DeviceId here = plan.device_of({rank, cp_rank, replica, stage});
        const DeviceId next = plan.device_of({rank, cp_rank, replica, (stage + 1) % plan.pp});
        flows.push_back({here, next, kProbe});
        flows.push_back({next, here, kProbe});
    }
    return flows;
}

/// Links of all groups of a worker. Sets `shared` if two groups of one axis, which run at the same time, share a link.
LinkSet unit_links(const Layout& layout, int replica, int stage, const Topology& topology, bool& shared) {
    LinkSet all;
    for (const Axis axis : {Axis::tp, Axis::cp}) {
        LinkSet taken;
        for (const Group& group : layout.groups(axis, replica, stage)) {
            LinkSet own;
            add_flows(ring_flows(group, topology), topology, own);
            shared = shared || intersect(own, taken);
            taken.insert(own.begin(), own.end());
        }
        all.insert(taken.begin(), taken.end());
    }
    return all;
}

/// Everything that the given tensor-parallel rank sends between stages and replicas, in an order that is the same for
/// all.
std::vector<HopFlow> rank_flows(const Plan& plan, int rank, const Topology& topology) {
    std::vector<HopFlow> flows;
    const auto append = [&](const std::vector<HopFlow>& more) { flows.insert(flows.end(), more.begin(), more.end()); };
    const Layout layout(plan);
    for (int stage = 0; stage < plan.pp; ++stage) {
        for (int replica = 0; replica < plan.dp; ++replica)
            append(boundary_flows(plan, replica, stage, rank));
        if (plan.data_ranks() > 1)
            for (const Group& group : layout.dp_groups(rank, stage))
                append(ring_flows(group, topology));
    }
    return flows;
}

/// Extends the mapping of links so that route `from` becomes route `to`; false if that contradicts what is mapped.
bool map_route(const Route& from, const Route& to, const Topology& topology,
               std::unordered_map<LinkId, LinkId>& links) {
    if (from.size() != to.size()) return false;
    for (std::size_t hop = 0; hop < from.size(); ++hop) {
        const Link& a = topology.links()[static_cast<std::size_t>(from[hop])];
        const Link& b = topology.links()[static_cast<std::size_t>(to[hop])];
        if (a.goodput != b.goodput || a.binding != b.binding) return false;
        const auto [entry, added] = links.try_emplace(from[hop], to[hop]);
        if (!added && entry->second != to[hop]) return false;
    }
    return true;
}

}  // namespace

Contention unit_contention(const Plan& plan, const Topology& topology) {
    Contention result;
    if (plan.tp * plan.cp == 1) return result;
    const Layout layout(plan);
    LinkSet group_links;
    LinkSet boundary_links;
    LinkSet dp_links;
    for (int worker = 0; worker < layout.workers(); ++worker) {
        const int replica = layout.replica_of(worker);
        const int stage = layout.stage_of(worker);
        const LinkSet own = unit_links(layout, replica, stage, topology, result.always);
        result.always = result.always || intersect(own, group_links);
        group_links.insert(own.begin(), own.end());
        for (int rank = 0; rank < plan.tp; ++rank)
            add_flows(boundary_flows(plan, replica, stage, rank), topology, boundary_links);
    }
    for (int stage = 0; plan.data_ranks() > 1 && stage < plan.pp; ++stage)
        for (const Group& group : layout.data_groups(DataGroup::all, stage))
            add_flows(ring_flows(group, topology), topology, dp_links);
    result.always = result.always || intersect(group_links, boundary_links);
    result.with_buckets = intersect(group_links, dp_links);
    return result;
}

bool replicas_are_independent(const Plan& plan, const Topology& topology) {
    const Layout layout(plan);
    LinkSet taken;
    for (int replica = 0; replica < plan.dp; ++replica) {
        LinkSet own;
        bool shared = false;  // within a replica: no matter
        for (int stage = 0; stage < plan.pp; ++stage) {
            const LinkSet units = unit_links(layout, replica, stage, topology, shared);
            own.insert(units.begin(), units.end());
            for (int rank = 0; rank < plan.tp; ++rank)
                add_flows(boundary_flows(plan, replica, stage, rank), topology, own);
        }
        if (intersect(own, taken)) return false;
        taken.insert(own.begin(), own.end());
    }
    return true;
}

std::optional<RankLinks> congruent_ranks(const Plan& plan, const Topology& topology) {
    RankLinks mappings;
    if (plan.tp == 1) return mappings;
    // Groups of experts mix the ranks; copies of shards are rare enough to be simulated in full.
    if (plan.ep > 1 || plan.etp != plan.tp || plan.fsdp > 0) return std::nullopt;
    const std::vector<HopFlow> first = rank_flows(plan, 0, topology);
    LinkSet taken;
    add_flows(first, topology, taken);
    for (int rank = 1; rank < plan.tp; ++rank) {
        const std::vector<HopFlow> flows = rank_flows(plan, rank, topology);
        LinkSet own;
        add_flows(flows, topology, own);
        if (flows.size() != first.size() || intersect(own, taken)) return std::nullopt;
        taken.insert(own.begin(), own.end());
        std::unordered_map<LinkId, LinkId>& links = mappings.emplace_back();
        Route from;
        Route to;
        std::size_t binding = 0;
        for (std::size_t index = 0; index < flows.size(); ++index) {
            from.clear();
            to.clear();
            topology.route(first[index].source, first[index].destination, from);
            topology.route(flows[index].source, flows[index].destination, to);
            const bool same_latency = topology.p2p_latency(first[index].source, first[index].destination) ==
                                      topology.p2p_latency(flows[index].source, flows[index].destination);
            if (first[index].bytes != flows[index].bytes || !same_latency || !map_route(from, to, topology, links))
                return std::nullopt;
        }
        for (const auto& [link, image] : links)
            binding += is_binding(link, topology) ? 1 : 0;
        if (binding != own.size()) return std::nullopt;  // two links of rank 0 became one
    }
    return mappings;
}

}  // namespace plansim
