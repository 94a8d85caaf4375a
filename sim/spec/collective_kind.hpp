// SPDX-License-Identifier: Apache-2.0
// The collective operations of distributed training, by their usual names.
#pragma once

namespace plansim {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast };

}  // namespace plansim
