// SPDX-License-Identifier: Apache-2.0
// Small scenarios whose times can be derived by hand: no latency, no ramp, every efficiency 1, rates that are powers of
// two, a framework without host time, kernels, overlap or fragmentation.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/cost_model.hpp"

namespace plansim {

inline constexpr double kPeak = 1125899906842624.0;     // FLOP/s in 16 bits, 2^50; fp8 twice, fp32 a sixteenth of it
inline constexpr double kMemoryRate = 2199023255552.0;  // B/s, 2^41
inline constexpr double kNodeRate = 274877906944.0;     // B/s per device inside a node, 2^38
inline constexpr double kNicRate = 34359738368.0;       // B/s per NIC, 2^35
inline constexpr double kTick = 1.0 / 1024;             // s; sums of whole ticks are exact

/// Node switches joined by a fat tree, `nics` per node (0: one per device). Memory never runs out.
Platform ideal_platform(int nodes, int devices_per_node, int nics = 0);
/// A framework that does nothing besides the operators themselves.
Software bare_software();

/// A chain of operators bound by FLOPs: the k-th takes ticks[k] ticks forward and twice that backward per sample, hands
/// on `boundary` bytes and has `parameters`. gbs as given.
Workload chain_workload(const std::vector<int>& ticks, std::int64_t gbs, Bytes boundary = Bytes(0),
                        std::int64_t parameters = 0);
/// The same with `nodes` equal operators of `ticks`.
Workload equal_chain(int nodes, int ticks, std::int64_t gbs, Bytes boundary = Bytes(0), std::int64_t parameters = 0);
/// The same, f ticks forward and b + w backward, of which w for the weight gradients (a split backward pass delays
/// them).
Workload split_chain(int nodes, int f, int b, int w, std::int64_t gbs, Bytes boundary = Bytes(0));
/// 8 dense layers of hidden 512, 8 heads, gated feed-forward of 2048, vocabulary 4096, sequence 256.
Workload small_transformer(std::int64_t gbs = 16);
/// Everything switched on: host time, kernels, overlap, latencies, imperfect rates (the defaults of the documents).
Scenario realistic(const Workload& workload, int nodes, int devices_per_node);

/// A document of workloads/.
Workload catalogue_workload(const std::string& name);
/// Inline plan text such as "tp=2 pp=4", read and checked like that of a user; throws InputError if it is not legal.
Plan plan_of(const Scenario& scenario, const std::string& text);

}  // namespace plansim
