// SPDX-License-Identifier: Apache-2.0
// What need not be simulated because it cannot behave differently: collectives whose links nobody else uses, replicas
// that never meet, tensor-parallel ranks whose networks are copies of each other; private to the module.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/cost/layout.hpp"

namespace plansim {

/// Which collectives of units (tensor- and context-parallel) meet other traffic on their links and must be flows.
struct Contention {
    bool always = false;        // stage boundaries or other groups use the same links
    bool with_buckets = false;  // data-parallel collectives do: only passes that run beside them
};
Contention unit_contention(const Plan& plan, const Topology& topology);

/// True if replicas share no link that could limit them, so that one of them behaves like all.
bool replicas_are_independent(const Plan& plan, const Topology& topology);

/// For each tensor-parallel rank but the first: the link that it uses where rank 0 uses a given one.
using RankLinks = std::vector<std::unordered_map<LinkId, LinkId>>;
/// Set if stage boundaries and data-parallel groups of all tensor-parallel ranks run over disjoint copies of the same
/// network: then the flows of rank 0 end when those of all ranks would. O(flows of one step).
std::optional<RankLinks> congruent_ranks(const Plan& plan, const Topology& topology);

}  // namespace plansim
