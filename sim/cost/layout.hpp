// SPDX-License-Identifier: Apache-2.0
// Which devices a plan's groups consist of. A worker is the tensor- and context-parallel ranks of one stage of one
// replica: its devices run the same instructions in lockstep, because every layer synchronises them.
//
// Expert groups are laid over the tp x cp x dp ranks of a stage in that order: etp consecutive ranks share an expert,
// ep such sets hold all experts, and the sets at the same place of the ep groups hold the same experts (Megatron-Core's
// order tp-ep-dp).
#pragma once

#include <algorithm>
#include <vector>

#include "sim/collective/collective.hpp"
#include "sim/graph/operator.hpp"
#include "sim/spec/plan.hpp"

namespace plansim {

/// Ranks that hold the same parameters: all of them; those that share one copy of what ZeRO shards; those that hold the
/// same shard of different copies; those that hold the same experts; under local SGD those at the same place of the
/// outer replicas.
enum class DataGroup { all, shard, copies, experts, outer };

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
    /// Expert groups join several replicas: they are listed with the replica of their first rank.
    [[nodiscard]] std::vector<Group> groups(Axis axis, int replica, int stage) const;
    /// The stage that keeps the books of a stage's parameters: its own, or under DualPipe the first of the two stages
    /// that hold the same ones.
    [[nodiscard]] int owner_of(int stage) const {
        return plan_.copies() > 1 ? std::min(stage, plan_.pp - 1 - stage) : stage;
    }
    /// Devices that hold the same parameters: the cp ranks of every replica (and of the stage's twin under DualPipe);
    /// under local SGD one such group for each outer replica.
    [[nodiscard]] std::vector<Group> dp_groups(int tp_rank, int stage) const;
    /// All groups of a kind of a stage: they communicate at the same time.
    [[nodiscard]] std::vector<Group> data_groups(DataGroup kind, int stage) const;

  private:
    [[nodiscard]] std::vector<Group> expert_groups(int replica, int stage) const;
    [[nodiscard]] std::vector<Group> expert_data_groups(int stage) const;
    /// Cuts a group whose parameters ZeRO shards into those that share one copy, or those that hold the same shard.
    void add_shards(std::vector<Group>& groups, const Group& all, DataGroup kind) const;

    const Plan& plan_;
};

}  // namespace plansim
