// SPDX-License-Identifier: Apache-2.0
// GPipe (Huang et al. 2019): all forward passes, then all backward passes in the same order of microbatches.
#include "sim/schedule/orders.hpp"
#include "sim/schedule/pattern_order.hpp"

namespace plansim {

std::unique_ptr<PassOrder> make_gpipe(const PipelineShape& shape, int) {
    auto order = std::make_unique<PatternOrder>(shape.microbatches);
    order->finish({{PassKind::forward}}).finish({{PassKind::backward}});
    return order;
}

}  // namespace plansim
