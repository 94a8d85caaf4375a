// SPDX-License-Identifier: Apache-2.0
// Which devices a plan's groups consist of. A worker is the tensor- and context-parallel ranks of one stage of one
// replica: its devices run the same instructions in lockstep, because every layer synchronises them.
#pragma once

#include <vector>

#include "sim/collective/collective.hpp"
#include "sim/graph/operator.hpp"
#include "sim/spec/plan.hpp"

namespace plansim {

class Layout {
  public:
    explicit Layout(const Plan& plan) : plan_(plan) {}

    [[nodiscard]] int workers() const { return plan_.dp * plan_.pp; }
    [[nodiscard]] int worker(int replica, int stage) const { return replica * plan_.pp + stage; }
    [[nodiscard]] int stage_of(int worker) const { return worker % plan_.pp; }
    [[nodiscard]] int replica_of(int worker) const { return worker / plan_.pp; }
    /// Devices of a worker, tp ranks fastest.
    [[nodiscard]] Group devices(int replica, int stage) const;
    /// The groups of an axis that a worker consists of: its tp groups (one per cp rank) or cp groups (one per tp rank).
    [[nodiscard]] std::vector<Group> groups(Axis axis, int replica, int stage) const;
    /// Devices that hold the same parameters: the cp ranks of every replica.
    [[nodiscard]] Group dp_group(int tp_rank, int stage) const;
    /// All dp groups of a stage: they reduce at the same time.
    [[nodiscard]] std::vector<Group> dp_groups(int stage) const;

  private:
    const Plan& plan_;
};

}  // namespace plansim
