// SPDX-License-Identifier: Apache-2.0
// ZB-V (Qi et al. 2023, section 6): two chunks per stage in V shape, so that embedding and head share stage 0 and the
// backward pass of a microbatch starts where its forward pass has ended. In the steady state F B W of one chunk follow
// those of the other. With F = B = W and at least 2 p microbatches no stage waits between its first and its last pass,
// with the activations of p microbatches. The order is the handcrafted one, as torch.distributed.pipelining has it.
#include <algorithm>

#include "sim/schedule/orders.hpp"
#include "sim/schedule/pattern_order.hpp"

namespace plansim {

std::unique_ptr<PassOrder> make_zb_v(const PipelineShape& shape, int stage) {
    const PatternPass f0{PassKind::forward, 0};
    const PatternPass f1{PassKind::forward, 1};
    const PatternPass b0{PassKind::backward_input, 0};
    const PatternPass b1{PassKind::backward_input, 1};
    const PatternPass w0{PassKind::backward_weight, 0};
    const PatternPass w1{PassKind::backward_weight, 1};
    const int stages = shape.stages;
    // Fewer microbatches than fill the pipeline: the order for 2 p - 1 of them, without those that do not exist.
    const std::int64_t microbatches = std::max<std::int64_t>(2 * stages - 1, shape.microbatches);
    auto order = std::make_unique<PatternOrder>(shape.microbatches);
    order->repeat(2 * (stages - stage) - 1, {f0});
    order->repeat(stage, {f1, f0});
    order->repeat(stages - stage, {f1, b1, w1});
    order->repeat(microbatches - stages, {f0, b0, w0, f1, b1, w1});
    order->repeat(stage, {b0, b1});
    order->repeat(stages - stage, {b0, w0});
    order->finish({w1}).finish({w0});
    return order;
}

}  // namespace plansim
