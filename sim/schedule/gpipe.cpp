// SPDX-License-Identifier: Apache-2.0
// GPipe (Huang et al. 2019): all forward passes, then all backward passes in the same order of microbatches.
#include "sim/schedule/orders.hpp"

namespace plansim {
namespace {

class Gpipe : public PassOrder {
  public:
    explicit Gpipe(std::int64_t microbatches) : microbatches_(microbatches) {}
    [[nodiscard]] std::int64_t length() const override { return 2 * microbatches_; }
    [[nodiscard]] PassStep at(std::int64_t index) const override {
        return {index >= microbatches_, 0, index % microbatches_};
    }

  private:
    std::int64_t microbatches_;
};

}  // namespace

std::unique_ptr<PassOrder> make_gpipe(const PipelineShape& shape, int) {
    return std::make_unique<Gpipe>(shape.microbatches);
}

}  // namespace plansim
