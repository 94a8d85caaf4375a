// SPDX-License-Identifier: Apache-2.0
// ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): 1F1B with a split backward pass. Stage s keeps the weight
// gradients of s microbatches back, so that all stages hold the activations of as many microbatches as stage 0 does,
// and computes them where 1F1B waits. Bubble (p - 1)(F + B - W).
#include "sim/schedule/orders.hpp"
#include "sim/schedule/pattern_order.hpp"

namespace plansim {

std::unique_ptr<PassOrder> make_zb_h1(const PipelineShape& shape, int stage) {
    auto order = std::make_unique<PatternOrder>(shape.microbatches);
    order->repeat(shape.stages - stage - 1, {{PassKind::forward}});
    order->repeat(stage, {{PassKind::forward}, {PassKind::backward_input}});
    order->finish({{PassKind::forward}, {PassKind::backward_input}, {PassKind::backward_weight}});
    return order;
}

}  // namespace plansim
