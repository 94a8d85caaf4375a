// SPDX-License-Identifier: Apache-2.0
// Which devices a plan's groups consist of. A worker is the tensor-parallel group of one stage of one replica: its
// devices run the same instructions in lockstep, because every layer synchronises them.
#pragma once

#include <vector>

#include "sim/collective/collective.hpp"
#include "sim/spec/plan.hpp"

namespace plansim {

class Layout {
  public:
    explicit Layout(const Plan& plan) : plan_(plan) {}

    [[nodiscard]] int workers() const { return plan_.dp * plan_.pp; }
    [[nodiscard]] int worker(int replica, int stage) const { return replica * plan_.pp + stage; }
    [[nodiscard]] int stage_of(int worker) const { return worker % plan_.pp; }
    [[nodiscard]] int replica_of(int worker) const { return worker / plan_.pp; }
    /// Devices of a worker in order of their tp rank.
    [[nodiscard]] Group tp_group(int replica, int stage) const;
    /// Devices that hold the same parameters: one of each replica.
    [[nodiscard]] Group dp_group(int tp_rank, int stage) const;
    /// All dp groups of a stage: they reduce at the same time.
    [[nodiscard]] std::vector<Group> dp_groups(int stage) const;

  private:
    const Plan& plan_;
};

}  // namespace plansim
