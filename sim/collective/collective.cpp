// SPDX-License-Identifier: Apache-2.0
// Collectives as NCCL runs them: rings, the double binary tree and in-network reduction of all-reduce, direct
// all-to-all.
//
// Bytes that the busiest port of a rank sends; S is the tensor, n the ranks, N the nodes, l the ranks in each:
//   ring        V = 2(n-1)/n S (all-reduce), (n-1)/n S (all-gather, reduce-scatter), S (broadcast), shared by the NICs
//               of a node. A ring also copies its own share of the tensor, S/n, before the first and after the last
//               step; `own_share` of it is not hidden. That is why two ranks reach less of a link than eight do.
//   tree        NCCL's double binary tree between nodes: min(2, N/2) S, since of two nodes each is the root of one tree
//               and a leaf of the other; a chain inside the node, 2 S. Within one node it is the ring.
//   in_network  NVLink SHARP: the switch reads S from every port and returns it once, shared: (n+1)/n S, at a goodput
//               of its own. Between nodes S if that network reduces too (SHARP), else the tree (NCCL's NVLSTree).
//   halving_doubling
//               2(n-1)/n S as the ring, in 2 log2 n steps (Rabenseifner 2004): the reduce-scatter trades S/2 with the
//               neighbour, S/4 with the rank two further, and so on, the all-gather the same in reverse. Steps follow
//               one another: what the flows of all steps gain by running side by side is added to the fixed time.
//   direct      all-to-all: n(n-1) messages of S/n, at a goodput of their own.
// The (n+1)/n rule fits nccl-tests on 5 to 8 H200 (306 of 450 GB/s, +- 2 %) and on 6 to 8 B200 (541 of 900, +- 1 %).
//
// Fixed time: a base, plus `hop_latency` per step inside the node (2(l-1) of an all-reduce on a ring, l-1 of all-gather
// and reduce-scatter, 2 log2 l by reduction in the switch, 1 of all-to-all), plus per hop of a ring or per doubling of
// a tree over the nodes of the group (over its devices if nodes have no fabric of their own), plus the excess of small
// messages, V/rate * r / (1 + V/ramp_bytes) with r growing with log2(ranks) up to 8 ranks: it stands for the protocols
// with less latency and less bandwidth (LL, LL128) and for the filling of pipelines. The constants are fits to public
// measurements and live in the platform file (CollectiveFigures).
//
// An algorithm with a goodput of its own has its bytes scaled by efficiency / that goodput, so that a link moves them
// at the measured rate. Leaves out: the steps of a ring (it moves at fluid rates), channels, stragglers among the
// ranks, copies for PXN, the root's place in a broadcast (the chain starts at the lowest device).
#include "sim/collective/collective.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/base/error.hpp"

namespace plansim {

std::string_view name_of(CollectiveKind kind) {
    switch (kind) {
        case CollectiveKind::all_reduce:
            return "all_reduce";
        case CollectiveKind::all_gather:
            return "all_gather";
        case CollectiveKind::reduce_scatter:
            return "reduce_scatter";
        case CollectiveKind::all_to_all:
            return "all_to_all";
        case CollectiveKind::broadcast:
            return "broadcast";
    }
    PLANSIM_CHECK(false, "unknown collective");
}

namespace {

/// Members of a group in the order of its ring, and where each node's members begin.
struct Layout {
    std::vector<DeviceId> members;
    std::vector<std::size_t> starts;  // of each node's run in members, then members.size(); devices: one run each
    bool within_node = false;         // all in one node that has a fabric

    [[nodiscard]] std::size_t spans() const { return starts.size() - 1; }
    [[nodiscard]] std::size_t run(std::size_t node) const { return starts[node + 1] - starts[node]; }
};

/// Orders the devices of a torus so that most neighbours of the order are neighbours on the torus: rows that run back
/// and forth (boustrophedon). Coordinates are counted among those that occur, so that strided groups keep the order.
void order_as_snake(std::vector<DeviceId>& members, const std::vector<std::int64_t>& dims) {
    struct Place {
        std::vector<std::int64_t> coordinates;
        std::int64_t position = 0;
        DeviceId device = 0;
    };
    std::vector<Place> places;
    places.reserve(members.size());
    for (const DeviceId device : members) {
        Place place{{}, 0, device};
        std::int64_t rest = device;
        for (const std::int64_t size : dims) {
            place.coordinates.push_back(rest % size);
            rest /= size;
        }
        places.push_back(std::move(place));
    }
    for (std::size_t axis = dims.size(); axis-- > 0;) {
        std::vector<std::int64_t> occurring;
        occurring.reserve(places.size());
        for (const Place& place : places)
            occurring.push_back(place.coordinates[axis]);
        std::sort(occurring.begin(), occurring.end());
        occurring.erase(std::unique(occurring.begin(), occurring.end()), occurring.end());
        const auto size = static_cast<std::int64_t>(occurring.size());
        for (Place& place : places) {
            const auto found = std::lower_bound(occurring.begin(), occurring.end(), place.coordinates[axis]);
            const std::int64_t step = found - occurring.begin();
            place.position = place.position * size + (place.position % 2 == 0 ? step : size - 1 - step);
        }
    }
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
        return a.position != b.position ? a.position < b.position : a.device < b.device;
    });
    for (std::size_t rank = 0; rank < members.size(); ++rank)
        members[rank] = places[rank].device;
}

Layout lay_out(const Group& group, const Topology& topology) {
    Layout layout;
    layout.members = group;
    std::sort(layout.members.begin(), layout.members.end());  // also by node: devices are numbered node by node
    PLANSIM_CHECK(std::adjacent_find(layout.members.begin(), layout.members.end()) == layout.members.end(),
                  "a device is twice in a group");
    const bool by_node = topology.has_node_fabric();
    if (!by_node && !topology.torus_dims().empty()) order_as_snake(layout.members, topology.torus_dims());
    for (std::size_t rank = 0; rank < layout.members.size(); ++rank)
        if (rank == 0 || !by_node || !topology.same_node(layout.members[rank - 1], layout.members[rank]))
            layout.starts.push_back(rank);
    layout.starts.push_back(layout.members.size());
    layout.within_node = by_node && layout.spans() == 1;
    return layout;
}

/// What a member of a node hands on to the next one of the node, and a node to the next node.
struct Volume {
    Bytes inside;
    Bytes across;
};

/// A node splits what it hands on over as many members as both nodes have. A chain (broadcast) is a ring without its
/// last hop.
std::vector<HopFlow> ring_over_nodes(const Layout& layout, const Volume& volume, bool closed) {
    std::vector<HopFlow> flows;
    const std::size_t nodes = layout.spans();
    for (std::size_t node = 0; node < nodes; ++node) {
        const DeviceId* members = layout.members.data() + layout.starts[node];
        const std::size_t run = layout.run(node);
        for (std::size_t rank = 0; run > 1 && rank < (closed ? run : run - 1); ++rank)
            flows.push_back({members[rank], members[(rank + 1) % run], volume.inside});
    }
    for (std::size_t node = 0; nodes > 1 && node < (closed ? nodes : nodes - 1); ++node) {
        const std::size_t next = (node + 1) % nodes;
        const std::size_t lanes = std::min(layout.run(node), layout.run(next));
        const auto divisor = static_cast<std::int64_t>(lanes);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const bool takes_rest = static_cast<std::int64_t>(lane) < volume.across.value() % divisor;
            flows.push_back({layout.members[layout.starts[node] + lane], layout.members[layout.starts[next] + lane],
                             Bytes(volume.across.value() / divisor + (takes_rest ? 1 : 0))});
        }
    }
    return flows;
}

/// A ring of devices without nodes. Above two members half of the volume goes each way round, so that both directions
/// of every cable work, as on a torus.
std::vector<HopFlow> ring_over_devices(const Layout& layout, Bytes volume, bool closed) {
    std::vector<HopFlow> flows;
    const std::size_t ranks = layout.members.size();
    const bool both_ways = closed && ranks > 2;
    const Bytes backward(both_ways ? volume.value() / 2 : 0);
    for (std::size_t rank = 0; rank < (closed ? ranks : ranks - 1); ++rank) {
        const DeviceId here = layout.members[rank];
        const DeviceId next = layout.members[(rank + 1) % ranks];
        flows.push_back({here, next, volume - backward});
        if (both_ways) flows.push_back({next, here, backward});
    }
    return flows;
}

std::vector<HopFlow> all_to_all_flows(const Layout& layout, Bytes size, const Topology& topology) {
    const auto bytes_over = [&](bool within_node) {
        const CollectiveFigures& figures = topology.figures(within_node);
        return Bytes::rounded(size.as_double() / static_cast<double>(layout.members.size()) * figures.efficiency /
                              figures.all_to_all_efficiency);
    };
    const bool by_node = topology.has_node_fabric();
    const Bytes inside = bytes_over(by_node);
    const Bytes across = layout.within_node ? Bytes(0) : bytes_over(false);
    std::vector<HopFlow> flows;
    flows.reserve(layout.members.size() * (layout.members.size() - 1));
    for (const DeviceId source : layout.members)
        for (const DeviceId destination : layout.members)
            if (source != destination)
                flows.push_back(
                    {source, destination, by_node && topology.same_node(source, destination) ? inside : across});
    return flows;
}

/// What every member trades with the one `distance` further on, both ways.
std::vector<HopFlow> exchanges(const Layout& layout, std::size_t distance, Bytes bytes) {
    std::vector<HopFlow> flows;
    for (std::size_t rank = 0; rank < layout.members.size(); ++rank)
        flows.push_back({layout.members[rank], layout.members[rank ^ distance], bytes});
    return flows;
}

/// Halving and doubling: the flows of all steps, and the time by which the steps one after another take longer.
std::pair<std::vector<HopFlow>, Seconds> halving_doubling(const Layout& layout, Bytes size, const Topology& topology) {
    std::vector<HopFlow> all;
    Seconds steps;
    double share = size.as_double();
    for (std::size_t distance = 1; distance < layout.members.size(); distance *= 2) {
        share /= 2;
        const std::vector<HopFlow> flows = exchanges(layout, distance, Bytes::rounded(2 * share));
        steps += bottleneck_time(flows, topology);
        all.insert(all.end(), flows.begin(), flows.end());
    }
    const Seconds together = bottleneck_time(all, topology);
    return {std::move(all), steps - together};
}

/// Steps that follow one another inside a node of `members`.
double steps_inside(CollectiveKind kind, CollectiveAlgorithm algorithm, std::size_t members) {
    if (members < 2) return 0;
    if (kind == CollectiveKind::all_to_all) return 1;
    if (algorithm == CollectiveAlgorithm::in_network || algorithm == CollectiveAlgorithm::halving_doubling)
        return 2 * std::log2(static_cast<double>(members));
    const auto hops = static_cast<double>(members - 1);
    return kind == CollectiveKind::all_reduce ? 2 * hops : hops;
}

/// Latency without the excess of small messages.
Seconds fixed_latency(CollectiveKind kind, CollectiveAlgorithm algorithm, const Layout& layout,
                      const Topology& topology) {
    const CollectiveFigures& node = topology.figures(topology.has_node_fabric());
    const CollectiveFigures& network = topology.figures(layout.within_node);
    Seconds start = node.latency;
    if (topology.has_node_fabric()) start += node.hop_latency * steps_inside(kind, algorithm, layout.run(0));
    const auto spans = static_cast<double>(layout.spans());
    if (layout.within_node || spans < 2) return start;
    switch (algorithm) {
        case CollectiveAlgorithm::tree:
        case CollectiveAlgorithm::in_network:
            return start + network.tree_latency * std::log2(spans);
        case CollectiveAlgorithm::halving_doubling:
            return start + network.hop_latency * (2 * std::log2(spans));
        case CollectiveAlgorithm::direct:
            return start + network.hop_latency;  // all messages are under way together
        default:
            if (kind == CollectiveKind::all_reduce) return start + network.hop_latency * (2 * (spans - 1));
            // All-gather and reduce-scatter over many nodes run in a logarithmic number of steps (NCCL's PAT, a
            // recursive halving and doubling). Its bytes per NIC are those of the ring, whose flows stand for it.
            return start + std::min(network.hop_latency * (spans - 1), network.tree_latency * std::log2(spans));
    }
}

/// r of the small-message excess.
double ramp_of(CollectiveKind kind, std::size_t ranks, double ramp) {
    const double growth = ranks <= 8 ? std::log2(static_cast<double>(ranks)) / 3 : 1.0;
    return ramp * growth * (kind == CollectiveKind::all_reduce ? 1.0 : 0.75);
}

/// Bytes that take as long at a fabric's ring goodput as `bytes` at `goodput`, a share of the bandwidth.
Bytes at_goodput(double bytes, double goodput, const CollectiveFigures& figures) {
    return Bytes::rounded(bytes * figures.efficiency / goodput);
}

/// Tree and in-network reduction of an all-reduce; see the head of this file.
Volume reduction_volume(CollectiveAlgorithm algorithm, const Layout& layout, Bytes size, Bytes ring,
                        const Topology& topology) {
    const double bytes = size.as_double();
    const auto nodes = static_cast<double>(layout.spans());
    const Bytes over_tree = Bytes::rounded(bytes * std::min(2.0, nodes / 2));
    if (algorithm == CollectiveAlgorithm::tree)
        return layout.spans() == 1 ? Volume{ring, ring} : Volume{Bytes(2 * size.value()), over_tree};
    Volume volume{Bytes(2 * size.value()), over_tree};
    const CollectiveFigures& node = topology.figures(true);
    const CollectiveFigures& network = topology.figures(false);
    const double share = node.in_network_reduction;
    const auto run = static_cast<double>(layout.run(0));
    if (share > 0) volume.inside = at_goodput(bytes * (run + 1) / run, share, node);
    if (network.in_network_reduction > 0) volume.across = at_goodput(bytes, network.in_network_reduction, network);
    return volume;
}

std::vector<HopFlow> flows_of(CollectiveKind kind, CollectiveAlgorithm algorithm, const Layout& layout, Bytes size,
                              Bytes ring, const Topology& topology) {
    if (kind == CollectiveKind::all_to_all) return all_to_all_flows(layout, size, topology);
    const bool closed = kind != CollectiveKind::broadcast;
    if (!topology.has_node_fabric()) {
        const bool tree = algorithm == CollectiveAlgorithm::tree && layout.spans() > 1;
        return ring_over_devices(layout, tree ? Bytes(2 * size.value()) : ring, closed);
    }
    const bool reduction = algorithm == CollectiveAlgorithm::tree || algorithm == CollectiveAlgorithm::in_network;
    return ring_over_nodes(
        layout, reduction ? reduction_volume(algorithm, layout, size, ring, topology) : Volume{ring, ring}, closed);
}

struct Timed {
    Decomposition decomposition;
    Seconds transfer;
};

Timed decompose_as(CollectiveKind kind, CollectiveAlgorithm algorithm, const Layout& layout, Bytes size,
                   const Topology& topology) {
    const auto ranks = static_cast<int>(layout.members.size());
    const Bytes volume = ring_volume(kind, ranks, size);
    Timed result{{fixed_latency(kind, algorithm, layout, topology), {}, algorithm}, Seconds(0)};
    const CollectiveFigures& figures = topology.figures(layout.within_node);
    const double own = kind == CollectiveKind::broadcast ? 0 : figures.own_share * size.as_double() / ranks;
    const Bytes ring = volume + Bytes::rounded(own);
    Seconds between_steps;
    if (algorithm == CollectiveAlgorithm::halving_doubling)
        std::tie(result.decomposition.flows, between_steps) = halving_doubling(layout, size, topology);
    else
        result.decomposition.flows = flows_of(kind, algorithm, layout, size, ring, topology);
    result.decomposition.latency += between_steps;
    result.transfer = bottleneck_time(result.decomposition.flows, topology);
    result.decomposition.latency +=
        result.transfer * (ramp_of(kind, layout.members.size(), figures.ramp) / (1 + volume / figures.ramp_bytes));
    return result;
}

/// Whether switches reduce for a group: those of its node, or those between its nodes.
bool can_reduce_in_network(const Layout& layout, const Topology& topology) {
    if (!topology.has_node_fabric()) return false;
    if (topology.figures(true).in_network_reduction > 0 && layout.run(0) > 1) return true;
    return layout.spans() > 1 && topology.figures(false).in_network_reduction > 0;
}

/// Candidates for `algorithm`, in the order of preference at equal times. NCCL has one algorithm for every kind but
/// all_reduce.
std::vector<CollectiveAlgorithm> candidates(CollectiveKind kind, CollectiveAlgorithm wish, const Layout& layout,
                                            const Topology& topology) {
    using enum CollectiveAlgorithm;
    if (kind == CollectiveKind::all_to_all) return {direct};
    if (kind != CollectiveKind::all_reduce) return {ring};
    if (wish == automatic) wish = topology.figures(layout.within_node).algorithm;
    const bool in_switches = can_reduce_in_network(layout, topology);
    if (wish == tree || (wish == in_network && in_switches)) return {wish};
    const std::size_t ranks = layout.members.size();
    if (wish == halving_doubling && (ranks & (ranks - 1)) == 0) return {wish};
    if (wish != automatic) return {ring};
    if (in_switches) return {ring, tree, in_network};
    return {ring, tree};
}

Timed decompose_timed(CollectiveKind kind, CollectiveAlgorithm algorithm, const Group& group, Bytes size,
                      const Topology& topology) {
    PLANSIM_CHECK(size.value() >= 0, "size of a collective");
    const bool direct = kind == CollectiveKind::all_to_all;
    if (group.size() < 2 || size.value() == 0)
        return {{Seconds(0), {}, direct ? CollectiveAlgorithm::direct : CollectiveAlgorithm::ring}, Seconds(0)};
    const Layout layout = lay_out(group, topology);
    std::optional<Timed> best;
    for (const CollectiveAlgorithm candidate : candidates(kind, algorithm, layout, topology)) {
        Timed timed = decompose_as(kind, candidate, layout, size, topology);
        if (!best || timed.decomposition.latency + timed.transfer < best->decomposition.latency + best->transfer)
            best = std::move(timed);
    }
    return std::move(*best);
}

}  // namespace

Bytes ring_volume(CollectiveKind kind, int ranks, Bytes size) {
    PLANSIM_CHECK(ranks > 0, "a collective needs ranks");
    if (ranks == 1) return Bytes(0);
    if (kind == CollectiveKind::broadcast) return size;
    const double passes = kind == CollectiveKind::all_reduce ? 2 : 1;
    return Bytes::rounded(passes * size.as_double() * (ranks - 1) / ranks);
}

Decomposition decompose(CollectiveKind kind, CollectiveAlgorithm algorithm, const Group& group, Bytes size,
                        const Topology& topology) {
    return decompose_timed(kind, algorithm, group, size, topology).decomposition;
}

Seconds bottleneck_time(const std::vector<HopFlow>& flows, const Topology& topology) {
    // Scratch of all links, zero between calls: only the links touched are read and reset.
    thread_local std::vector<std::int64_t> load;
    const std::vector<Link>& links = topology.links();
    if (load.size() < links.size()) load.resize(links.size(), 0);
    std::vector<LinkId> touched;
    Route route;
    for (const HopFlow& flow : flows) {
        if (flow.bytes.value() == 0) continue;
        route.clear();
        topology.route(flow.source, flow.destination, route);
        for (const LinkId link : route) {
            std::int64_t& bytes = load[static_cast<std::size_t>(link)];
            if (bytes == 0) touched.push_back(link);
            bytes += flow.bytes.value();
        }
    }
    Seconds longest(0);
    for (const LinkId link : touched) {
        const auto index = static_cast<std::size_t>(link);
        if (links[index].binding) longest = std::max(longest, Bytes(load[index]) / links[index].goodput);
        load[index] = 0;
    }
    return longest;
}

Seconds collective_time(CollectiveKind kind, CollectiveAlgorithm algorithm, const Group& group, Bytes size,
                        const Topology& topology) {
    const Timed timed = decompose_timed(kind, algorithm, group, size, topology);
    return timed.decomposition.latency + timed.transfer;
}

Seconds concurrent_collective_time(CollectiveKind kind, CollectiveAlgorithm algorithm, const std::vector<Group>& groups,
                                   Bytes size, const Topology& topology) {
    if (groups.empty()) return Seconds(0);
    std::optional<Seconds> best;
    for (const CollectiveAlgorithm candidate :
         candidates(kind, algorithm, lay_out(groups.front(), topology), topology)) {
        Seconds latency(0);
        std::vector<HopFlow> flows;
        for (const Group& group : groups) {
            Decomposition one = decompose(kind, candidate, group, size, topology);
            latency = std::max(latency, one.latency);
            flows.insert(flows.end(), one.flows.begin(), one.flows.end());
        }
        const Seconds time = latency + bottleneck_time(flows, topology);
        if (!best || time < *best) best = time;
    }
    return best.value_or(Seconds(0));
}

bool owns_its_links(const Group& group, const Topology& topology) {
    if (group.size() < 2) return true;
    if (!topology.has_node_switch()) return false;
    return std::all_of(group.begin(), group.end(),
                       [&](DeviceId device) { return topology.same_node(device, group.front()); });
}

}  // namespace plansim
