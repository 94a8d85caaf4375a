// SPDX-License-Identifier: Apache-2.0
// A planning case in the layer-profile JSON of NEST (MLSys 2026, arXiv 2603.06798; public artifact): one chain of
// layers per tensor-parallel width with latencies, bytes and boundary tensors, a hierarchical network, a memory limit.
//
// Times are in the unit of the profile (milliseconds for TPUv4, GPT-3 and Mixtral); the format does not name it, so
// they are plain doubles here. Ratios of times do not depend on the unit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plansim::nest {

/// Sequences of the global batch; the format does not carry it (NEST uses this figure in every case).
inline constexpr double kSequencesPerBatch = 4096;

/// What one node of the chain (the embedding, a layer, the head) costs per microbatch on one group of devices.
struct Node {
    double forward = 0;
    double backward = 0;
    double recompute = 0;               // of the forward pass, before the backward pass
    std::int64_t parameter_bytes = 0;   // 2 bytes per parameter
    std::int64_t state_bytes = 0;       // weights, gradients and, where counted, optimizer state
    std::int64_t activation_bytes = 0;  // all that the backward pass needs, for one microbatch

    friend bool operator==(const Node&, const Node&) = default;
};

/// The chain at one tensor-parallel width, in topological order.
struct Profile {
    std::int64_t tp = 1;
    std::int64_t group = 1;  // devices that share one stage: tp x ep x cp
    std::vector<Node> nodes;
    std::vector<std::int64_t> boundary;  // largest tensor that crosses the cut before node i; 0 at both ends
};

/// Levels from the inside out; level l joins `sizes[l]` groups of level l-1 (devices at l = 0).
struct Network {
    std::vector<std::int64_t> sizes;
    std::vector<double> bandwidth;  // bytes per unit of time, as written
    std::vector<double> latency;    // units of time

    /// Lowest level whose group holds both devices.
    [[nodiscard]] std::size_t level(std::int64_t a, std::int64_t b) const;
};

/// A plan of another planner to compare with: pp stages on groups of width tp, dp copies.
struct Rival {
    std::string name;
    std::int64_t pp = 1;
    std::int64_t tp = 1;
    std::int64_t dp = 0;                  // 0: as many copies as the devices allow
    std::vector<std::int64_t> partition;  // layers of each stage; empty: even
};

struct Case {
    std::string name;  // of the file, without folder and ending
    std::int64_t devices = 1;
    std::int64_t memory_bytes = 0;
    std::int64_t microbatches = 1;  // of the global batch
    bool recompute = false;         // NEST: on for every stage but the last
    Network network;
    std::vector<Profile> profiles;
    std::vector<Rival> rivals;
    bool head_known = false;  // set by correct(): the language-model head could be taken out of the layers
};

/// Reads a case and scales the last level of its network to `devices` (the file's own number if empty). InputError
/// lists every problem with its place in the file.
Case read_case(const std::filesystem::path& path, std::optional<std::int64_t> devices);

/// What the layers of a profile hold of the language-model head, so that it can be charged once.
struct Head {
    std::int64_t layer_parameter_bytes = 0;  // with layer_activation_bytes: the layer that it belongs to
    std::int64_t layer_activation_bytes = 0;
    double layer_forward = 0;
    double forward = 0;
    double backward = 0;
    std::int64_t parameter_bytes = 0;
    std::int64_t logits_bytes = 0;  // one tensor of logits
};

/// The four slips of the formula, each of which can be put right on its own.
struct Corrections {
    bool bandwidth_unit = true;     // bandwidth terms are seconds among milliseconds
    bool recompute_forward = true;  // recomputing costs a forward pass, not a backward pass
    bool head_once = true;          // the head is part of every layer
    bool optimizer_state = true;    // Adam: 12 bytes per parameter more than weights and gradients
};

/// The case with slips corrected. The head is moved to a node of its own where `heads` knows the layer.
Case correct(Case shipped, const Corrections& corrections, const std::vector<Head>& heads);

}  // namespace plansim::nest
