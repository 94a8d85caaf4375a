// SPDX-License-Identifier: Apache-2.0
#include "planner/nest/case.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <queue>

#include "sim/base/reader.hpp"

namespace plansim::nest {
namespace {

constexpr double kMostDevices = 1 << 20;    // a guess at what anybody asks for; keeps products within 64 bits
constexpr double kMostBytes = 1e15;         // per tensor or node, likewise
constexpr std::size_t kMostNodes = 4096;    // the searches are quadratic in the chain
constexpr double kGradientsAndWeights = 2;  // both in 2 bytes per parameter
constexpr double kAdamPerWeightBytes = 6;   // three fp32 copies of 4 bytes per parameter of 2 bytes
constexpr double kMillisecondsPerSecond = 1000;
constexpr std::int64_t kLogitsTensors = 4;  // logits, their gradient and two fp32 halves: an assumption

/// Index of a node by its id in the file.
using Index = std::map<std::int64_t, std::size_t>;

struct Edge {
    std::size_t from;
    std::size_t to;
    std::int64_t bytes;
};

/// Order in which every edge leads forward, smallest first among equals; shorter than `count` if there is a cycle.
std::vector<std::size_t> topological_order(std::size_t count, const std::vector<Edge>& edges) {
    std::vector<std::vector<std::size_t>> next(count);
    std::vector<std::size_t> missing(count, 0);
    for (const Edge& edge : edges) {
        next[edge.from].push_back(edge.to);
        ++missing[edge.to];
    }
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t node = 0; node < count; ++node)
        if (missing[node] == 0) ready.push(node);
    std::vector<std::size_t> order;
    while (!ready.empty()) {
        order.push_back(ready.top());
        ready.pop();
        for (const std::size_t node : next[order.back()])
            if (--missing[node] == 0) ready.push(node);
    }
    return order;
}

Node read_node(Reader& reader) {
    Node node;
    node.forward = reader.number("optimalLatencyFw", Range{0, 1e12});
    node.backward = reader.number("optimalLatencyBw", Range{0, 1e12});
    node.recompute = node.backward;  // as NEST charges it
    node.parameter_bytes = reader.integer("parameterSize", Range{0, kMostBytes});
    node.state_bytes = static_cast<std::int64_t>(kGradientsAndWeights) * node.parameter_bytes;
    node.activation_bytes = reader.integer("activationSize", Range{0, kMostBytes});
    reader.flag_or("isTensorParallelized", false);
    reader.number_or("energy", 0);
    return node;
}

/// Nodes by rising id, so that ties of the topological order go to the smaller id.
std::vector<Node> read_nodes(Reader& lists, const std::string& width, Index& index) {
    std::map<std::int64_t, Node> by_id;
    for (Reader& reader : lists.maps(width)) {
        const std::int64_t id = reader.integer("id", Range{-1e9, 1e9});
        const Node node = read_node(reader);
        if (!by_id.emplace(id, node).second) reader.fail("id", fmt::format("a second node {}", id));
        reader.finish();
    }
    std::vector<Node> nodes;
    for (const auto& [id, node] : by_id) {
        index.emplace(id, nodes.size());
        nodes.push_back(node);
    }
    if (nodes.empty())
        lists.fail(width, "no nodes");
    else if (nodes.size() > kMostNodes)
        lists.fail(width, fmt::format("{} nodes; at most {} are planned", nodes.size(), kMostNodes));
    return nodes;
}

std::vector<Edge> read_edges(Reader& lists, const std::string& width, const Index& index) {
    const bool nodes_are_read = lists.problems().empty();
    std::vector<Edge> edges;
    for (Reader& reader : lists.maps(width)) {
        const auto end = [&](const char* key) {
            const std::int64_t id = reader.integer(key, Range{-1e9, 1e9});
            const auto found = index.find(id);
            // Of a list of nodes with problems, some nodes may be missing.
            if (found == index.end() && nodes_are_read)
                reader.fail(key, fmt::format("there is no node {} of width {}", id, width));
            return found == index.end() ? std::size_t{0} : found->second;
        };
        const std::size_t from = end("sourceId");
        const std::size_t to = end("destId");
        edges.push_back({from, to, reader.integer("communicationCost", Range{0, kMostBytes})});
        reader.finish();
    }
    return edges;
}

Profile read_profile(Reader& nodes, Reader& edges, const std::string& width) {
    Profile profile;
    if (width.empty() || width.size() > 6 || width.find_first_not_of("0123456789") != std::string::npos ||
        std::stoll(width) < 1)
        nodes.fail(width, fmt::format("'{}' is no tensor-parallel width", width));
    else
        profile.tp = std::stoll(width);
    Index index;
    const std::vector<Node> unordered = read_nodes(nodes, width, index);
    const std::vector<Edge> links = read_edges(edges, width, index);
    if (!nodes.problems().empty()) return profile;
    const std::vector<std::size_t> order = topological_order(unordered.size(), links);
    if (order.size() < unordered.size()) {
        edges.fail(width, "the edges form a cycle");
        return profile;
    }
    std::vector<std::size_t> place(order.size());
    for (std::size_t position = 0; position < order.size(); ++position) {
        place[order[position]] = position;
        profile.nodes.push_back(unordered[order[position]]);
    }
    profile.boundary.assign(order.size() + 1, 0);
    for (const Edge& edge : links)
        for (std::size_t cut = place[edge.from] + 1; cut <= place[edge.to]; ++cut)
            profile.boundary[cut] = std::max(profile.boundary[cut], edge.bytes);
    return profile;
}

std::vector<double> as_doubles(const std::vector<std::string>& texts, Reader& reader, const char* key, Range range) {
    std::vector<double> numbers;
    for (const std::string& text : texts) {
        char* end = nullptr;
        const double number = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || !std::isfinite(number))
            reader.fail(key, fmt::format("'{}' is no number", text));
        else if (number < range.least || (range.exclusive_least && number <= range.least))
            reader.fail(
                key, fmt::format("{} must be {} {}", text, range.exclusive_least ? "above" : "at least", range.least));
        numbers.push_back(number);
    }
    return numbers;
}

Network read_network(Reader& root) {
    Network network;
    network.sizes = root.integers("devices_per_level", Range{1, kMostDevices});
    network.bandwidth = as_doubles(root.texts("bws"), root, "bws", Range::positive());
    network.latency = as_doubles(root.texts("latency_per_level"), root, "latency_per_level", Range::not_negative());
    if (network.sizes.empty()) root.fail("devices_per_level", "no levels");
    for (const auto& [key, count] :
         {std::pair{"bws", network.bandwidth.size()}, std::pair{"latency_per_level", network.latency.size()}})
        if (count != network.sizes.size())
            root.fail(key, fmt::format("{} values for {} levels", count, network.sizes.size()));
    return network;
}

/// Fills the levels from the inside: what is left of the devices goes into the last one. Empty if they do not divide.
std::vector<std::int64_t> scaled_sizes(const std::vector<std::int64_t>& sizes, std::int64_t devices) {
    std::vector<std::int64_t> scaled;
    std::int64_t left = devices;
    for (std::size_t level = 0; level < sizes.size(); ++level) {
        const std::int64_t size = level + 1 == sizes.size() ? left : std::min(sizes[level], left);
        if (left % size != 0) return {};
        scaled.push_back(size);
        left /= size;
    }
    return scaled;
}

std::vector<Rival> read_rivals(Reader& root) {
    std::vector<Rival> rivals;
    if (!root.has("baselines")) return rivals;
    Reader plans = root.map("baselines");
    for (const std::string& name : plans.keys()) {
        Reader plan = plans.map(name);
        Rival rival;
        rival.name = name;
        std::transform(name.begin(), name.end(), rival.name.begin(), [](unsigned char c) { return std::tolower(c); });
        rival.pp = plan.integer("p", Range{1, kMostDevices});
        rival.tp = plan.integer("t", Range{1, kMostDevices});
        rival.dp = plan.integer("d", Range{1, kMostDevices});
        plan.integer_or("num_transformer_layers", 0, Range{0, 1e6});
        if (plan.has("layer_partition")) rival.partition = plan.integers("layer_partition", Range{1, 1e6});
        if (!rival.partition.empty() && static_cast<std::int64_t>(rival.partition.size()) != rival.pp)
            plan.fail("layer_partition", fmt::format("{} stages where p is {}", rival.partition.size(), rival.pp));
        plan.finish();
        rivals.push_back(std::move(rival));
    }
    return rivals;
}

void scale(Case& result, Reader& root, std::optional<std::int64_t> devices) {
    Network& network = result.network;
    const std::int64_t written = result.devices;
    std::int64_t product = 1;
    for (const std::int64_t size : network.sizes)
        product = std::min(product * size, static_cast<std::int64_t>(kMostDevices) * 2);
    if (product != written)
        root.fail("devices_per_level", fmt::format("levels of {} hold {} devices, maxDevices is {}",
                                                   fmt::join(network.sizes, " x "), product, written));
    if (!devices) return;
    result.devices = *devices;
    if (*devices != written)
        for (Rival& rival : result.rivals)
            rival.dp = 0;
    const std::vector<std::int64_t> scaled = scaled_sizes(network.sizes, *devices);
    if (scaled.empty())
        root.problems().add(
            "--devices", "",
            fmt::format("{} devices do not fill levels of {}", *devices, fmt::join(network.sizes, " x ")));
    network.sizes = scaled;
}

}  // namespace

std::size_t Network::level(std::int64_t a, std::int64_t b) const {
    std::size_t level = 0;
    for (; level + 1 < sizes.size(); ++level) {
        a /= sizes[level];
        b /= sizes[level];
        if (a == b) break;
    }
    return level;
}

Case read_case(const std::filesystem::path& path, std::optional<std::int64_t> devices) {
    Diagnostics problems;
    Reader root = Reader::open(path, {}, problems);
    Case result;
    result.name = path.stem().string();
    const std::int64_t ep = root.integer("ep_degree", Range{1, kMostDevices});
    const std::int64_t cp = root.integer("cp_degree", Range{1, kMostDevices});
    result.devices = root.integer("maxDevices", Range{1, kMostDevices});
    result.memory_bytes = root.integer("maxMemoryPerDevice", Range{1, kMostBytes});
    const double microbatches = root.number("mbsInBatch", Range{1, 1e7});
    if (microbatches != std::floor(microbatches)) root.fail("mbsInBatch", "must be a whole number");
    result.microbatches = std::llround(microbatches);
    result.recompute = root.flag("activationRecomputation");
    root.flag_or("sp_enabled", false);
    root.number_or("bandwidth", 0);  // NEST reads it and uses `bws`
    root.number_or("frequency", 0);
    root.text("optimizerAlgorithm", "SGD");
    result.network = read_network(root);
    result.rivals = read_rivals(root);
    if (problems.empty()) scale(result, root, devices);
    Reader nodes = root.map("nodes");
    Reader edges = root.map("edges");
    for (const std::string& width : nodes.keys()) {
        Profile profile = read_profile(nodes, edges, width);
        profile.group = profile.tp * ep * cp;
        result.profiles.push_back(std::move(profile));
    }
    if (problems.empty() && result.profiles.empty()) root.fail("nodes", "no tensor-parallel width");
    nodes.finish();
    edges.finish();
    root.finish();
    problems.throw_if_any();
    return result;
}

namespace {

bool belongs(const Head& head, const Node& layer) {
    return head.layer_parameter_bytes == layer.parameter_bytes &&
           head.layer_activation_bytes == layer.activation_bytes &&
           std::abs(head.layer_forward - layer.forward) <= 1e-6 * layer.forward;
}

/// Takes the head out of every layer that holds it and adds it once, behind the last.
bool move_head(Profile& profile, const std::vector<Head>& heads) {
    const auto known =
        std::find_if(heads.begin(), heads.end(), [&](const Head& head) { return belongs(head, profile.nodes.back()); });
    if (known == heads.end()) return false;
    const std::int64_t activations = kLogitsTensors * known->logits_bytes;
    for (Node& node : profile.nodes) {
        if (!belongs(*known, node)) continue;
        node.forward -= known->forward;
        node.backward -= known->backward;
        node.parameter_bytes -= known->parameter_bytes;
        node.activation_bytes -= activations;
    }
    Node head;
    head.forward = known->forward;
    head.backward = known->backward;
    head.parameter_bytes = known->parameter_bytes;
    head.activation_bytes = activations;
    profile.nodes.push_back(head);
    profile.boundary.back() = profile.boundary[profile.boundary.size() - 2];
    profile.boundary.push_back(0);
    return true;
}

}  // namespace

Case correct(Case shipped, const Corrections& corrections, const std::vector<Head>& heads) {
    Case result = std::move(shipped);
    if (corrections.bandwidth_unit)
        for (double& bandwidth : result.network.bandwidth)
            bandwidth /= kMillisecondsPerSecond;
    for (Profile& profile : result.profiles) {
        if (corrections.head_once && move_head(profile, heads)) result.head_known = true;
        const double per_weight_byte = kGradientsAndWeights + (corrections.optimizer_state ? kAdamPerWeightBytes : 0);
        for (Node& node : profile.nodes) {
            node.recompute = corrections.recompute_forward ? node.forward : node.backward;
            node.state_bytes = std::llround(per_weight_byte * static_cast<double>(node.parameter_bytes));
        }
    }
    return result;
}

}  // namespace plansim::nest
