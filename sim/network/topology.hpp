// SPDX-License-Identifier: Apache-2.0
// The network of a platform as directed links and the route of every pair of devices.
//
// Models: every full-duplex cable as two directed links; routing is static and minimal. A link that can never be the
// bottleneck (the uplinks of a leaf without oversubscription, assuming that traffic is spread evenly over them) is
// part of the routes, so that its bytes are counted, but is marked as not binding.
// Leaves out: adaptive routing, packet effects, hash collisions of ECMP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/spec/platform.hpp"

namespace plansim {

using DeviceId = std::int32_t;
using LinkId = std::int32_t;

/// What a link is, for the tables: one row of links[] in the report per class.
enum class LinkClass { node, nic, leaf, spine, torus, cable };
std::string_view name_of(LinkClass link_class);

struct Link {
    LinkClass link_class;
    std::string name;          // unique, e.g. "node0.device3.up", "node1.nic2.down", "leaf0.up", "cable4.forward"
    BytesPerSecond bandwidth;  // of the data sheet, per direction
    BytesPerSecond goodput;    // bandwidth x efficiency of its fabric: what flows can use
    bool binding = true;       // false: never limits a flow
};

/// The links on the way from one device to another, in order.
using Route = std::vector<LinkId>;

class Topology {
  public:
    /// Throws InputError if a pair of devices has no route (graph fabrics).
    explicit Topology(const Platform& platform);
    ~Topology();
    Topology(Topology&&) noexcept;

    [[nodiscard]] int devices() const;
    [[nodiscard]] int devices_per_node() const;
    [[nodiscard]] int node_of(DeviceId device) const;
    [[nodiscard]] bool same_node(DeviceId a, DeviceId b) const { return node_of(a) == node_of(b); }
    [[nodiscard]] const std::vector<Link>& links() const;
    /// Appends the route to `into`. Empty for source == destination. O(length) for node, fat_tree, spine_leaf and
    /// torus; graphs look up a table of predecessors that is computed per source on first use.
    void route(DeviceId source, DeviceId destination, Route& into) const;
    /// Latency of one point-to-point transfer: the node's if both are in one node that has a fabric, else the fabric's.
    [[nodiscard]] Seconds p2p_latency(DeviceId source, DeviceId destination) const;
    /// Figures of the fabric that a group of devices communicates over: the node's if all are in one node that has a
    /// fabric, else those of the fabric between nodes.
    [[nodiscard]] const CollectiveFigures& figures(bool within_node) const;
    /// True if devices of one node talk over a fabric of their own (false for a torus of single devices).
    [[nodiscard]] bool has_node_fabric() const;
    /// True if the fabric of a node is a non-blocking switch: every device owns its port.
    [[nodiscard]] bool has_node_switch() const;
    /// Devices along each axis of a torus between nodes, the first axis varying fastest; empty for other fabrics.
    [[nodiscard]] const std::vector<std::int64_t>& torus_dims() const;
    /// Capacity between the lower-numbered half of the nodes (devices if there is one node) and the rest, one
    /// direction, data-sheet rates: the sum over links that some route of that kind must cross, at the narrowest tier.
    [[nodiscard]] BytesPerSecond bisection() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace plansim
