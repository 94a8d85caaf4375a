// SPDX-License-Identifier: Apache-2.0
// Interleaved 1F1B (Narayanan et al. 2021): every stage holds several chunks of the model, so the bubble shrinks by
// their number. Microbatches advance in groups of as many as there are stages: a group passes chunk 0, then chunk 1 and
// so on; backward the chunks come in reverse. Microbatches must be a multiple of the stages.
#include "sim/schedule/orders.hpp"
#include "sim/schedule/pattern_order.hpp"

namespace plansim {
namespace {

class Interleaved : public PassOrder {
  public:
    Interleaved(const PipelineShape& shape, std::int64_t warmup)
        : stages_(shape.stages), chunks_(shape.chunks), turns_(shape.microbatches * shape.chunks) {
        turns_.repeat(warmup, {{PassKind::forward}});
        turns_.finish({{PassKind::forward}, {PassKind::backward}});
    }
    [[nodiscard]] std::int64_t length() const override { return turns_.length(); }
    [[nodiscard]] PassStep at(std::int64_t index) const override {
        const PassStep turn = turns_.at(index);
        const std::int64_t n = turn.microbatch;  // the n-th pass of its direction, over all chunks
        const std::int64_t group = n / (std::int64_t{stages_} * chunks_);
        const int chunk = static_cast<int>(n / stages_ % chunks_);
        const bool backward = turn.kind == PassKind::backward;
        return {turn.kind, backward ? chunks_ - 1 - chunk : chunk, group * stages_ + n % stages_};
    }

  private:
    int stages_;
    int chunks_;
    PatternOrder turns_;
};

}  // namespace

std::unique_ptr<PassOrder> make_interleaved(const PipelineShape& shape, int stage) {
    if (shape.chunks == 1) return make_one_f_one_b(shape, stage);
    const std::int64_t warmup =
        std::int64_t{2} * (shape.stages - stage - 1) + std::int64_t{shape.chunks - 1} * shape.stages;
    return std::make_unique<Interleaved>(shape, warmup);
}

}  // namespace plansim
