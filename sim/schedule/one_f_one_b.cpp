// SPDX-License-Identifier: Apache-2.0
// 1F1B (PipeDream-flush, Narayanan et al. 2021): stage s warms up with stages - s - 1 forward passes, so that it never
// holds the activations of more than stages - s microbatches.
#include "sim/schedule/orders.hpp"
#include "sim/schedule/warmup_order.hpp"

namespace plansim {
namespace {

class OneFOneB : public WarmupOrder {
  public:
    using WarmupOrder::WarmupOrder;

  protected:
    [[nodiscard]] PassStep nth(std::int64_t n, bool backward) const override { return {backward, 0, n}; }
};

}  // namespace

std::unique_ptr<PassOrder> make_one_f_one_b(const PipelineShape& shape, int stage) {
    return std::make_unique<OneFOneB>(shape.microbatches, shape.stages - stage - 1);
}

}  // namespace plansim
