// SPDX-License-Identifier: Apache-2.0
// collectives.csv: time of one collective alone on the network, or the bus bandwidth that it amounts to.
//
// The platform is the reference design of the gpu_type, with the NICs that the row states; TCPXO and EFA are fabrics of
// their own. Benchmarks repeat one operation back to back on an otherwise idle network, which then carries more than in
// training: see kQuietNetwork. Several groups "at the same time" of one node do not meet (each GPU owns its port).
#include <fmt/format.h>

#include <cmath>
#include <regex>

#include "sim/app/scenario.hpp"
#include "sim/app/validate/validate.hpp"
#include "sim/base/error.hpp"
#include "sim/collective/collective.hpp"

namespace plansim {
namespace {

// Goodput of NICs / data sheet when nothing else is going on: 192 of 200 GB/s (DGX A100), 380 of 400 (EFA), 94 of 100.
// Training reaches less (CollectiveFigures::efficiency), because compute and other transfers interfere.
constexpr double kQuietNetwork = 0.95;
// Above this size a row is judged by bandwidth, below by latency.
constexpr double kLargeMessage = 1 << 20;

std::optional<CollectiveKind> kind_of(const std::string& name) {
    for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                            CollectiveKind::all_to_all, CollectiveKind::broadcast})
        if (name == name_of(kind)) return kind;
    return std::nullopt;
}

struct Nics {
    int count = 0;
    BytesPerSecond rate;
};

/// "8x200Gb/s GPUDirect-TCPXO", "4x HDR (100 GB/s per node)", "DGX A100 8x200Gb RDMA".
std::optional<Nics> nics_of(const std::string& fabric) {
    static const std::regex pattern(R"((\d+)x ?(\d+Gb|HDR|NDR))");
    std::smatch match;
    if (!std::regex_search(fabric, match, pattern)) return std::nullopt;
    const std::string rate = match[2];
    const double gigabits = rate == "HDR" ? 200 : rate == "NDR" ? 400 : std::stod(rate);
    return Nics{std::stoi(match[1]), BytesPerSecond(gigabits * 1e9 / 8)};
}

std::string platform_of(const std::string& reference, const std::string& inter_fabric) {
    if (inter_fabric.find("TCPXO") != std::string::npos) return "gcp-a3-mega";
    if (inter_fabric.find("EFA") != std::string::npos) return "aws-p6-b200";
    return reference;
}

/// The platform of a row; a reason why there is none goes into `row.skipped`.
std::optional<Platform> system_of(const MeasuredRow& measured, ValidatedRow& row) {
    if (row.gpu.empty()) {
        row.skipped = "the GPU is not stated";
        return std::nullopt;
    }
    const auto accelerator = accelerator_named(row.gpu);
    const auto reference = accelerator ? platform_with(*accelerator) : std::nullopt;
    if (!reference) {
        row.skipped = fmt::format("no platform with {} in the catalogue", row.gpu);
        return std::nullopt;
    }
    const std::string inter_fabric = measured.text("inter_fabric");
    const auto gpus = static_cast<int>(measured.required_integer("gpus"));
    const auto nodes = static_cast<int>(measured.required_integer("nodes"));
    const auto per_node = static_cast<int>(measured.required_integer("gpus_per_node"));
    Diagnostics problems;
    const std::string name = platform_of(*reference, nodes > 1 ? inter_fabric : "");
    Platform platform = load_platform(find_document(name, DocumentKind::platform), {}, nodes * per_node, problems);
    problems.throw_if_any();
    if (platform.devices_per_node != per_node && nodes > 1) {
        row.skipped = fmt::format("nodes of {} GPUs; {} has {}", per_node, name, platform.devices_per_node);
        return std::nullopt;
    }
    if (gpus > platform.devices) measured.fail("gpus", "more than nodes x gpus_per_node");
    if (nodes == 1) return platform;
    if (name == *reference)  // fabrics of their own are described by such benchmarks
        platform.fabric.collectives.efficiency = platform.fabric.collectives.all_to_all_efficiency = kQuietNetwork;
    if (const auto nics = nics_of(inter_fabric)) {
        platform.fabric.bandwidth = nics->rate;
        platform.fabric.nics = nics->count;
    } else {
        row.inferred.push_back(fmt::format("NICs: those of {} (not stated)", name));
    }
    return platform;
}

/// Bytes that a benchmark calls moved, per byte of the tensor: 2(n-1)/n for all-reduce and so on.
double bus_factor(CollectiveKind kind, int ranks) {
    return ring_volume(kind, ranks, Bytes(1'000'000'000)).as_double() / 1e9;
}

/// The largest size that benchmarks usually end with, for rows that only say "plateau".
constexpr std::int64_t kPlateauBytes = std::int64_t{8} << 30;

/// Every rank sends the tensor to the next one, all at the same time.
Seconds shift_time(const Group& group, Bytes size, const Topology& topology) {
    std::vector<HopFlow> flows;
    for (std::size_t rank = 0; rank < group.size(); ++rank)
        flows.push_back({group[rank], group[(rank + 1) % group.size()], size});
    return topology.figures(topology.has_node_fabric()).p2p_latency + bottleneck_time(flows, topology);
}

void predict(const MeasuredRow& measured, const ValidateOptions& options, ValidatedRow& row) {
    const auto time_us = measured.number("time_us");
    const auto bus = measured.number("busbw_GBps");
    const auto bytes = measured.number("bytes");
    row.metric = time_us && bytes ? "time_us" : "busbw_GBps";
    row.measured = time_us && bytes ? *time_us : bus.value_or(0);
    const std::string name = measured.text("collective");
    const auto kind = kind_of(name);
    row.group = fmt::format("{} {}", name, !bytes || *bytes > kLargeMessage ? "above 1 MB" : "up to 1 MB");
    const bool shift = name == "sendrecv";  // every rank sends the tensor to the next one
    if (!kind && !shift) {
        row.skipped = fmt::format("'{}' is not a collective", name);
        return;
    }
    if (!(time_us && bytes) && !bus) {
        row.skipped = "neither time nor bus bandwidth";
        return;
    }
    const auto platform = system_of(measured, row);
    if (!platform) return;
    const auto ranks = static_cast<int>(measured.required_integer("gpus"));
    const auto nodes = static_cast<int>(measured.required_integer("nodes"));
    if (!bytes) row.inferred.push_back("bytes: 8 GiB (plateau)");
    const Bytes size = bytes ? Bytes::rounded(*bytes) : Bytes(kPlateauBytes);
    // Sources that say so ran without reduction in the switch.
    Platform used = *platform;
    const std::string notes = measured.text("notes") + measured.text("intra_fabric");
    if (notes.find("NVLS off") != std::string::npos || notes.find("ring") != std::string::npos ||
        notes.find("algo Ring") != std::string::npos)
        used.node_fabric.collectives.in_network_reduction = 0;
    const Topology topology(used);
    Group group;
    for (int rank = 0; rank < ranks; ++rank)
        group.push_back(rank);
    const double moved = shift ? 1 : bus_factor(*kind, ranks);
    const Seconds time = shift ? shift_time(group, size, topology)
                               : collective_time(*kind, CollectiveAlgorithm::automatic, group, size, topology);
    const auto as_metric = [&](Seconds duration) {
        if (row.metric == "time_us") return duration.value() * 1e6;
        return moved * size.as_double() / duration.value() / 1e9;
    };
    row.predicted = as_metric(time);
    if (!options.baseline) return;
    // The data sheet alone: the bytes of a ring at the rate of a device's port, or of its share of the node's NICs.
    double rate = used.node_fabric.bandwidth.value();
    if (nodes > 1) rate = std::min(rate, used.fabric.bandwidth.value() * used.fabric.nics);
    row.baseline = as_metric(Seconds(moved * size.as_double() / rate));
}

}  // namespace

std::vector<ValidatedRow> validate_collectives(const MeasuredTable& table, const ValidateOptions& options) {
    return validate_rows(table,
                         [&](const MeasuredRow& measured, ValidatedRow& row) { predict(measured, options, row); });
}

}  // namespace plansim
