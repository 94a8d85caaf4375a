// SPDX-License-Identifier: Apache-2.0
// The platform document: one accelerator type, the node that holds several of them, and the fabric between nodes.
// Schema with every key, unit and default: platforms/README.md. Units are per device and per direction.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sim/base/reader.hpp"
#include "sim/base/units.hpp"
#include "sim/spec/collective_kind.hpp"
#include "sim/spec/power.hpp"

namespace plansim {

/// mxfp8 is fp8 with a scale per block of 32 (microscaling): the peak is that of fp8.
enum class Precision { fp32, tf32, bf16, fp16, fp8, mxfp8, fp4 };
std::string_view name_of(Precision precision);

/// Rates of the device that hold in sustained operation, as shares of the data sheet.
struct AcceleratorEfficiency {
    std::map<Precision, double> sustained;       // dense matrix products, share of peak
    std::map<Precision, double> short_run;       // the same before power limits the clock; benchmarks only
    Seconds standalone_time{5.2e-6};             // fixed time of a product that nothing runs beside
    double stream = 0.85;                        // memory microbenchmark, share of HBM bandwidth
    double training_stream = 0.953;              // training kernels against that microbenchmark
    std::map<std::string, double> attention;     // attention kernel generation -> forward share of the bf16 peak
    double attention_default = 0.5;              // for a kernel generation that `attention` does not list
    double attention_backward_ratio = 0.6;       // backward rate / forward rate
    double attention_half_sequence = 385;        // sequence at which a fused kernel reaches half of its rate
    double small_head_attention = 0.8;           // factor for head dim 64 or less
    double batched_matmul = 0.733;               // unfused attention products, share of the sustained rate
    double batched_matmul_half_head_dim = 48.8;  // head dim at which they reach half of that
    double misaligned_head_dim = 0.165;          // their rate factor if head dim is not a multiple of 8
    double grouped_gemm = 0.873;                 // grouped products of experts / dense products
    double tile_overhead_k = 196;                // prologue and epilogue of one tile, in steps of k, at the H100 rate
    double wave_quantisation = 0.2;              // weight of whole waves against fractional ones, 0 .. 1
};

struct Accelerator {
    std::string name;
    std::vector<std::string> aliases;          // what published tables call it
    std::map<Precision, FlopsPerSecond> peak;  // dense, data sheet
    Bytes hbm_capacity;
    BytesPerSecond hbm_bandwidth;
    Bytes on_chip_memory;  // last-level cache or scratchpad
    BytesPerSecond host_bandwidth{
        50e9};                    // to the memory of the host, per direction (PCIe 5 x16 achieves about 50 GB/s)
    int compute_units = 1;        // SMs, CUs or cores: tiles of a matrix product are spread over them
    bool wave_quantised = true;   // false for systolic arrays that pad instead (TPU)
    int matrix_padding = 1;       // m and n are padded to a multiple of this if not wave-quantised
    Seconds kernel_time{2.9e-6};  // fixed device time of every kernel (launch overhead seen on the device)
    AcceleratorEfficiency efficiency;
    PowerFigures power;

    /// Data-sheet rate of matrix products in a training precision; in bf16 if the device does not have that.
    [[nodiscard]] FlopsPerSecond peak_rate(Precision precision) const;
};

std::string_view name_of(CollectiveAlgorithm algorithm);

/// How collectives behave on one kind of fabric. time = latency terms + bytes/rate * (1 + ramp / (1 +
/// bytes/ramp_bytes)).
struct CollectiveFigures {
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;  // of all-reduce; automatic: as NCCL chooses
    double efficiency = 0.8;                                         // goodput at large messages / link bandwidth
    double all_to_all_efficiency = 0.7;                              // the same for all-to-all
    double in_network_reduction = 0;  // goodput of an all-reduce that the switches reduce / bandwidth; 0: they do not
    double own_share = 0;             // part of a rank's own share of the tensor whose copy a ring does not hide
    Seconds latency{22.4e-6};         // base of every collective
    Seconds hop_latency{5e-6};        // of one more step on a ring: of devices in a node, of nodes between nodes
    Seconds tree_latency{26e-6};      // per doubling of the nodes of a tree
    Seconds p2p_latency{10e-6};       // of one point-to-point transfer
    double ramp = 0.893;              // excess time at small messages
    Bytes ramp_bytes{50'000'000};     // message volume at which the excess has halved
};

enum class FabricKind { none, nvswitch, fat_tree, spine_leaf, torus, graph };
std::string_view name_of(FabricKind kind);

/// One full-duplex cable of a graph fabric; ends are "device3", "node2", or the name of a switch.
struct GraphLink {
    std::string from;
    std::string to;
    BytesPerSecond bandwidth;  // per direction
    int count = 1;             // parallel cables, used as one
};

/// Either the fabric inside a node (nvswitch, graph, none) or the one between nodes (all kinds).
struct Fabric {
    FabricKind kind = FabricKind::none;
    BytesPerSecond
        bandwidth;           // nvswitch: per device; fat_tree, spine_leaf: per NIC; torus: per link; all per direction
    int nics = 0;            // NICs per node (fat_tree, spine_leaf)
    int nodes_per_leaf = 0;  // nodes below one leaf switch (spine_leaf) or below one set of rail leaves (fat_tree)
    double oversubscription = 1;        // capacity of a leaf's downlinks / capacity of its uplinks
    std::vector<std::int64_t> dims;     // torus: devices along each axis
    std::vector<std::string> switches;  // graph
    std::vector<GraphLink> links;       // graph
    CollectiveFigures collectives;
    std::string where;  // graph: place of the links, for messages; not part of the document
};

struct Platform {
    std::string name;
    std::string source_file;  // for messages; not part of the document
    int devices = 0;          // in use; multiple of devices_per_node, or fewer than one node
    int devices_per_node = 1;
    Accelerator accelerator;
    BytesPerSecond host_memory_bandwidth{400e9};  // of a node's processors; guess: two sockets of 8 DDR5-4800 channels
    CoolingFigures cooling;                       // of every node
    Fabric node_fabric;                           // joins the devices of one node: the scale-up domain
    Fabric fabric;                                // joins nodes

    [[nodiscard]] int nodes() const { return (devices + devices_per_node - 1) / devices_per_node; }
};

/// Devices that a platform may have: the links of more do not fit into the memory of a workstation.
inline constexpr double kMostDevices = 1 << 20;

/// Reads and validates the map `accelerator` of a platform, or a document of its own.
Accelerator read_accelerator(Reader map);
/// The accelerator as a document; reading it back gives an equal one.
std::string to_yaml(const Accelerator& accelerator);

/// Reads and validates. Scales to `devices` if it is above 0 (torus: dims become the most cubic ones; graph: cannot
/// grow).
Platform read_platform(Reader document, int devices);
/// The document as YAML, with the accelerator written out; reading it back gives an equal Platform.
std::string to_yaml(const Platform& platform);

}  // namespace plansim
