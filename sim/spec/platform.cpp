// SPDX-License-Identifier: Apache-2.0
#include "sim/spec/platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "sim/base/quantity_text.hpp"
#include "sim/spec/yaml_writer.hpp"

namespace plansim {
namespace {

constexpr std::array<std::pair<std::string_view, Precision>, 7> kPrecisions{{{"fp32", Precision::fp32},
                                                                             {"tf32", Precision::tf32},
                                                                             {"bf16", Precision::bf16},
                                                                             {"fp16", Precision::fp16},
                                                                             {"fp8", Precision::fp8},
                                                                             {"mxfp8", Precision::mxfp8},
                                                                             {"fp4", Precision::fp4}}};
// All-reduce has all but the last.
constexpr std::array<std::pair<std::string_view, CollectiveAlgorithm>, 6> kAlgorithms{
    {{"automatic", CollectiveAlgorithm::automatic},
     {"ring", CollectiveAlgorithm::ring},
     {"tree", CollectiveAlgorithm::tree},
     {"in_network", CollectiveAlgorithm::in_network},
     {"halving_doubling", CollectiveAlgorithm::halving_doubling},
     {"direct", CollectiveAlgorithm::direct}}};
constexpr std::array<std::pair<std::string_view, FabricKind>, 6> kFabricKinds{{{"none", FabricKind::none},
                                                                               {"nvswitch", FabricKind::nvswitch},
                                                                               {"fat-tree", FabricKind::fat_tree},
                                                                               {"spine-leaf", FabricKind::spine_leaf},
                                                                               {"torus", FabricKind::torus},
                                                                               {"graph", FabricKind::graph}}};

template <class E, std::size_t N>
std::string_view find_name(const std::array<std::pair<std::string_view, E>, N>& table, E value) {
    for (const auto& [name, entry] : table)
        if (entry == value) return name;
    return "?";
}

AcceleratorEfficiency read_efficiency(Reader map) {
    AcceleratorEfficiency figures;
    if (map.has("sustained")) {
        Reader sustained = map.map("sustained");
        for (const auto& [name, precision] : kPrecisions)
            if (sustained.has(name)) figures.sustained[precision] = sustained.number(name, Range::fraction());
        sustained.finish();
    }
    if (map.has("short_run")) {
        Reader short_run = map.map("short_run");
        for (const auto& [name, precision] : kPrecisions)
            if (short_run.has(name)) figures.short_run[precision] = short_run.number(name, Range::fraction());
        short_run.finish();
    }
    figures.standalone_time =
        map.quantity_or<Seconds>("standalone_time", figures.standalone_time, Range::not_negative());
    if (map.has("attention")) {
        Reader attention = map.map("attention");
        for (const auto& kernel : attention.keys())
            figures.attention[kernel] = attention.number(kernel, Range::fraction());
        attention.finish();
    }
    const auto fraction = [&](std::string_view key, double& value) {
        value = map.number_or(key, value, Range::fraction());
    };
    const auto amount = [&](std::string_view key, double& value) {
        value = map.number_or(key, value, Range::not_negative());
    };
    fraction("stream", figures.stream);
    fraction("training_stream", figures.training_stream);
    fraction("attention_default", figures.attention_default);
    fraction("attention_backward_ratio", figures.attention_backward_ratio);
    amount("attention_half_sequence", figures.attention_half_sequence);
    fraction("small_head_attention", figures.small_head_attention);
    fraction("batched_matmul", figures.batched_matmul);
    amount("batched_matmul_half_head_dim", figures.batched_matmul_half_head_dim);
    fraction("misaligned_head_dim", figures.misaligned_head_dim);
    fraction("grouped_gemm", figures.grouped_gemm);
    amount("tile_overhead_k", figures.tile_overhead_k);
    figures.wave_quantisation = map.number_or("wave_quantisation", figures.wave_quantisation, Range::share());
    map.finish();
    return figures;
}

/// A step inside a node takes this long if its document does not say (XLA on 2, 4 and 8 H100).
constexpr Seconds kNodeHopLatency{1e-6};

CollectiveFigures read_collectives(Reader map, bool inside_node) {
    CollectiveFigures figures;
    if (inside_node) figures.hop_latency = kNodeHopLatency;
    figures.algorithm = map.one_of_or<CollectiveAlgorithm>(
        "algorithm", Choices<CollectiveAlgorithm>(kAlgorithms).first(5), CollectiveAlgorithm::automatic);
    figures.efficiency = map.number_or("efficiency", figures.efficiency, Range::fraction());
    figures.all_to_all_efficiency =
        map.number_or("all_to_all_efficiency", figures.all_to_all_efficiency, Range::fraction());
    figures.in_network_reduction = map.number_or("in_network_reduction", figures.in_network_reduction, Range::share());
    const auto time = [&](std::string_view key, Seconds& value) {
        value = map.quantity_or<Seconds>(key, value, Range::not_negative());
    };
    figures.own_share = map.number_or("own_share", figures.own_share, Range::share());
    time("latency", figures.latency);
    time("hop_latency", figures.hop_latency);
    time("tree_latency", figures.tree_latency);
    time("p2p_latency", figures.p2p_latency);
    figures.ramp = map.number_or("ramp", figures.ramp, Range::not_negative());
    figures.ramp_bytes = map.quantity_or<Bytes>("ramp_bytes", figures.ramp_bytes);
    map.finish();
    return figures;
}

/// "device12" for "device" and a count above 12.
bool is_numbered(std::string_view name, std::string_view prefix, int count) {
    if (!name.starts_with(prefix)) return false;
    const auto number = parse_integer(name.substr(prefix.size()));
    const auto* value = std::get_if<std::int64_t>(&number);
    return value != nullptr && *value >= 0 && *value < count && name == fmt::format("{}{}", prefix, *value);
}

/// `nodes` is 0 inside a node.
void read_graph(Reader& map, Fabric& fabric, int devices, int nodes) {
    fabric.where = map.where("links");
    if (map.has("switches")) fabric.switches = map.texts("switches");
    const std::set<std::string> known(fabric.switches.begin(), fabric.switches.end());
    if (known.size() != fabric.switches.size()) map.fail("switches", "a switch is named twice");
    for (Reader& entry : map.maps("links")) {
        GraphLink link;
        link.from = entry.text("from");
        link.to = entry.text("to");
        link.bandwidth = entry.quantity<BytesPerSecond>("bandwidth");
        link.count = static_cast<int>(entry.integer_or("count", 1, Range{1, 1e6}));
        for (const auto& [key, end] : {std::pair{"from", link.from}, std::pair{"to", link.to}}) {
            if (end.empty() || known.contains(end)) continue;
            if (is_numbered(end, "device", devices) || is_numbered(end, "node", nodes)) continue;
            std::string ends = fmt::format("ends are device0 to device{}", devices - 1);
            if (nodes > 0) ends += fmt::format(", node0 to node{}", nodes - 1);
            ends += known.empty() ? " and names listed under switches" : fmt::format(", {}", fmt::join(known, ", "));
            entry.fail(key, fmt::format("unknown end '{}'", end), ends);
        }
        if (!link.from.empty() && link.from == link.to) entry.fail("to", "a link cannot join an end to itself");
        entry.finish();
        fabric.links.push_back(link);
    }
}

std::vector<std::int64_t> read_dims(Reader& map) {
    constexpr std::size_t kMostAxes = 8;
    auto dims = map.integers("dims", Range{1, kMostDevices});
    if (dims.empty() && map.is_list("dims")) map.fail("dims", "a torus needs at least one axis", "such as [4, 4, 4]");
    if (dims.size() > kMostAxes) {
        map.fail("dims", fmt::format("{} axes; a torus has at most {}", dims.size(), kMostAxes));
        dims.clear();
    }
    return dims;
}

/// The fabric inside a node of `devices_per_node`, or between the nodes of `devices`.
Fabric read_fabric(Reader map, bool inside_node, int devices, int devices_per_node) {
    Fabric fabric;
    if (inside_node) fabric.collectives.hop_latency = kNodeHopLatency;
    fabric.kind = map.one_of<FabricKind>("kind", kFabricKinds);
    const bool switched = fabric.kind == FabricKind::fat_tree || fabric.kind == FabricKind::spine_leaf;
    if (inside_node && (switched || fabric.kind == FabricKind::torus))
        map.fail("kind", fmt::format("'{}' cannot join the devices of a node", name_of(fabric.kind)),
                 "one of none, nvswitch, graph");
    if (!inside_node && fabric.kind == FabricKind::nvswitch)
        map.fail("kind", "'nvswitch' joins the devices of one node",
                 "put it under node.fabric, with node.devices as wide");
    if (switched || fabric.kind == FabricKind::nvswitch || fabric.kind == FabricKind::torus)
        fabric.bandwidth = map.quantity<BytesPerSecond>("bandwidth");
    if (switched) {
        fabric.nics = static_cast<int>(map.integer_or("nics", devices_per_node, Range{1, 1e6}));
        if (devices_per_node % fabric.nics != 0)
            map.fail("nics",
                     fmt::format("{} devices of a node cannot share {} NICs evenly", devices_per_node, fabric.nics));
        fabric.nodes_per_leaf = static_cast<int>(map.integer_or("nodes_per_leaf", 0, Range{0, 1e6}));
        fabric.oversubscription = map.number_or("oversubscription", 1, Range::at_least(1));
    }
    if (fabric.kind == FabricKind::torus) fabric.dims = read_dims(map);
    if (fabric.kind == FabricKind::graph)
        read_graph(map, fabric, devices, inside_node ? 0 : (devices + devices_per_node - 1) / devices_per_node);
    if (map.has("collectives")) fabric.collectives = read_collectives(map.map("collectives"), inside_node);
    map.finish();
    return fabric;
}

/// Most cubic factorisation of `devices` into as many axes as `dims` has, largest last.
std::vector<std::int64_t> cubic_dims(std::int64_t devices, std::size_t axes) {
    std::vector<std::int64_t> best;
    std::vector<std::int64_t> current;
    const auto spread = [](const std::vector<std::int64_t>& dims) { return dims.back() - dims.front(); };
    const auto search = [&](auto&& self, std::int64_t rest, std::int64_t least) -> void {
        if (current.size() + 1 == axes) {
            if (rest < least) return;
            current.push_back(rest);
            if (best.empty() || spread(current) < spread(best)) best = current;
            current.pop_back();
            return;
        }
        for (std::int64_t factor = least; factor * factor <= rest; ++factor) {
            if (rest % factor != 0) continue;
            current.push_back(factor);
            self(self, rest / factor, factor);
            current.pop_back();
        }
    };
    search(search, devices, 1);
    return best;
}

void scale(Platform& platform, Reader& document, int devices, int default_devices) {
    Fabric& fabric = platform.fabric;
    if (fabric.kind == FabricKind::torus && !fabric.dims.empty()) {
        double product = 1;  // up to 2^160
        for (const auto dim : fabric.dims)
            product *= static_cast<double>(dim);
        if (devices == 0 && product != default_devices)
            document.fail("devices", fmt::format("the torus has {:.0f} devices, not {}", product, default_devices),
                          "let fabric.dims multiply to it");
        if (platform.devices != product && platform.devices > 0)
            fabric.dims = cubic_dims(platform.devices, fabric.dims.size());
    }
    if (fabric.kind == FabricKind::graph && platform.devices > default_devices)
        document.fail(
            "devices",
            fmt::format("an explicit graph of {} devices cannot be scaled to {}", default_devices, platform.devices),
            "describe the larger network, or use at most as many devices");
    if (platform.devices > platform.devices_per_node && platform.devices % platform.devices_per_node != 0)
        document.fail("devices",
                      fmt::format("{} devices do not fill nodes of {}", platform.devices, platform.devices_per_node),
                      fmt::format("use a multiple of {}, or fewer than one node", platform.devices_per_node));
    if (fabric.kind == FabricKind::none && platform.nodes() > 1)
        document.fail("fabric", fmt::format("{} nodes need a fabric between them", platform.nodes()));
    if (platform.node_fabric.kind == FabricKind::none && fabric.kind == FabricKind::none && platform.devices > 1)
        document.fail("fabric", "devices need a fabric, in the node or between nodes");
}

void write_collectives(YamlWriter& out, const CollectiveFigures& figures) {
    out.begin("collectives");
    out.text("algorithm", name_of(figures.algorithm));
    out.number("efficiency", figures.efficiency);
    out.number("all_to_all_efficiency", figures.all_to_all_efficiency);
    out.number("in_network_reduction", figures.in_network_reduction);
    out.number("own_share", figures.own_share);
    out.quantity("latency", figures.latency);
    out.quantity("hop_latency", figures.hop_latency);
    out.quantity("tree_latency", figures.tree_latency);
    out.quantity("p2p_latency", figures.p2p_latency);
    out.number("ramp", figures.ramp);
    out.quantity("ramp_bytes", figures.ramp_bytes);
    out.end();
}

void write_fabric(YamlWriter& out, const Fabric& fabric) {
    out.begin("fabric");
    out.text("kind", name_of(fabric.kind));
    const bool switched = fabric.kind == FabricKind::fat_tree || fabric.kind == FabricKind::spine_leaf;
    if (switched || fabric.kind == FabricKind::nvswitch || fabric.kind == FabricKind::torus)
        out.quantity("bandwidth", fabric.bandwidth);
    if (switched) {
        out.integer("nics", fabric.nics);
        out.integer("nodes_per_leaf", fabric.nodes_per_leaf);
        out.number("oversubscription", fabric.oversubscription);
    }
    if (fabric.kind == FabricKind::torus) out.integers("dims", fabric.dims);
    if (fabric.kind == FabricKind::graph) {
        out.texts("switches", fabric.switches);
        out.begin("links");
        for (const auto& link : fabric.links)
            out.item(fmt::format("{{from: {}, to: {}, bandwidth: {}, count: {}}}", YamlWriter::quoted(link.from),
                                 YamlWriter::quoted(link.to), to_text(link.bandwidth), link.count));
        out.end();
    }
    write_collectives(out, fabric.collectives);
    out.end();
}

void write_efficiency(YamlWriter& out, const AcceleratorEfficiency& figures) {
    out.begin("efficiency");
    if (!figures.sustained.empty()) {
        out.begin("sustained");
        for (const auto& [precision, share] : figures.sustained)
            out.number(name_of(precision), share);
        out.end();
    }
    if (!figures.short_run.empty()) {
        out.begin("short_run");
        for (const auto& [precision, share] : figures.short_run)
            out.number(name_of(precision), share);
        out.end();
    }
    out.quantity("standalone_time", figures.standalone_time);
    if (!figures.attention.empty()) {
        out.begin("attention");
        for (const auto& [kernel, share] : figures.attention)
            out.number(YamlWriter::quoted(kernel), share);
        out.end();
    }
    out.number("stream", figures.stream);
    out.number("training_stream", figures.training_stream);
    out.number("attention_default", figures.attention_default);
    out.number("attention_backward_ratio", figures.attention_backward_ratio);
    out.number("attention_half_sequence", figures.attention_half_sequence);
    out.number("small_head_attention", figures.small_head_attention);
    out.number("batched_matmul", figures.batched_matmul);
    out.number("batched_matmul_half_head_dim", figures.batched_matmul_half_head_dim);
    out.number("misaligned_head_dim", figures.misaligned_head_dim);
    out.number("grouped_gemm", figures.grouped_gemm);
    out.number("tile_overhead_k", figures.tile_overhead_k);
    out.number("wave_quantisation", figures.wave_quantisation);
    out.end();
}

void write_accelerator(YamlWriter& out, const Accelerator& device) {
    out.text("name", device.name);
    if (!device.aliases.empty()) out.texts("aliases", device.aliases);
    out.begin("peak");
    for (const auto& [precision, rate] : device.peak)
        out.quantity(name_of(precision), rate);
    out.end();
    out.begin("hbm");
    out.quantity("capacity", device.hbm_capacity);
    out.quantity("bandwidth", device.hbm_bandwidth);
    out.end();
    out.quantity("on_chip_memory", device.on_chip_memory);
    out.quantity("host_bandwidth", device.host_bandwidth);
    out.integer("compute_units", device.compute_units);
    out.flag("wave_quantised", device.wave_quantised);
    out.integer("matrix_padding", device.matrix_padding);
    out.quantity("kernel_time", device.kernel_time);
    write_efficiency(out, device.efficiency);
    write_power(out, device.power);
}

}  // namespace

std::string_view name_of(Precision precision) {
    return find_name(kPrecisions, precision);
}
std::string_view name_of(CollectiveAlgorithm algorithm) {
    return find_name(kAlgorithms, algorithm);
}

std::string_view name_of(FabricKind kind) {
    return find_name(kFabricKinds, kind);
}

FlopsPerSecond Accelerator::peak_rate(Precision precision) const {
    const auto found = peak.find(precision == Precision::mxfp8 ? Precision::fp8 : precision);
    return found == peak.end() ? peak.at(Precision::bf16) : found->second;
}

Accelerator read_accelerator(Reader map) {
    Accelerator device;
    if (map.has("format")) map.integer("format", Range{1, 1});  // of a document of its own
    device.name = map.text("name");
    if (map.has("aliases")) device.aliases = map.texts("aliases");
    Reader peak = map.map("peak");
    for (const auto& [name, precision] : kPrecisions)
        if (precision != Precision::mxfp8 && peak.has(name))
            device.peak[precision] = peak.quantity<FlopsPerSecond>(name);
    for (const auto required : {Precision::bf16, Precision::fp32})
        if (!device.peak.contains(required)) peak.quantity<FlopsPerSecond>(name_of(required));
    peak.finish();
    Reader hbm = map.map("hbm");
    device.hbm_capacity = hbm.quantity<Bytes>("capacity");
    device.hbm_bandwidth = hbm.quantity<BytesPerSecond>("bandwidth");
    hbm.finish();
    device.on_chip_memory = map.quantity<Bytes>("on_chip_memory");
    device.host_bandwidth = map.quantity_or<BytesPerSecond>("host_bandwidth", device.host_bandwidth);
    device.compute_units = static_cast<int>(map.integer("compute_units", Range{1, 1e6}));
    device.wave_quantised = map.flag_or("wave_quantised", true);
    device.matrix_padding = static_cast<int>(map.integer_or("matrix_padding", 1, Range{1, 65536}));
    device.kernel_time = map.quantity_or<Seconds>("kernel_time", device.kernel_time, Range::not_negative());
    if (map.has("efficiency")) device.efficiency = read_efficiency(map.map("efficiency"));
    if (map.has("power")) device.power = read_power(map.map("power"));
    map.finish();
    return device;
}

Platform read_platform(Reader document, int devices) {
    Platform platform;
    document.integer("format", Range{1, 1});
    platform.name = document.text("name");
    const std::string where = document.where();
    platform.source_file = where.substr(0, where.rfind(':', where.rfind(':') - 1));
    const int default_devices = static_cast<int>(document.integer("devices", Range{1, kMostDevices}));
    platform.devices = devices > 0 ? devices : default_devices;
    platform.accelerator = read_accelerator(document.map("accelerator"));
    Reader node = document.map("node");
    platform.devices_per_node = static_cast<int>(node.integer("devices", Range{1, 65536}));
    platform.host_memory_bandwidth =
        node.quantity_or<BytesPerSecond>("host_memory_bandwidth", platform.host_memory_bandwidth);
    if (node.has("cooling")) platform.cooling = read_cooling(node.map("cooling"));
    if (node.has("fabric"))
        platform.node_fabric = read_fabric(node.map("fabric"), true, std::max(1, platform.devices_per_node),
                                           std::max(1, platform.devices_per_node));
    node.finish();
    if (document.has("fabric"))
        platform.fabric = read_fabric(document.map("fabric"), false, std::max(1, default_devices),
                                      std::max(1, platform.devices_per_node));
    if (platform.devices_per_node > 0) scale(platform, document, devices, default_devices);
    document.finish();
    return platform;
}

std::string to_yaml(const Accelerator& accelerator) {
    YamlWriter out;
    out.integer("format", 1);
    write_accelerator(out, accelerator);
    return out.str();
}

std::string to_yaml(const Platform& platform) {
    YamlWriter out;
    out.integer("format", 1);
    out.text("name", platform.name);
    out.integer("devices", platform.devices);
    out.begin("accelerator");
    write_accelerator(out, platform.accelerator);
    out.end();
    out.begin("node");
    out.integer("devices", platform.devices_per_node);
    out.quantity("host_memory_bandwidth", platform.host_memory_bandwidth);
    write_cooling(out, platform.cooling);
    write_fabric(out, platform.node_fabric);
    out.end();
    write_fabric(out, platform.fabric);
    return out.str();
}

}  // namespace plansim
