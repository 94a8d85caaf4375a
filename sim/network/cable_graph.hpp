// SPDX-License-Identifier: Apache-2.0
// A fabric that the platform file gives cable by cable: its vertices, minimal routes and maximal flow.
//
// Models: every cable as two directed links, `count` parallel cables as one wide cable; static routes of the fewest
// hops, among those the one whose narrowest link is widest, among those the one with the lowest link numbers. A vertex
// "node2" stands for the attachment of a whole node: its devices reach it without using a link, so devices of one node
// that has no fabric of its own exchange data through it without limit. Devices and nodes pass traffic on, like
// switches do. Leaves out: multipath, adaptive routing, costs other than hops.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/spec/platform.hpp"

namespace plansim {

/// One cable whose two ends are in use. Its links are 2 * position (from -> to) and 2 * position + 1 (to -> from).
struct Cable {
    int index = 0;  // in Fabric::links
    int from = 0;   // vertex
    int to = 0;
    BytesPerSecond bandwidth;
};

class CableGraph {
  public:
    /// Of the fabric between nodes: "device3" is global, "node2" is known. `key` is "fabric.links" in messages.
    /// Of the fabric inside a node (devices_per_node == 0): "device3" counts from the start of the node.
    /// Cables to devices and nodes from `devices` on are left out. Throws InputError for an unknown end.
    CableGraph(const Fabric& fabric, int devices, int devices_per_node, std::string source_file, std::string key);

    [[nodiscard]] const std::vector<Cable>& cables() const { return cables_; }
    /// Throws InputError for the first pair of devices (of different nodes, if `across_nodes_only`) without a route.
    void check_connected(bool across_nodes_only) const;
    /// Appends first_link + the link of every hop.
    void route(int source, int destination, std::int32_t first_link, std::vector<std::int32_t>& into) const;
    /// Maximal flow from devices 0 .. boundary-1 to the others.
    [[nodiscard]] BytesPerSecond max_flow(int boundary) const;

  private:
    struct Hop {
        int to;
        std::int32_t link;  // kFree: from a device to the vertex of its node or back
        double bandwidth;
    };
    struct Step {
        int previous;
        std::int32_t link;
    };

    int vertex_of(const std::string& name, int cable, std::string_view end) const;
    void add_hops();
    [[nodiscard]] std::vector<int> islands() const;
    [[nodiscard]] const std::vector<Step>& steps_from(int source) const;
    [[noreturn]] void fail(int source, int destination) const;

    int devices_;
    int devices_per_node_;  // 0: no vertices for nodes
    int nodes_;
    std::string source_file_;
    std::string key_;
    std::vector<std::string> switches_;
    std::vector<Cable> cables_;
    std::vector<std::vector<Hop>> hops_;            // by vertex: devices, nodes, switches
    mutable std::vector<std::vector<Step>> steps_;  // by source device; empty until asked for
};

}  // namespace plansim
