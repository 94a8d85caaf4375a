// SPDX-License-Identifier: Apache-2.0
// Routes, capacities and bisection of every kind of fabric against figures derived by hand.
#include "sim/network/topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"

namespace plansim {
namespace {

constexpr BytesPerSecond gigabytes(double value) {
    return BytesPerSecond(value * 1e9);
}

Platform cluster(int nodes, int devices_per_node) {
    Platform platform;
    platform.name = "test";
    platform.source_file = "cluster.yaml";
    platform.devices = nodes * devices_per_node;
    platform.devices_per_node = devices_per_node;
    return platform;
}

Fabric switched(double bandwidth) {
    Fabric fabric;
    fabric.kind = FabricKind::nvswitch;
    fabric.bandwidth = gigabytes(bandwidth);
    fabric.collectives.efficiency = 0.5;
    return fabric;
}

Fabric tree(FabricKind kind, double bandwidth, int nics, int nodes_per_leaf, double oversubscription) {
    Fabric fabric;
    fabric.kind = kind;
    fabric.bandwidth = gigabytes(bandwidth);
    fabric.nics = nics;
    fabric.nodes_per_leaf = nodes_per_leaf;
    fabric.oversubscription = oversubscription;
    fabric.collectives.efficiency = 0.75;
    return fabric;
}

Fabric torus(std::vector<std::int64_t> dims) {
    Fabric fabric;
    fabric.kind = FabricKind::torus;
    fabric.bandwidth = gigabytes(100);
    fabric.dims = std::move(dims);
    return fabric;
}

Fabric graph(std::vector<std::string> switches, std::vector<GraphLink> links) {
    Fabric fabric;
    fabric.kind = FabricKind::graph;
    fabric.switches = std::move(switches);
    fabric.links = std::move(links);
    return fabric;
}

std::vector<std::string> names(const Topology& topology, DeviceId source, DeviceId destination) {
    Route route;
    topology.route(source, destination, route);
    std::vector<std::string> result;
    for (const LinkId link : route)
        result.push_back(topology.links().at(static_cast<std::size_t>(link)).name);
    return result;
}

const Link& link_named(const Topology& topology, const std::string& name) {
    for (const Link& link : topology.links())
        if (link.name == name) return link;
    throw std::out_of_range("no link " + name);
}

std::string input_error(const Platform& platform) {
    try {
        const Topology topology(platform);
    } catch (const InputError& error) {
        return error.what();
    }
    return "no error";
}

using Names = std::vector<std::string>;

TEST(Topology, ARouteInsideANodeTakesTheTwoPortsOfItsSwitch) {
    Platform platform = cluster(2, 4);
    platform.node_fabric = switched(450);
    platform.fabric = tree(FabricKind::fat_tree, 50, 4, 0, 1);
    const Topology topology(platform);
    EXPECT_EQ(names(topology, 5, 7), (Names{"node1.device1.up", "node1.device3.down"}));
    EXPECT_EQ(names(topology, 5, 5), Names{});
    const Link& port = link_named(topology, "node1.device1.up");
    EXPECT_EQ(port.link_class, LinkClass::node);
    EXPECT_DOUBLE_EQ(port.bandwidth.value(), 450e9);
    EXPECT_DOUBLE_EQ(port.goodput.value(), 225e9);  // efficiency 0.5
}

TEST(Topology, ARouteOnOneRailOfOnePodTakesTwoNicsAndOtherRoutesTakeTheSpine) {
    // 4 nodes in pods of 2, a NIC per device. Device 4 is NIC 0 of node 1, device 5 its NIC 1, device 8 NIC 0 of
    // node 2.
    Platform platform = cluster(4, 4);
    platform.node_fabric = switched(450);
    platform.fabric = tree(FabricKind::fat_tree, 50, 4, 2, 1);
    const Topology topology(platform);
    EXPECT_EQ(names(topology, 0, 4), (Names{"node0.nic0.up", "node1.nic0.down"}));
    EXPECT_EQ(names(topology, 0, 5), (Names{"node0.nic0.up", "pod0.leaf0.up", "pod0.leaf1.down", "node1.nic1.down"}));
    EXPECT_EQ(names(topology, 0, 8), (Names{"node0.nic0.up", "pod0.leaf0.up", "pod1.leaf0.down", "node2.nic0.down"}));
    EXPECT_FALSE(link_named(topology, "pod0.leaf0.up").binding);
    EXPECT_DOUBLE_EQ(link_named(topology, "node0.nic0.up").goodput.value(), 37.5e9);  // 50 x 0.75
}

TEST(Topology, OversubscribedLeavesOfARailBindAtTheNicsOfTheirNodesOverTheRatio) {
    // A rail leaf of a pod of 2 nodes has 2 NICs of 50 GB/s below it: 100 / 2.5 = 40 GB/s upwards.
    // 3 nodes: the second pod has one node in use: 50 / 2.5 = 20 GB/s.
    Platform platform = cluster(3, 4);
    platform.node_fabric = switched(450);
    platform.fabric = tree(FabricKind::fat_tree, 50, 4, 2, 2.5);
    const Topology topology(platform);
    EXPECT_TRUE(link_named(topology, "pod0.leaf3.up").binding);
    EXPECT_DOUBLE_EQ(link_named(topology, "pod0.leaf3.up").bandwidth.value(), 40e9);
    EXPECT_DOUBLE_EQ(link_named(topology, "pod1.leaf3.down").bandwidth.value(), 20e9);
    EXPECT_EQ(link_named(topology, "pod1.leaf3.down").link_class, LinkClass::leaf);
}

TEST(Topology, DevicesOfANodeShareItsNicsInEqualRuns) {
    // 8 devices, 2 NICs: devices 0-3 use NIC 0, devices 4-7 NIC 1.
    Platform platform = cluster(2, 8);
    platform.node_fabric = switched(450);
    platform.fabric = tree(FabricKind::spine_leaf, 12.5, 2, 0, 1);
    const Topology topology(platform);
    EXPECT_EQ(names(topology, 3, 11), (Names{"node0.nic0.up", "node1.nic0.down"}));
    EXPECT_EQ(names(topology, 4, 11), (Names{"node0.nic1.up", "node1.nic0.down"}));
}

TEST(Topology, ASpineLeafRouteLeavesTheLeafOnlyForAnotherLeaf) {
    // 4 nodes of 2 NICs at 25 GB/s, 2 nodes a leaf, 4:1: trunk = 2 x 2 x 25 / 4 = 25 GB/s.
    Platform platform = cluster(4, 2);
    platform.node_fabric = switched(450);
    platform.fabric = tree(FabricKind::spine_leaf, 25, 2, 2, 4);
    const Topology topology(platform);
    EXPECT_EQ(names(topology, 0, 3), (Names{"node0.nic0.up", "node1.nic1.down"}));
    EXPECT_EQ(names(topology, 0, 4), (Names{"node0.nic0.up", "leaf0.up", "leaf1.down", "node2.nic0.down"}));
    EXPECT_DOUBLE_EQ(link_named(topology, "leaf1.down").bandwidth.value(), 25e9);
}

TEST(Topology, DevicesOfANodeWithoutAFabricTalkOverTheirNics) {
    Platform platform = cluster(1, 4);
    platform.fabric = tree(FabricKind::spine_leaf, 25, 4, 0, 1);
    const Topology topology(platform);
    EXPECT_FALSE(topology.has_node_fabric());
    EXPECT_EQ(names(topology, 1, 2), (Names{"node0.nic1.up", "node0.nic2.down"}));
}

TEST(Topology, ATorusRouteGoesTheShorterWayRoundAndUpwardsAtExactlyHalf) {
    // 4 x 3; device = x + 4 y. 0 -> 3 along x: one step down (through the wrap). 0 -> 2: two either way, so upwards.
    Platform platform = cluster(12, 1);
    platform.fabric = torus({4, 3});
    const Topology topology(platform);
    EXPECT_EQ(names(topology, 0, 3), (Names{"torus0.0-"}));
    EXPECT_EQ(names(topology, 0, 2), (Names{"torus0.0+", "torus1.0+"}));
    EXPECT_EQ(names(topology, 1, 10), (Names{"torus1.0+", "torus2.1-"}));  // (1,0) -> (2,2): x first, then y down
    EXPECT_EQ(topology.links().size(), 12u * 4u);
}

TEST(Topology, ATorusAxisOfTwoIsOneCableAndAnAxisOfOneHasNone) {
    Platform platform = cluster(2, 1);
    platform.fabric = torus({1, 2, 1});
    const Topology topology(platform);
    EXPECT_EQ(topology.links().size(), 2u);
    EXPECT_EQ(names(topology, 0, 1), (Names{"torus0.1+"}));
    EXPECT_EQ(names(topology, 1, 0), (Names{"torus1.1+"}));
}

TEST(Topology, AGraphRouteHasTheFewestHopsThenTheWidestThenTheFirstCables) {
    // device0 - a - device1 and device0 - b - device1: two hops each, b is wider. The direct way over c and d is
    // longer.
    const Fabric two_ways = graph({"a", "b", "c", "d"}, {{"device0", "a", gigabytes(10)},
                                                         {"a", "device1", gigabytes(10)},
                                                         {"device0", "b", gigabytes(10), 2},
                                                         {"b", "device1", gigabytes(15)},
                                                         {"device0", "c", gigabytes(99)},
                                                         {"c", "d", gigabytes(99)},
                                                         {"d", "device1", gigabytes(99)}});
    Platform platform = cluster(2, 1);
    platform.fabric = two_ways;
    EXPECT_EQ(names(Topology(platform), 0, 1), (Names{"cable2.forward", "cable3.forward"}));
    EXPECT_EQ(names(Topology(platform), 1, 0), (Names{"cable3.backward", "cable2.backward"}));
    EXPECT_DOUBLE_EQ(link_named(Topology(platform), "cable2.backward").bandwidth.value(), 20e9);
    platform.fabric.links[2].count = 1;  // both ways are 10 GB/s wide at their narrowest now
    EXPECT_EQ(names(Topology(platform), 0, 1), (Names{"cable0.forward", "cable1.forward"}));
}

TEST(Topology, DevicesReachAGraphFabricThroughTheirNode) {
    Platform platform = cluster(3, 2);
    platform.node_fabric = switched(450);
    platform.fabric =
        graph({"core"},
              {{"node0", "core", gigabytes(10)}, {"node1", "core", gigabytes(10)}, {"node2", "core", gigabytes(10)}});
    const Topology topology(platform);
    EXPECT_EQ(names(topology, 1, 5), (Names{"cable0.forward", "cable2.backward"}));
    EXPECT_EQ(names(topology, 0, 1), (Names{"node0.device0.up", "node0.device1.down"}));
    EXPECT_EQ(topology.links()[topology.links().size() - 1].link_class, LinkClass::cable);
}

TEST(Topology, TheGraphOfANodeIsRepeatedForEveryNode) {
    Platform platform = cluster(2, 2);
    platform.node_fabric = graph({}, {{"device0", "device1", gigabytes(200)}});
    platform.fabric = tree(FabricKind::fat_tree, 50, 2, 0, 1);
    const Topology topology(platform);
    EXPECT_EQ(names(topology, 3, 2), (Names{"node1.cable0.backward"}));
    EXPECT_EQ(names(topology, 0, 1), (Names{"node0.cable0.forward"}));
}

TEST(Topology, AnUnreachableDeviceIsNamedWithThePairAndTheMissingLink) {
    Platform platform = cluster(4, 1);
    platform.fabric = graph(
        {"core"},
        {{"device0", "core", gigabytes(10)}, {"device1", "core", gigabytes(10)}, {"device2", "core", gigabytes(10)}});
    EXPECT_EQ(input_error(platform),
              "cluster.yaml: error: fabric.links: no route from device0 to device3; device3 has no link; add one that "
              "ends at 'device3' or 'node3'");
    platform.fabric.links.push_back({"device3", "other", gigabytes(10)});
    platform.fabric.switches.emplace_back("other");
    EXPECT_EQ(input_error(platform),
              "cluster.yaml: error: fabric.links: no route from device0 to device3; the links form separate islands; "
              "add one between them");
}

TEST(Topology, AnUnknownEndOfACableIsAnInputError) {
    Platform platform = cluster(2, 1);
    platform.fabric = graph({"core"}, {{"device0", "core", gigabytes(10)}, {"device1", "cor", gigabytes(10)}});
    EXPECT_EQ(input_error(platform),
              "cluster.yaml: error: fabric.links[1].to: unknown end 'cor'; did you mean 'core'?");
    platform.fabric.links[1].to = "zzzzzzzz";
    EXPECT_EQ(input_error(platform),
              "cluster.yaml: error: fabric.links[1].to: unknown end 'zzzzzzzz'; ends are deviceN, nodeN or a name "
              "listed under switches");
}

TEST(Topology, NodesWithoutAFabricBetweenThemAreAnInputErrorAndOneNodeIsNot) {
    Platform platform = cluster(2, 8);
    platform.node_fabric = switched(450);
    EXPECT_EQ(input_error(platform),
              "cluster.yaml: error: fabric.kind: 'none' cannot join 2 nodes; choose a fabric, or use fewer devices");
    platform.devices = 8;
    EXPECT_EQ(input_error(platform), "no error");
}

TEST(Topology, ATorusWhoseDimensionsDoNotGiveItsDevicesIsAnInputError) {
    Platform platform = cluster(12, 1);
    platform.fabric = torus({4, 4});
    EXPECT_EQ(input_error(platform),
              "cluster.yaml: error: fabric.dims: the product is 16, but the platform has 12 devices");
}

TEST(Topology, BisectionOfOneSwitchedNodeIsHalfOfItsPorts) {
    Platform platform = cluster(1, 8);
    platform.node_fabric = switched(450);
    EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 4 * 450e9);
    platform.devices = 1;
    EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 0);
}

TEST(Topology, BisectionOfTreesIsTheNicsOfHalfTheNodesOrTheirOversubscribedLeaves) {
    // 8 nodes x 4 NICs x 50 GB/s: NICs of 4 nodes = 800 GB/s. Leaves of 2 nodes at 4:1: 2 leaves x 400 / 4 = 200 GB/s.
    Platform platform = cluster(8, 4);
    platform.node_fabric = switched(450);
    for (const FabricKind kind : {FabricKind::fat_tree, FabricKind::spine_leaf}) {
        platform.fabric = tree(kind, 50, 4, 2, 1);
        EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 800e9);
        platform.fabric.oversubscription = 4;
        EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 200e9);
        platform.fabric.nodes_per_leaf = 0;  // all under one leaf: the uplinks are not in the way
        EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 800e9);
    }
}

TEST(Topology, BisectionOfATorusCutsItsLongestAxisTwice) {
    // 4 x 4 x 8: two planes of 16 links of 100 GB/s. 2 x 2 x 2: an axis of two is one cable, so 4 links.
    Platform platform = cluster(128, 1);
    platform.fabric = torus({4, 4, 8});
    EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 2 * 16 * 100e9);
    platform = cluster(8, 1);
    platform.fabric = torus({2, 2, 2});
    EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 4 * 100e9);
}

TEST(Topology, BisectionOfAGraphIsTheMaximalFlowBetweenItsHalves) {
    // Four devices on two switches that are joined by 30 GB/s; devices 0 and 1 on one side. Devices have 20 GB/s each.
    Platform platform = cluster(4, 1);
    platform.fabric = graph({"left", "right"}, {{"device0", "left", gigabytes(20)},
                                                {"device1", "left", gigabytes(20)},
                                                {"device2", "right", gigabytes(20)},
                                                {"device3", "right", gigabytes(20)},
                                                {"left", "right", gigabytes(15), 2}});
    EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 30e9);
    // A second way of 8 GB/s from device0 to device3 adds its own width.
    platform.fabric.links.push_back({"device0", "device3", gigabytes(8)});
    EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 38e9);
    // In a node: a ring of four 10 GB/s cables is cut twice between {0, 1} and {2, 3}.
    platform = cluster(1, 4);
    platform.node_fabric = graph({}, {{"device0", "device1", gigabytes(10)},
                                      {"device1", "device2", gigabytes(10)},
                                      {"device2", "device3", gigabytes(10)},
                                      {"device3", "device0", gigabytes(10)}});
    EXPECT_DOUBLE_EQ(Topology(platform).bisection().value(), 20e9);
}

TEST(Topology, PointToPointLatencyIsThatOfTheFabricBetweenTheDevices) {
    Platform platform = cluster(2, 2);
    platform.node_fabric = switched(450);
    platform.node_fabric.collectives.p2p_latency = Seconds(3e-6);
    platform.fabric = tree(FabricKind::fat_tree, 50, 2, 0, 1);
    platform.fabric.collectives.p2p_latency = Seconds(15e-6);
    const Topology topology(platform);
    EXPECT_DOUBLE_EQ(topology.p2p_latency(0, 1).value(), 3e-6);
    EXPECT_DOUBLE_EQ(topology.p2p_latency(0, 2).value(), 15e-6);
}

TEST(Topology, EveryRouteOfEveryFabricHasDistinctLinks) {
    std::vector<Platform> platforms(3, cluster(4, 4));
    for (Platform& platform : platforms)
        platform.node_fabric = switched(450);
    platforms[0].fabric = tree(FabricKind::fat_tree, 50, 2, 2, 2);
    platforms[1].fabric = tree(FabricKind::spine_leaf, 50, 1, 3, 2);
    platforms[2].fabric = torus({4, 2, 2});
    for (const Platform& platform : platforms) {
        const Topology topology(platform);
        for (DeviceId source = 0; source < topology.devices(); ++source)
            for (DeviceId destination = 0; destination < topology.devices(); ++destination) {
                Route route;
                topology.route(source, destination, route);
                EXPECT_EQ(route.empty(), source == destination);
                std::sort(route.begin(), route.end());
                EXPECT_EQ(std::adjacent_find(route.begin(), route.end()), route.end());
            }
    }
}

}  // namespace
}  // namespace plansim
