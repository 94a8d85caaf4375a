// SPDX-License-Identifier: Apache-2.0
// Which devices a plan's groups consist of. A worker is the tensor- and context-parallel ranks of one stage of one
// replica: its devices run the same instructions in lockstep, because every layer synchronises them.
#pragma once

#include <algorithm>
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
    /// The stage that keeps the books of a stage's parameters: its own, or under DualPipe the first of the two stages
    /// that hold the same ones.
    [[nodiscard]] int owner_of(int stage) const {
        return plan_.copies() > 1 ? std::min(stage, plan_.pp - 1 - stage) : stage;
    }
    /// Devices that hold the same parameters: the cp ranks of every replica (and of the stage's twin under DualPipe).
    [[nodiscard]] Group dp_group(int tp_rank, int stage) const;
    /// All dp groups of a stage: they reduce at the same time.
    [[nodiscard]] std::vector<Group> dp_groups(int stage) const;

  private:
    const Plan& plan_;
};

}  // namespace plansim
