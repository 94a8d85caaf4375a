// SPDX-License-Identifier: Apache-2.0
// Bytes of traffic that the engine did not see: collectives that ran as delays, and replicas that were folded away;
// private to the module.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/replay/work.hpp"

namespace plansim {

/// Adds a flow that took place so many times.
void add_flow_bytes(const HopFlow& flow, std::int64_t times, const Topology& topology,
                    std::vector<std::int64_t>& bytes);
/// Adds what a worker's units send in one step: what ran as delays, and what ran as flows elsewhere (`copied`).
void add_unit_bytes(const Layout& layout, int replica, int stage, const CollectiveCounts& counts, bool copied,
                    const Topology& topology, std::vector<std::int64_t>& bytes);
/// Adds what a bucket that ran as a delay sent, all its runs together.
void add_bucket_bytes(const Layout& layout, int stage, const Bucket& bucket, const Topology& topology,
                      std::vector<std::int64_t>& bytes);
/// Adds all stage boundaries of a replica, both directions, all microbatches.
void add_boundary_bytes(CostModel& model, const Plan& plan, int replica, std::vector<std::int64_t>& bytes);

}  // namespace plansim
