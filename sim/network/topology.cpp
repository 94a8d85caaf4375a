// SPDX-License-Identifier: Apache-2.0
// Links and routes of the fabrics that a platform file can describe.
//
// nvswitch    one port (up and down link) per device on a non-blocking switch: NVSwitch of DGX and NVL systems.
// fat_tree    rail-optimised: NIC k of all nodes of a pod hangs on leaf k of the pod; traffic between rails or pods
//             goes through the spine. Real NCCL moves cross-rail traffic over NVLink to the right NIC first (PXN);
//             here it takes the spine, which costs the same unless the leaves are oversubscribed.
// spine_leaf  all NICs of neighbouring nodes share one leaf.
// torus       direct links along each axis, dimension-ordered routes, the shorter way round; exactly half way goes up.
// graph       cable by cable, see cable_graph.hpp.
// A NIC or port limits each direction by itself. The uplinks of a leaf are one bundle; spines never limit.
// Devices of a node without a fabric of its own talk over the fabric between nodes.
// Leaves out: PCIe between device and NIC, ECMP collisions, adaptive routing, switch buffers.
#include "sim/network/topology.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/network/cable_graph.hpp"

namespace plansim {

std::string_view name_of(LinkClass link_class) {
    switch (link_class) {
        case LinkClass::node:
            return "node";
        case LinkClass::nic:
            return "nic";
        case LinkClass::leaf:
            return "leaf";
        case LinkClass::spine:
            return "spine";
        case LinkClass::torus:
            return "torus";
        case LinkClass::cable:
            return "cable";
    }
    PLANSIM_CHECK(false, "unknown link class");
}

namespace {

/// Offsets of a device's links along each axis of a torus.
struct TorusAxis {
    std::int64_t size;
    std::int64_t stride;  // device numbers between neighbours
    int plus = -1;        // place of the link towards the next coordinate among the links of a device; -1: none
    int minus = -1;       // -1: none, the axis is one cable long
};

std::string numbered(const char* name, std::int64_t number) {
    return name + std::to_string(number);
}

}  // namespace

struct Topology::Impl {
    Platform platform;
    int nodes = 0;
    std::vector<Link> links;

    LinkId first_node_link = 0;  // ports of the node switch, or cables of the node graph, node by node
    LinkId first_link = 0;       // NICs, torus links or cables of the fabric between nodes
    LinkId first_leaf_link = 0;
    int nodes_per_leaf = 1;
    int leaves = 0;  // with an uplink bundle each
    std::vector<TorusAxis> axes;
    int links_per_device = 0;  // torus
    std::optional<CableGraph> node_graph;
    std::optional<CableGraph> graph;

    explicit Impl(const Platform& platform_in);

    [[nodiscard]] int node_of(DeviceId device) const { return device / platform.devices_per_node; }
    [[nodiscard]] bool has_node_fabric() const { return platform.node_fabric.kind != FabricKind::none; }
    LinkId add(LinkClass link_class, std::string name, BytesPerSecond bandwidth, const Fabric& fabric,
               bool binding = true);
    void add_pair(LinkClass link_class, const std::string& name, BytesPerSecond bandwidth, const Fabric& fabric,
                  bool binding = true);
    void add_cables(LinkClass link_class, const std::string& prefix, const CableGraph& cables, const Fabric& fabric);
    void add_node_fabric();
    void add_fabric();
    void add_nics();
    void add_leaves();
    void add_torus();

    [[nodiscard]] int nic_of(DeviceId device) const;
    [[nodiscard]] int leaf_of(DeviceId device) const;
    void route_in_node(DeviceId source, DeviceId destination, Route& into) const;
    void route_over_nics(DeviceId source, DeviceId destination, Route& into) const;
    void route_over_torus(DeviceId source, DeviceId destination, Route& into) const;
    /// Where messages about a graph point to: its links if it was read from a document.
    [[nodiscard]] const std::string& place_of(const Fabric& of) const {
        return of.where.empty() ? platform.source_file : of.where;
    }
    [[nodiscard]] BytesPerSecond nic_cut(int boundary, bool lower) const;
    [[nodiscard]] BytesPerSecond node_bisection() const;
    [[nodiscard]] BytesPerSecond torus_bisection() const;
};

Topology::Impl::Impl(const Platform& platform_in) : platform(platform_in), nodes(platform_in.nodes()) {
    PLANSIM_CHECK(platform.devices > 0 && platform.devices_per_node > 0, "a platform needs devices");
    if (platform.source_file.empty()) platform.source_file = platform.name;
    const bool joined = nodes == 1 && (platform.devices == 1 || has_node_fabric());
    if (platform.fabric.kind == FabricKind::none && !joined)
        throw InputError(
            platform.source_file + ": error: fabric.kind: 'none' cannot join " +
            (nodes > 1 ? std::to_string(nodes) + " nodes" : std::to_string(platform.devices) + " devices") +
            "; choose a fabric, or use fewer devices");
    add_node_fabric();
    add_fabric();
}

LinkId Topology::Impl::add(LinkClass link_class, std::string name, BytesPerSecond bandwidth, const Fabric& fabric,
                           bool binding) {
    PLANSIM_CHECK(bandwidth.value() > 0, "bandwidth of " + name);
    links.push_back({link_class, std::move(name), bandwidth, bandwidth * fabric.collectives.efficiency, binding});
    return static_cast<LinkId>(links.size()) - 1;
}

void Topology::Impl::add_pair(LinkClass link_class, const std::string& name, BytesPerSecond bandwidth,
                              const Fabric& fabric, bool binding) {
    add(link_class, name + ".up", bandwidth, fabric, binding);
    add(link_class, name + ".down", bandwidth, fabric, binding);
}

void Topology::Impl::add_cables(LinkClass link_class, const std::string& prefix, const CableGraph& cables,
                                const Fabric& fabric) {
    for (const Cable& cable : cables.cables()) {
        const std::string name = prefix + numbered("cable", cable.index);
        add(link_class, name + ".forward", cable.bandwidth, fabric);
        add(link_class, name + ".backward", cable.bandwidth, fabric);
    }
}

void Topology::Impl::add_node_fabric() {
    const Fabric& fabric = platform.node_fabric;
    first_node_link = static_cast<LinkId>(links.size());
    if (fabric.kind == FabricKind::nvswitch) {
        for (DeviceId device = 0; device < platform.devices; ++device)
            add_pair(LinkClass::node,
                     numbered("node", node_of(device)) + numbered(".device", device % platform.devices_per_node),
                     fabric.bandwidth, fabric);
    } else if (fabric.kind == FabricKind::graph) {
        node_graph.emplace(fabric, std::min(platform.devices, platform.devices_per_node), 0, place_of(fabric),
                           "node.fabric.links");
        node_graph->check_connected(false);
        for (int node = 0; node < nodes; ++node)
            add_cables(LinkClass::node, numbered("node", node) + ".", *node_graph, fabric);
    } else {
        PLANSIM_CHECK(fabric.kind == FabricKind::none, "a node's fabric is nvswitch, graph or none");
    }
}

void Topology::Impl::add_fabric() {
    const Fabric& fabric = platform.fabric;
    first_link = static_cast<LinkId>(links.size());
    switch (fabric.kind) {
        case FabricKind::none:
            break;
        case FabricKind::nvswitch:
            PLANSIM_CHECK(false, "an nvswitch joins the devices of one node");
        case FabricKind::fat_tree:
        case FabricKind::spine_leaf:
            add_nics();
            add_leaves();
            break;
        case FabricKind::torus:
            add_torus();
            break;
        case FabricKind::graph:
            graph.emplace(fabric, platform.devices, platform.devices_per_node, place_of(fabric), "fabric.links");
            graph->check_connected(has_node_fabric());
            add_cables(LinkClass::cable, "", *graph, fabric);
            break;
    }
}

void Topology::Impl::add_nics() {
    const Fabric& fabric = platform.fabric;
    PLANSIM_CHECK(fabric.nics > 0 && fabric.nics <= platform.devices_per_node, "NICs per node");
    for (int node = 0; node < nodes; ++node)
        for (int nic = 0; nic < fabric.nics; ++nic)
            add_pair(LinkClass::nic, numbered("node", node) + numbered(".nic", nic), fabric.bandwidth, fabric);
}

/// Uplink bundles exist where a route can need them: with several leaves. A leaf that is only partly in use has
/// uplinks in proportion to the nodes in use.
void Topology::Impl::add_leaves() {
    const Fabric& fabric = platform.fabric;
    first_leaf_link = static_cast<LinkId>(links.size());
    nodes_per_leaf = fabric.nodes_per_leaf > 0 ? fabric.nodes_per_leaf : nodes;
    const int groups = (nodes + nodes_per_leaf - 1) / nodes_per_leaf;
    const bool rails = fabric.kind == FabricKind::fat_tree;
    const int leaves_per_group = rails ? fabric.nics : 1;
    leaves = groups * leaves_per_group;
    if (leaves == 1) return;
    for (int leaf = 0; leaf < leaves; ++leaf) {
        const int group = leaf / leaves_per_group;
        const int members = std::min(nodes_per_leaf, nodes - group * nodes_per_leaf);
        const double nics = rails ? members : static_cast<double>(members) * fabric.nics;
        const std::string name =
            rails ? numbered("pod", group) + numbered(".leaf", leaf % leaves_per_group) : numbered("leaf", leaf);
        add_pair(LinkClass::leaf, name, fabric.bandwidth * (nics / fabric.oversubscription), fabric,
                 fabric.oversubscription > 1);
    }
}

void Topology::Impl::add_torus() {
    const Fabric& fabric = platform.fabric;
    std::int64_t product = 1;
    for (const std::int64_t size : fabric.dims) {
        TorusAxis axis{size, product};
        if (size > 1) axis.plus = links_per_device++;
        if (size > 2) axis.minus = links_per_device++;
        axes.push_back(axis);
        product *= size;
    }
    if (product != platform.devices)
        throw InputError(platform.source_file + ": error: fabric.dims: the product is " + std::to_string(product) +
                         ", but the platform has " + std::to_string(platform.devices) + " devices");
    for (DeviceId device = 0; device < platform.devices; ++device)
        for (std::size_t axis = 0; axis < axes.size(); ++axis) {
            const std::string name = numbered("torus", device) + numbered(".", static_cast<std::int64_t>(axis));
            if (axes[axis].plus >= 0) add(LinkClass::torus, name + "+", fabric.bandwidth, fabric);
            if (axes[axis].minus >= 0) add(LinkClass::torus, name + "-", fabric.bandwidth, fabric);
        }
}

/// Devices share the NICs of their node in equal runs.
int Topology::Impl::nic_of(DeviceId device) const {
    const int local = device % platform.devices_per_node;
    return local * platform.fabric.nics / platform.devices_per_node;
}

int Topology::Impl::leaf_of(DeviceId device) const {
    const int group = node_of(device) / nodes_per_leaf;
    return platform.fabric.kind == FabricKind::fat_tree ? group * platform.fabric.nics + nic_of(device) : group;
}

void Topology::Impl::route_in_node(DeviceId source, DeviceId destination, Route& into) const {
    if (!node_graph) {
        into.push_back(first_node_link + 2 * source);
        into.push_back(first_node_link + 2 * destination + 1);
        return;
    }
    const int per_node = platform.devices_per_node;
    const auto cables = static_cast<LinkId>(node_graph->cables().size());
    node_graph->route(source % per_node, destination % per_node, first_node_link + 2 * cables * node_of(source), into);
}

void Topology::Impl::route_over_nics(DeviceId source, DeviceId destination, Route& into) const {
    const int nics = platform.fabric.nics;
    const int leaf_up = leaf_of(source);
    const int leaf_down = leaf_of(destination);
    into.push_back(first_link + 2 * (node_of(source) * nics + nic_of(source)));
    if (leaf_up != leaf_down) {
        into.push_back(first_leaf_link + 2 * leaf_up);
        into.push_back(first_leaf_link + 2 * leaf_down + 1);
    }
    into.push_back(first_link + 2 * (node_of(destination) * nics + nic_of(destination)) + 1);
}

void Topology::Impl::route_over_torus(DeviceId source, DeviceId destination, Route& into) const {
    std::int64_t device = source;
    for (const TorusAxis& axis : axes) {
        std::int64_t coordinate = source / axis.stride % axis.size;
        const std::int64_t target = destination / axis.stride % axis.size;
        const std::int64_t ahead = (target - coordinate + axis.size) % axis.size;
        const bool forward = 2 * ahead <= axis.size;
        while (coordinate != target) {
            into.push_back(first_link + static_cast<LinkId>(device) * links_per_device +
                           (forward ? axis.plus : axis.minus));
            const std::int64_t next = (coordinate + (forward ? 1 : axis.size - 1)) % axis.size;
            device += (next - coordinate) * axis.stride;
            coordinate = next;
        }
    }
}

/// Capacity out of the nodes below (`lower`) or from `boundary` on: per leaf the NICs of its nodes on that side, or its
/// uplinks if all of them are on that side and the uplinks are narrower.
BytesPerSecond Topology::Impl::nic_cut(int boundary, bool lower) const {
    const Fabric& fabric = platform.fabric;
    double nics = 0;
    for (int first = 0; first < nodes; first += nodes_per_leaf) {
        const int last = std::min(nodes, first + nodes_per_leaf);
        const int inside =
            lower ? std::max(0, std::min(last, boundary) - first) : std::max(0, last - std::max(first, boundary));
        const bool whole = inside == last - first;
        nics += inside * static_cast<double>(fabric.nics) / (whole ? fabric.oversubscription : 1.0);
    }
    return fabric.bandwidth * nics;
}

BytesPerSecond Topology::Impl::torus_bisection() const {
    const auto& dims = platform.fabric.dims;
    const std::int64_t longest = dims.empty() ? 1 : *std::max_element(dims.begin(), dims.end());
    if (longest == 1) return BytesPerSecond(0);
    const std::int64_t rows = platform.devices / longest;
    return platform.fabric.bandwidth * static_cast<double>(longest == 2 ? rows : 2 * rows);
}

BytesPerSecond Topology::Impl::node_bisection() const {
    const int half = platform.devices / 2;
    if (platform.node_fabric.kind == FabricKind::nvswitch) return platform.node_fabric.bandwidth * half;
    if (node_graph) return node_graph->max_flow(half);
    const int nics = half == 0 ? 0 : nic_of(half - 1) + 1;  // distinct NICs of the lower half
    return platform.fabric.bandwidth * nics;
}

Topology::Topology(const Platform& platform) : impl_(std::make_unique<Impl>(platform)) {}
Topology::~Topology() = default;
Topology::Topology(Topology&&) noexcept = default;

int Topology::devices() const {
    return impl_->platform.devices;
}
int Topology::devices_per_node() const {
    return impl_->platform.devices_per_node;
}
int Topology::node_of(DeviceId device) const {
    return impl_->node_of(device);
}
const std::vector<Link>& Topology::links() const {
    return impl_->links;
}
bool Topology::has_node_fabric() const {
    return impl_->has_node_fabric();
}
bool Topology::has_node_switch() const {
    return impl_->platform.node_fabric.kind == FabricKind::nvswitch;
}

const std::vector<std::int64_t>& Topology::torus_dims() const {
    static const std::vector<std::int64_t> none;
    return impl_->platform.fabric.kind == FabricKind::torus ? impl_->platform.fabric.dims : none;
}

void Topology::route(DeviceId source, DeviceId destination, Route& into) const {
    PLANSIM_CHECK(source >= 0 && source < devices() && destination >= 0 && destination < devices(),
                  "route from device " + std::to_string(source) + " to " + std::to_string(destination));
    if (source == destination) return;
    if (has_node_fabric() && same_node(source, destination)) return impl_->route_in_node(source, destination, into);
    switch (impl_->platform.fabric.kind) {
        case FabricKind::none:
        case FabricKind::nvswitch:
            break;
        case FabricKind::fat_tree:
        case FabricKind::spine_leaf:
            return impl_->route_over_nics(source, destination, into);
        case FabricKind::torus:
            return impl_->route_over_torus(source, destination, into);
        case FabricKind::graph:
            return impl_->graph->route(source, destination, impl_->first_link, into);
    }
    PLANSIM_CHECK(false, "no fabric between nodes");
}

Seconds Topology::p2p_latency(DeviceId source, DeviceId destination) const {
    if (source == destination) return Seconds(0);
    return figures(has_node_fabric() && same_node(source, destination)).p2p_latency;
}

const CollectiveFigures& Topology::figures(bool within_node) const {
    return within_node ? impl_->platform.node_fabric.collectives : impl_->platform.fabric.collectives;
}

BytesPerSecond Topology::bisection() const {
    const Impl& impl = *impl_;
    const int half = impl.nodes > 1 ? impl.nodes / 2 * impl.platform.devices_per_node : impl.platform.devices / 2;
    if (impl.nodes == 1 && has_node_fabric()) return impl.node_bisection();
    switch (impl.platform.fabric.kind) {
        case FabricKind::none:
        case FabricKind::nvswitch:
            return BytesPerSecond(0);  // one device
        case FabricKind::fat_tree:
        case FabricKind::spine_leaf:
            if (impl.nodes == 1) return impl.node_bisection();
            return std::min(impl.nic_cut(impl.nodes / 2, true), impl.nic_cut(impl.nodes / 2, false));
        case FabricKind::torus:
            return impl.torus_bisection();
        case FabricKind::graph:
            return impl.graph->max_flow(half);
    }
    return BytesPerSecond(0);
}

}  // namespace plansim
