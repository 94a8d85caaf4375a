// SPDX-License-Identifier: Apache-2.0
// DualPipe (DeepSeek-V3 technical report 2024): half of the microbatches enters at stage 0, the other half at stage
// p - 1, and every stage holds the parameters of both directions. In the steady state a forward pass of one direction
// is joined with a backward pass of the other. The order is that of github.com/deepseek-ai/DualPipe (dualpipe.py), with
// its eight steps; "near" is the direction that enters at the closer end of the pipeline.
//
// Assumptions: a joined pair waits for both inputs and sends both outputs at its end, but takes F + B: what DeepSeek
// hides in it (all-to-all, stage boundaries, by splitting the devices' units) is not hidden here beyond what the
// software profile overlaps anyway. Bubble (p / 2 - 1)(F&B + B - 3 W), B the whole backward pass; p + 1 activations.
#include <algorithm>
#include <deque>

#include "sim/schedule/orders.hpp"
#include "sim/schedule/pattern_order.hpp"

namespace plansim {
namespace {

class DualPipe {
  public:
    DualPipe(const PipelineShape& shape, int stage)
        : stages_(shape.stages),
          depth_(std::min(stage, shape.stages - 1 - stage)),
          inner_(shape.stages / 2 - depth_ - 1),
          near_(stage < shape.stages / 2 ? 0 : 1),
          microbatches_(shape.passes()),
          order_(std::make_unique<PatternOrder>(microbatches_)) {}

    std::unique_ptr<PassOrder> build() {
        const PatternPass near_forward{PassKind::forward, near_};
        const PatternPass far_forward{PassKind::forward, far()};
        const PatternPass near_backward{PassKind::backward, near_};
        const PatternPass far_backward{PassKind::backward, far()};
        const PatternPass near_joined{PassKind::forward, near_, true};
        const PatternPass far_joined{PassKind::forward, far(), true};
        order_->repeat(2 * inner_, {near_forward});                 // step 1
        order_->repeat(depth_ + 1, {near_forward, far_forward});    // step 2
        order_->repeat(inner_, {{PassKind::backward_input, far()},  // step 3
                                {PassKind::backward_weight, far()},
                                far_forward});
        std::int64_t steady = microbatches_ - stages_ + depth_ + 1;  // step 4
        if (inner_ == 0) {                                           // the middle stages do not join their first pair
            order_->repeat(1, {near_forward, far_backward, far_joined, near_backward});
            --steady;
        }
        order_->repeat(steady, {near_joined, far_backward, far_joined, near_backward});
        order_->repeat(inner_, {far_backward, far_joined, near_backward});  // step 5
        drain();
        return std::move(order_);
    }

  private:
    [[nodiscard]] int far() const { return 1 - near_; }

    /// Steps 6 to 8: no forward passes are left. The last depth + 1 backward passes of step 6 and those of step 7 are
    /// split; their weight gradients follow in the same order.
    void drain() {
        for (int pass = 0; pass < 2 * (depth_ + 1); ++pass)
            backward(pass % 2 == 0 ? far() : near_, pass > depth_);
        for (int pass = 0; pass < inner_; ++pass) {
            weight();
            backward(near_, true);
        }
        while (!delayed_.empty())
            weight();
    }
    void backward(int chunk, bool split) {
        order_->repeat(1, {{split ? PassKind::backward_input : PassKind::backward, chunk}});
        if (split) delayed_.push_back(chunk);
    }
    void weight() {
        order_->repeat(1, {{PassKind::backward_weight, delayed_.front()}});
        delayed_.pop_front();
    }

    int stages_;
    int depth_;  // stages between this one and the closer end
    int inner_;  // stages between this one and the middle
    int near_;   // chunk of the near direction
    std::int64_t microbatches_;
    std::unique_ptr<PatternOrder> order_;
    std::deque<int> delayed_;  // chunks whose weight gradients are due
};

}  // namespace

std::unique_ptr<PassOrder> make_dualpipe(const PipelineShape& shape, int stage) {
    return DualPipe(shape, stage).build();
}

}  // namespace plansim
