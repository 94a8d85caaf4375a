// SPDX-License-Identifier: Apache-2.0
// The collective operations of distributed training and their algorithms, by their usual names.
#pragma once

namespace plansim {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast };
enum class CollectiveAlgorithm { automatic, ring, tree, direct, in_network, halving_doubling };

}  // namespace plansim
