// SPDX-License-Identifier: Apache-2.0
// Volumes, flows and times of collectives against closed forms. Latencies and ramps are zero where not under test.
#include "sim/collective/collective.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace plansim {
namespace {

constexpr auto kAllReduce = CollectiveKind::all_reduce;
constexpr auto kRing = CollectiveAlgorithm::ring;
constexpr auto kTree = CollectiveAlgorithm::tree;
constexpr auto kInNetwork = CollectiveAlgorithm::in_network;
constexpr auto kAutomatic = CollectiveAlgorithm::automatic;
constexpr Bytes kSize(840'000'000);  // divides by 2 .. 8

CollectiveFigures plain() {
    CollectiveFigures figures;
    figures.efficiency = 1;
    figures.all_to_all_efficiency = 1;
    figures.latency = figures.hop_latency = figures.tree_latency = figures.p2p_latency = Seconds(0);
    figures.ramp = 0;
    return figures;
}

/// Nodes of 8 devices at 400 GB/s, NICs of 50 GB/s.
Platform cluster(int nodes, int nics = 8) {
    Platform platform;
    platform.name = "test";
    platform.devices = 8 * nodes;
    platform.devices_per_node = 8;
    platform.node_fabric.kind = FabricKind::nvswitch;
    platform.node_fabric.bandwidth = BytesPerSecond(400e9);
    platform.node_fabric.collectives = plain();
    platform.fabric.kind = FabricKind::fat_tree;
    platform.fabric.bandwidth = BytesPerSecond(50e9);
    platform.fabric.nics = nics;
    platform.fabric.collectives = plain();
    return platform;
}

Platform torus(std::vector<std::int64_t> dims) {
    Platform platform;
    platform.name = "torus";
    platform.devices = static_cast<int>(
        std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, [](auto a, auto b) { return a * b; }));
    platform.fabric.kind = FabricKind::torus;
    platform.fabric.bandwidth = BytesPerSecond(100e9);
    platform.fabric.dims = std::move(dims);
    platform.fabric.collectives = plain();
    return platform;
}

Group range(DeviceId first, int count, int stride = 1) {
    Group group;
    for (int rank = 0; rank < count; ++rank)
        group.push_back(first + rank * stride);
    return group;
}

double time_of(CollectiveKind kind, CollectiveAlgorithm algorithm, const Group& group, const Platform& platform,
               Bytes size = kSize) {
    return collective_time(kind, algorithm, group, size, Topology(platform)).value();
}

TEST(Collective, RingVolumeIsTheShareOfTheOtherRanksOncePerPass) {
    for (int ranks = 2; ranks <= 8; ++ranks) {
        const std::int64_t once = kSize.value() / ranks * (ranks - 1);
        EXPECT_EQ(ring_volume(CollectiveKind::all_gather, ranks, kSize).value(), once);
        EXPECT_EQ(ring_volume(CollectiveKind::reduce_scatter, ranks, kSize).value(), once);
        EXPECT_EQ(ring_volume(CollectiveKind::all_to_all, ranks, kSize).value(), once);
        EXPECT_EQ(ring_volume(kAllReduce, ranks, kSize).value(), 2 * once);
        EXPECT_EQ(ring_volume(CollectiveKind::broadcast, ranks, kSize), kSize);
    }
    EXPECT_EQ(ring_volume(kAllReduce, 1, kSize).value(), 0);
}

TEST(Collective, OneRankOrNoBytesTakesNoTime) {
    const Topology topology(cluster(2));
    for (const auto kind : {kAllReduce, CollectiveKind::all_gather, CollectiveKind::all_to_all}) {
        EXPECT_TRUE(decompose(kind, kAutomatic, {3}, kSize, topology).flows.empty());
        EXPECT_EQ(collective_time(kind, kAutomatic, {3}, kSize, topology), Seconds(0));
        EXPECT_EQ(collective_time(kind, kAutomatic, range(0, 8), Bytes(0), topology), Seconds(0));
    }
}

TEST(Collective, ARingAllReduceInANodeTakesLatencyPlusItsVolumeOverThePort) {
    // t = latency + 2 (n-1) steps + 2 (n-1)/n S / B
    Platform platform = cluster(1);
    platform.node_fabric.collectives.latency = Seconds(20e-6);
    platform.node_fabric.collectives.hop_latency = Seconds(1e-6);
    for (int ranks = 2; ranks <= 8; ++ranks) {
        const double transfer = 2.0 * (ranks - 1) / ranks * kSize.as_double() / 400e9;
        EXPECT_NEAR(time_of(kAllReduce, kRing, range(0, ranks), platform), (20 + 2 * (ranks - 1)) * 1e-6 + transfer,
                    1e-12);
        // all-gather: half of the volume, half of the steps
        EXPECT_NEAR(time_of(CollectiveKind::all_gather, kRing, range(0, ranks), platform),
                    (20 + ranks - 1) * 1e-6 + transfer / 2, 1e-12);
    }
}

// Steps of S/2, S/4, ... each way, one after another: 2 (n-1)/n S over the port inside a node, where all are alike.
TEST(Collective, HalvingAndDoublingMovesTheBytesOfARingInLogarithmicSteps) {
    Platform platform = cluster(1);
    platform.node_fabric.collectives.hop_latency = Seconds(1e-6);
    constexpr auto kHalving = CollectiveAlgorithm::halving_doubling;
    for (const int ranks : {2, 4, 8}) {
        const double transfer = 2.0 * (ranks - 1) / ranks * kSize.as_double() / 400e9;
        EXPECT_NEAR(time_of(kAllReduce, kHalving, range(0, ranks), platform), 2 * std::log2(ranks) * 1e-6 + transfer,
                    1e-9);
    }
    // Not a power of two: the ring stands in.
    const Topology topology(platform);
    EXPECT_EQ(decompose(kAllReduce, kHalving, range(0, 6), kSize, topology).algorithm, kRing);
    // Over two nodes the first three steps stay inside (S/2, S/4, S/8 each way), the last one trades S/16 over each
    // NIC.
    Platform two = cluster(2);
    const double inside = 2 * (0.5 + 0.25 + 0.125) * kSize.as_double() / 400e9;
    EXPECT_NEAR(time_of(kAllReduce, kHalving, range(0, 16), two), inside + kSize.as_double() / 8 / 50e9, 1e-6);
    // A fabric can name it; automatic follows.
    two.fabric.collectives.algorithm = kHalving;
    EXPECT_EQ(decompose(kAllReduce, kAutomatic, range(0, 16), kSize, Topology(two)).algorithm, kHalving);
}

TEST(Collective, TheCopyOfARanksOwnShareWeighsMoreInSmallGroups) {
    // V + S / (2n): 2 ranks (1 + 1/4) S, 8 ranks (7/4 + 1/16) S; all-gather of 2 ranks (1/2 + 1/4) S. A broadcast has
    // no own share.
    Platform platform = cluster(1);
    platform.node_fabric.collectives.own_share = 0.5;
    const double unit = kSize.as_double() / 400e9;
    EXPECT_NEAR(time_of(kAllReduce, kRing, range(0, 2), platform), 1.25 * unit, 1e-12);
    EXPECT_NEAR(time_of(kAllReduce, kRing, range(0, 8), platform), 1.8125 * unit, 1e-12);
    EXPECT_NEAR(time_of(CollectiveKind::all_gather, kRing, range(0, 2), platform), 0.75 * unit, 1e-12);
    EXPECT_NEAR(time_of(CollectiveKind::broadcast, kRing, range(0, 2), platform), unit, 1e-12);
}

TEST(Collective, AGroupAcrossNodesIsLimitedByTheNicsThatItsMembersDriveInANode) {
    // 2 nodes with l members each: n = 2 l, every NIC carries V / l, V = 2 (n-1)/n S.
    const Platform platform = cluster(2);
    for (const int members : {1, 2, 4, 8}) {
        Group group = range(0, members);
        for (const DeviceId device : range(8, members))
            group.push_back(device);
        const int ranks = 2 * members;
        const double volume = 2.0 * (ranks - 1) / ranks * kSize.as_double();
        const double expected = std::max(volume / members / 50e9, members > 1 ? volume / 400e9 : 0.0);
        EXPECT_NEAR(time_of(kAllReduce, kRing, group, platform), expected, 1e-9 * expected) << members;
    }
}

TEST(Collective, AGroupThatStraddlesNodesUnevenlyIsLimitedByTheSmallerNode) {
    // 3 members in node 0 and 1 in node 1: one lane carries V = 2 x 3/4 S over one NIC.
    const Group group{5, 6, 7, 8};
    const double expected = 1.5 * kSize.as_double() / 50e9;
    EXPECT_NEAR(time_of(kAllReduce, kRing, group, cluster(2)), expected, 1e-9 * expected);
    // The order of the ranks does not matter.
    EXPECT_EQ(time_of(kAllReduce, kRing, {8, 6, 5, 7}, cluster(2)), time_of(kAllReduce, kRing, group, cluster(2)));
}

TEST(Collective, SiblingGroupsThatShareANicTakeTwiceAsLong) {
    // 8 devices share 4 NICs: devices 0 and 1 share NIC 0. Groups {0, 8} and {1, 9}: V = S each over one NIC.
    const Topology shared(cluster(2, 4));
    const double alone = kSize.as_double() / 50e9;
    EXPECT_NEAR(concurrent_collective_time(kAllReduce, kRing, {{0, 8}}, kSize, shared).value(), alone, 1e-9);
    EXPECT_NEAR(concurrent_collective_time(kAllReduce, kRing, {{0, 8}, {1, 9}}, kSize, shared).value(), 2 * alone,
                1e-9);
    EXPECT_NEAR(concurrent_collective_time(kAllReduce, kRing, {{0, 8}, {2, 10}}, kSize, shared).value(), alone, 1e-9);
    const Topology own(cluster(2, 8));
    EXPECT_NEAR(concurrent_collective_time(kAllReduce, kRing, {{0, 8}, {1, 9}}, kSize, own).value(), alone, 1e-9);
}

TEST(Collective, EveryRankOfARingSendsWhatItReceives) {
    const Topology topology(cluster(3));
    const Group uneven{0, 1, 2, 3, 4, 8, 9, 10, 16};
    for (const auto kind : {kAllReduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
        std::map<int, std::int64_t> node_balance;
        std::map<int, std::int64_t> sent_by_node;
        std::map<DeviceId, std::int64_t> inside_balance;
        const Decomposition ring = decompose(kind, kRing, uneven, Bytes(1'000'003), topology);
        for (const HopFlow& flow : ring.flows) {
            const int from = topology.node_of(flow.source);
            const int to = topology.node_of(flow.destination);
            node_balance[from] += flow.bytes.value();
            node_balance[to] -= flow.bytes.value();
            if (from != to) sent_by_node[from] += flow.bytes.value();
            if (from == to) inside_balance[flow.source] += flow.bytes.value();
            if (from == to) inside_balance[flow.destination] -= flow.bytes.value();
        }
        for (const auto& [node, balance] : node_balance)
            EXPECT_EQ(balance, 0) << node;
        for (const auto& [device, balance] : inside_balance)
            EXPECT_EQ(balance, 0) << device;
        const std::int64_t volume = ring_volume(kind, 9, Bytes(1'000'003)).value();
        for (const auto& [node, bytes] : sent_by_node)
            EXPECT_EQ(bytes, volume) << "the lanes add up exactly";
    }
}

TEST(Collective, RingLatencyGrowsWithTheNodesAndTreeLatencyWithTheirLogarithm) {
    // base 20 us of the node fabric and 1 us per step of 8 members, 14 of all-reduce and 7 of others; 4 nodes: ring + 2
    // x 3 x 5 us (all-reduce), + 3 x 5 us (others); tree + 2 x 26 us.
    Platform platform = cluster(4);
    platform.node_fabric.collectives.latency = Seconds(20e-6);
    platform.node_fabric.collectives.hop_latency = Seconds(1e-6);
    platform.fabric.collectives.latency = Seconds(1);  // not used: the nodes have a fabric
    platform.fabric.collectives.hop_latency = Seconds(5e-6);
    platform.fabric.collectives.tree_latency = Seconds(26e-6);
    const Topology topology(platform);
    const auto latency = [&](CollectiveKind kind, CollectiveAlgorithm algorithm) {
        return decompose(kind, algorithm, range(0, 32), kSize, topology).latency.value();
    };
    EXPECT_NEAR(latency(kAllReduce, kRing), 34e-6 + 30e-6, 1e-12);
    EXPECT_NEAR(latency(CollectiveKind::all_gather, kRing), 27e-6 + 15e-6, 1e-12);
    EXPECT_NEAR(latency(kAllReduce, kTree), 34e-6 + 52e-6, 1e-12);
    EXPECT_NEAR(latency(CollectiveKind::broadcast, kRing), 27e-6 + 15e-6, 1e-12);
    EXPECT_NEAR(latency(CollectiveKind::all_to_all, kAutomatic), 21e-6 + 5e-6, 1e-12);
}

TEST(Collective, ATreeMovesTheWholeTensorUpAndDownAndWinsWhenLatencyCounts) {
    // 16 nodes, one member each: tree volume 2 S against ring 2 x 15/16 S; tree 4 x 10 us against ring 30 x 10 us.
    // Equal at 2/16 S / 50 GB/s = 260 us: S = 104 MB.
    Platform platform = cluster(16);
    platform.fabric.collectives.hop_latency = Seconds(10e-6);
    platform.fabric.collectives.tree_latency = Seconds(10e-6);
    const Topology topology(platform);
    const Group group = range(0, 16, 8);
    const auto chosen = [&](std::int64_t size) {
        return decompose(kAllReduce, kAutomatic, group, Bytes(size), topology).algorithm;
    };
    EXPECT_EQ(chosen(103'000'000), kTree);
    EXPECT_EQ(chosen(105'000'000), kRing);
    EXPECT_NEAR(time_of(kAllReduce, kTree, group, platform), 40e-6 + 2 * kSize.as_double() / 50e9, 1e-9);
}

TEST(Collective, SmallMessagesTakeTheExcessOfTheRamp) {
    // 4 ranks: V = 2 x 3/4 S = 75 MB for S = 50 MB. r = 0.9 x log2(4)/3 = 0.6; ramp 25 MB: 0.6 / (1 + 3) = 0.15.
    Platform platform = cluster(2);
    platform.node_fabric.collectives.ramp = 0.9;
    platform.node_fabric.collectives.ramp_bytes = Bytes(25'000'000);
    EXPECT_NEAR(time_of(kAllReduce, kRing, range(0, 4), platform, Bytes(50'000'000)), 75e6 / 400e9 * 1.15, 1e-12);
    // all-gather: V = 37.5 MB, r = 0.75 x 0.6 = 0.45, / (1 + 1.5) = 0.18
    EXPECT_NEAR(time_of(CollectiveKind::all_gather, kRing, range(0, 4), platform, Bytes(50'000'000)),
                37.5e6 / 400e9 * 1.18, 1e-12);
    // 16 ranks over nodes use the figures of the fabric between nodes; r = 0.9 beyond 8 ranks.
    platform.fabric.collectives.ramp = 0.9;
    platform.fabric.collectives.ramp_bytes = Bytes(93'750'000);  // V of 50 MB and 16 ranks: excess 0.9 / 2
    EXPECT_NEAR(time_of(kAllReduce, kRing, range(0, 16), platform, Bytes(50'000'000)), 93.75e6 / 400e9 * 1.45, 1e-9);
}

TEST(Collective, OfTwoNodesEachIsTheRootOfOneTreeSoThatATreeMovesHalf) {
    // Double binary tree, S/2 per tree. 2 nodes: each sends S/2 up in one tree and S/2 down in the other: S. 3 nodes:
    // the middle of one tree is a leaf of the other: 3/2 S. From 4 nodes on 2 S. One member a node: NIC of 50 GB/s.
    const double unit = kSize.as_double() / 50e9;
    for (const auto& [nodes, volume] : {std::pair{2, 1.0}, {3, 1.5}, {4, 2.0}, {5, 2.0}})
        EXPECT_NEAR(time_of(kAllReduce, kTree, range(0, nodes, 8), cluster(nodes)), volume * unit, 1e-9) << nodes;
    // With 8 members a node, each NIC carries S/8, while the chain inside carries 2 S at 400 GB/s, which takes longer.
    EXPECT_NEAR(time_of(kAllReduce, kTree, range(0, 16), cluster(2)), 2 * kSize.as_double() / 400e9, 1e-9);
}

TEST(Collective, TheSwitchOfANodeReadsTheTensorOnceAndReturnsEachShareOnce) {
    // (n+1)/n S at 0.5 x 400 GB/s, whatever the goodput of rings, here 0.8.
    Platform platform = cluster(1);
    platform.node_fabric.collectives.efficiency = 0.8;
    platform.node_fabric.collectives.in_network_reduction = 0.5;
    for (int ranks = 2; ranks <= 8; ++ranks)
        EXPECT_NEAR(time_of(kAllReduce, kInNetwork, range(0, ranks), platform),
                    (1 + 1.0 / ranks) * kSize.as_double() / 200e9, 1e-9)
            << ranks;
    // Against a ring of 2(n-1)/n S at 0.8: at n = 4, 1.25 / 0.5 = 2.5 > 1.5 / 0.8; with 0.7 it wins from n = 5 on,
    // where 1.2 / 0.7 = 1.71 < 1.6 / 0.8 = 2, and also at n = 4 (1.79 < 1.875), but not at n = 3 (1.90 > 1.67).
    platform.node_fabric.collectives.in_network_reduction = 0.7;
    const Topology topology(platform);
    for (int ranks = 2; ranks <= 8; ++ranks)
        EXPECT_EQ(decompose(kAllReduce, kAutomatic, range(0, ranks), kSize, topology).algorithm,
                  ranks < 4 ? kRing : kInNetwork)
            << ranks;
    // Only all-reduce reduces.
    EXPECT_EQ(decompose(CollectiveKind::all_gather, kInNetwork, range(0, 8), kSize, topology).algorithm, kRing);
}

TEST(Collective, SwitchesThatDoNotReduceLeaveARing) {
    const Topology topology(cluster(2));
    EXPECT_EQ(decompose(kAllReduce, kInNetwork, range(0, 16), kSize, topology).algorithm, kRing);
}

TEST(Collective, ReductionInTheNodeRelievesATreeAcrossNodes) {
    // 2 nodes of 8: inside 9/8 S at 400 GB/s, between S/8 over each NIC of 50 GB/s: the first is longer, 9/8 of the
    // second.
    Platform platform = cluster(2);
    platform.node_fabric.collectives.in_network_reduction = 1;
    const double unit = kSize.as_double() / 400e9;
    EXPECT_NEAR(time_of(kAllReduce, kAutomatic, range(0, 16), platform), 1.125 * unit, 1e-9);
    // 4 nodes: 2 S / 8 over each NIC, twice the unit; the ring takes 2 x 31/32.
    platform = cluster(4);
    platform.node_fabric.collectives.in_network_reduction = 1;
    EXPECT_NEAR(time_of(kAllReduce, kInNetwork, range(0, 32), platform), 2 * unit, 1e-9);
    EXPECT_NEAR(time_of(kAllReduce, kAutomatic, range(0, 32), platform), 2.0 * 31 / 32 * unit, 1e-9);
    // If the network reduces as well, at 0.8 of its rate, each NIC carries S/8 / 0.8.
    platform.fabric.collectives.in_network_reduction = 0.8;
    EXPECT_NEAR(time_of(kAllReduce, kAutomatic, range(0, 32), platform), 1.25 * unit, 1e-9);
}

TEST(Collective, ReductionInTheSwitchTakesALogarithmOfSteps) {
    // 8 members: 2 log2 8 = 6 steps against the 14 of a ring; 2 nodes add one level of the tree.
    Platform platform = cluster(2);
    platform.node_fabric.collectives.in_network_reduction = 1;
    platform.node_fabric.collectives.latency = Seconds(20e-6);
    platform.node_fabric.collectives.hop_latency = Seconds(1e-6);
    platform.fabric.collectives.tree_latency = Seconds(10e-6);
    const Topology topology(platform);
    EXPECT_NEAR(decompose(kAllReduce, kInNetwork, range(0, 8), kSize, topology).latency.value(), 26e-6, 1e-12);
    EXPECT_NEAR(decompose(kAllReduce, kInNetwork, range(0, 16), kSize, topology).latency.value(), 36e-6, 1e-12);
}

TEST(Collective, AllToAllSendsEachShareDirectlyAtItsOwnEfficiency) {
    // 4 ranks in a node: each port sends 3/4 S at 0.5 x 400 GB/s although rings reach 0.8.
    Platform platform = cluster(1);
    platform.node_fabric.collectives.efficiency = 0.8;
    platform.node_fabric.collectives.all_to_all_efficiency = 0.5;
    const Topology topology(platform);
    const Decomposition direct = decompose(CollectiveKind::all_to_all, kAutomatic, range(0, 4), kSize, topology);
    EXPECT_EQ(direct.flows.size(), 12u);
    EXPECT_EQ(direct.algorithm, CollectiveAlgorithm::direct);
    EXPECT_NEAR(time_of(CollectiveKind::all_to_all, kAutomatic, range(0, 4), platform),
                0.75 * kSize.as_double() / 200e9, 1e-12);
}

TEST(Collective, ABroadcastIsAChainWithoutTheClosingHop) {
    // 3 members in each of 2 nodes: 2 hops inside each node, 3 lanes between them.
    const Topology topology(cluster(2));
    const Decomposition chain = decompose(CollectiveKind::broadcast, kRing, {0, 1, 2, 8, 9, 10}, kSize, topology);
    EXPECT_EQ(chain.flows.size(), 2u * 2u + 3u);
    std::int64_t between = 0;
    for (const HopFlow& flow : chain.flows)
        if (!topology.same_node(flow.source, flow.destination)) between += flow.bytes.value();
    EXPECT_EQ(between, kSize.value());
}

TEST(Collective, ARingOnATorusUsesBothDirectionsAndNeighboursOnly) {
    // 4 x 4 torus: a snake that closes over the wrap; each cable carries V/2 each way, so t = V / (2 x 100 GB/s).
    const Platform platform = torus({4, 4});
    const Topology topology(platform);
    const Decomposition ring = decompose(kAllReduce, kRing, range(0, 16), kSize, topology);
    EXPECT_EQ(ring.flows.size(), 32u);
    for (const HopFlow& flow : ring.flows) {
        Route route;
        topology.route(flow.source, flow.destination, route);
        EXPECT_EQ(route.size(), 1u) << flow.source << " -> " << flow.destination;
    }
    const double volume = 2.0 * 15 / 16 * kSize.as_double();
    EXPECT_NEAR(time_of(kAllReduce, kRing, range(0, 16), platform), volume / 200e9, 1e-9);
    // Two neighbours have one cable: V each way.
    EXPECT_NEAR(time_of(kAllReduce, kRing, {0, 1}, platform), kSize.as_double() / 100e9, 1e-9);
}

TEST(Collective, AGroupStridedOverATorusKeepsToItsColumn) {
    // Devices 0, 4, 8, 12 of a 4 x 4 torus are one column: neighbours again.
    const Topology topology(torus({4, 4}));
    for (const HopFlow& flow : decompose(kAllReduce, kRing, range(0, 4, 4), kSize, topology).flows) {
        Route route;
        topology.route(flow.source, flow.destination, route);
        EXPECT_EQ(route.size(), 1u);
    }
}

TEST(Collective, LatencyOfDevicesWithoutNodesCountsDevices) {
    Platform platform = torus({4, 4});
    platform.fabric.collectives.latency = Seconds(10e-6);
    platform.fabric.collectives.hop_latency = Seconds(1e-6);
    const Topology topology(platform);
    EXPECT_NEAR(decompose(kAllReduce, kRing, range(0, 16), kSize, topology).latency.value(), 40e-6, 1e-12);
}

TEST(Collective, OnlyGroupsBehindOneNodeSwitchOwnTheirLinks) {
    const Topology topology(cluster(2));
    EXPECT_TRUE(owns_its_links(range(0, 8), topology));
    EXPECT_TRUE(owns_its_links({5}, topology));
    EXPECT_FALSE(owns_its_links({7, 8}, topology));
    EXPECT_FALSE(owns_its_links({0, 1}, Topology(torus({4}))));
}

}  // namespace
}  // namespace plansim
