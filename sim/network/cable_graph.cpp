// SPDX-License-Identifier: Apache-2.0
// Routes by Dijkstra's algorithm on labels (hops, narrowest link), maximal flow by push-relabel (Boost.Graph).
#include "sim/network/cable_graph.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "sim/base/error.hpp"

namespace plansim {
namespace {

constexpr std::int32_t kFree = -1;
constexpr int kNotInUse = -1;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// The number in "device12" for the prefix "device".
std::optional<int> number_after(std::string_view prefix, std::string_view name) {
    if (!name.starts_with(prefix)) return std::nullopt;
    name.remove_prefix(prefix.size());
    int number = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (name.empty() || problem != std::errc() || end != name.data() + name.size() || number < 0) return std::nullopt;
    return number;
}

/// What a search knows of a vertex: fewer hops are better, then a wider narrowest link.
struct Label {
    int hops = std::numeric_limits<int>::max();
    double width = 0;

    friend bool operator==(const Label&, const Label&) = default;
    [[nodiscard]] bool better_than(const Label& other) const {
        return hops != other.hops ? hops < other.hops : width > other.width;
    }
};

}  // namespace

CableGraph::CableGraph(const Fabric& fabric, int devices, int devices_per_node, std::string source_file,
                       std::string key)
    : devices_(devices),
      devices_per_node_(devices_per_node),
      nodes_(devices_per_node == 0 ? 0 : (devices + devices_per_node - 1) / devices_per_node),
      source_file_(std::move(source_file)),
      key_(std::move(key)),
      switches_(fabric.switches),
      steps_(static_cast<std::size_t>(devices)) {
    for (std::size_t index = 0; index < fabric.links.size(); ++index) {
        const GraphLink& link = fabric.links[index];
        const int number = static_cast<int>(index);
        const int from = vertex_of(link.from, number, "from");
        const int to = vertex_of(link.to, number, "to");
        if (from == kNotInUse || to == kNotInUse || from == to) continue;
        cables_.push_back({number, from, to, link.bandwidth * link.count});
    }
    add_hops();
}

int CableGraph::vertex_of(const std::string& name, int cable, std::string_view end) const {
    const auto found = std::find(switches_.begin(), switches_.end(), name);
    if (found != switches_.end()) return devices_ + nodes_ + static_cast<int>(found - switches_.begin());
    if (const auto device = number_after("device", name)) return *device < devices_ ? *device : kNotInUse;
    if (devices_per_node_ > 0)
        if (const auto node = number_after("node", name)) return *node < nodes_ ? devices_ + *node : kNotInUse;

    std::vector<std::string> candidates = switches_;
    candidates.emplace_back("device0");
    if (devices_per_node_ > 0) candidates.emplace_back("node0");
    const std::string meant = nearest_name(name, candidates);
    throw InputError(source_file_ + ": error: " + key_ + "[" + std::to_string(cable) + "]." + std::string(end) +
                     ": unknown end '" + name + "'; " +
                     (meant.empty() ? std::string("ends are deviceN, ") + (devices_per_node_ > 0 ? "nodeN " : "") +
                                          "or a name listed under switches"
                                    : "did you mean '" + meant + "'?"));
}

void CableGraph::add_hops() {
    hops_.resize(static_cast<std::size_t>(devices_ + nodes_) + switches_.size());
    std::int32_t link = 0;
    std::vector<bool> attached(static_cast<std::size_t>(nodes_), false);
    const auto note = [&](int vertex) {
        if (vertex >= devices_ && vertex < devices_ + nodes_)
            attached[static_cast<std::size_t>(vertex - devices_)] = true;
    };
    for (const Cable& cable : cables_) {
        const double bandwidth = cable.bandwidth.value();
        hops_[static_cast<std::size_t>(cable.from)].push_back({cable.to, link, bandwidth});
        hops_[static_cast<std::size_t>(cable.to)].push_back({cable.from, link + 1, bandwidth});
        link += 2;
        note(cable.from);
        note(cable.to);
    }
    for (int device = 0; nodes_ > 0 && device < devices_; ++device) {
        const int node = device / devices_per_node_;
        if (!attached[static_cast<std::size_t>(node)]) continue;
        hops_[static_cast<std::size_t>(device)].push_back({devices_ + node, kFree, kUnlimited});
        hops_[static_cast<std::size_t>(devices_ + node)].push_back({device, kFree, kUnlimited});
    }
}

/// The lowest vertex that each vertex is connected with.
std::vector<int> CableGraph::islands() const {
    std::vector<int> island(hops_.size(), -1);
    std::vector<int> open;
    for (int start = 0; start < static_cast<int>(hops_.size()); ++start) {
        if (island[static_cast<std::size_t>(start)] >= 0) continue;
        island[static_cast<std::size_t>(start)] = start;
        open.push_back(start);
        while (!open.empty()) {
            const int vertex = open.back();
            open.pop_back();
            for (const Hop& hop : hops_[static_cast<std::size_t>(vertex)]) {
                int& mark = island[static_cast<std::size_t>(hop.to)];
                if (mark >= 0) continue;
                mark = start;
                open.push_back(hop.to);
            }
        }
    }
    return island;
}

void CableGraph::check_connected(bool across_nodes_only) const {
    const std::vector<int> island = islands();
    const auto of = [&](int device) { return island[static_cast<std::size_t>(device)]; };
    bool whole = true;
    for (int device = 0; device < devices_; ++device)
        whole = whole && of(device) == of(0);
    if (whole) return;
    for (int source = 0; source < devices_; ++source)
        for (int destination = source + 1; destination < devices_; ++destination) {
            if (across_nodes_only && source / devices_per_node_ == destination / devices_per_node_) continue;
            if (of(source) != of(destination)) fail(source, destination);
        }
}

void CableGraph::fail(int source, int destination) const {
    const auto name = [](int device) { return "device" + std::to_string(device); };
    const auto bare = [&](int device) { return hops_[static_cast<std::size_t>(device)].empty(); };
    std::string hint = "the links form separate islands; add one between them";
    for (const int device : {destination, source})
        if (bare(device)) {
            hint = name(device) + " has no link; add one that ends at '" + name(device) + "'";
            if (nodes_ > 0) hint += " or 'node" + std::to_string(device / devices_per_node_) + "'";
        }
    throw InputError(source_file_ + ": error: " + key_ + ": no route from " + name(source) + " to " +
                     name(destination) + "; " + hint);
}

const std::vector<CableGraph::Step>& CableGraph::steps_from(int source) const {
    std::vector<Step>& steps = steps_[static_cast<std::size_t>(source)];
    if (!steps.empty()) return steps;
    steps.assign(hops_.size(), Step{-1, std::numeric_limits<std::int32_t>::max()});
    std::vector<Label> labels(hops_.size());
    std::vector<bool> settled(hops_.size(), false);
    using Entry = std::tuple<int, double, int>;  // hops, -width, vertex
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    labels[static_cast<std::size_t>(source)] = {0, kUnlimited};
    open.emplace(0, -kUnlimited, source);
    while (!open.empty()) {
        const auto vertex = static_cast<std::size_t>(std::get<2>(open.top()));
        open.pop();
        if (settled[vertex]) continue;
        settled[vertex] = true;  // a predecessor is always settled before its successor: routes have no loops
        for (const Hop& hop : hops_[vertex]) {
            const auto to = static_cast<std::size_t>(hop.to);
            const Label label{labels[vertex].hops + (hop.link == kFree ? 0 : 1),
                              std::min(labels[vertex].width, hop.bandwidth)};
            if (settled[to]) continue;
            const bool better = label.better_than(labels[to]);
            if (!better && !(label == labels[to] && hop.link < steps[to].link)) continue;
            labels[to] = label;
            steps[to] = {static_cast<int>(vertex), hop.link};
            if (better) open.emplace(label.hops, -label.width, hop.to);
        }
    }
    return steps;
}

void CableGraph::route(int source, int destination, std::int32_t first_link, std::vector<std::int32_t>& into) const {
    const std::vector<Step>& steps = steps_from(source);
    const auto begin = static_cast<std::ptrdiff_t>(into.size());
    for (int vertex = destination; vertex != source;) {
        const Step& step = steps[static_cast<std::size_t>(vertex)];
        PLANSIM_CHECK(step.previous >= 0, "no route to vertex " + std::to_string(vertex));
        if (step.link != kFree) into.push_back(first_link + step.link);
        vertex = step.previous;
    }
    std::reverse(into.begin() + begin, into.end());
}

BytesPerSecond CableGraph::max_flow(int boundary) const {
    using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
    using Amount = std::int64_t;  // whole bytes per second: the algorithm needs exact sums
    using EdgeProperties =
        boost::property<boost::edge_capacity_t, Amount,
                        boost::property<boost::edge_residual_capacity_t, Amount,
                                        boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
    using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, EdgeProperties>;

    const std::size_t source = hops_.size();
    const std::size_t sink = source + 1;
    Graph graph(sink + 1);
    const auto amount = [](double bandwidth) { return static_cast<Amount>(std::llround(bandwidth)); };
    Amount total = 1;
    for (const Cable& cable : cables_)
        total += 2 * amount(cable.bandwidth.value());
    // The algorithm wants a reverse edge without capacity, so the two directions of a cable are two pairs of edges.
    const auto join = [&](std::size_t from, std::size_t to, Amount width) {
        const auto edge = boost::add_edge(from, to, graph).first;
        const auto reverse = boost::add_edge(to, from, graph).first;
        boost::put(boost::edge_capacity, graph, edge, width);
        boost::put(boost::edge_capacity, graph, reverse, Amount{0});
        boost::put(boost::edge_reverse, graph, edge, reverse);
        boost::put(boost::edge_reverse, graph, reverse, edge);
    };
    for (std::size_t vertex = 0; vertex < hops_.size(); ++vertex)
        for (const Hop& hop : hops_[vertex])
            join(vertex, static_cast<std::size_t>(hop.to), hop.link == kFree ? total : amount(hop.bandwidth));
    // What a device can send or receive at most; anything larger would do, but the sum of all must fit Amount.
    const auto reach = [&](int device) {
        Amount sum = 0;
        for (const Hop& hop : hops_[static_cast<std::size_t>(device)])
            if (hop.link != kFree) {
                sum += amount(hop.bandwidth);
            } else {
                for (const Hop& cable : hops_[static_cast<std::size_t>(hop.to)])
                    sum += cable.link == kFree ? 0 : amount(cable.bandwidth);
            }
        return sum;
    };
    for (int device = 0; device < devices_; ++device)
        if (device < boundary)
            join(source, static_cast<std::size_t>(device), reach(device));
        else
            join(static_cast<std::size_t>(device), sink, reach(device));
    return BytesPerSecond(static_cast<double>(boost::push_relabel_max_flow(graph, source, sink)));
}

}  // namespace plansim
