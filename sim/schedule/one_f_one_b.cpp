// SPDX-License-Identifier: Apache-2.0
// 1F1B (PipeDream-flush, Narayanan et al. 2021): stage s warms up with stages - s - 1 forward passes, so that it never
// holds the activations of more than stages - s microbatches.
#include "sim/schedule/orders.hpp"
#include "sim/schedule/pattern_order.hpp"

namespace plansim {

std::unique_ptr<PassOrder> make_one_f_one_b(const PipelineShape& shape, int stage) {
    auto order = std::make_unique<PatternOrder>(shape.microbatches);
    order->repeat(shape.stages - stage - 1, {{PassKind::forward}});
    order->finish({{PassKind::forward}, {PassKind::backward}});
    return order;
}

}  // namespace plansim
