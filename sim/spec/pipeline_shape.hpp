// SPDX-License-Identifier: Apache-2.0
// How a pipeline schedule lays the model over the stages. A virtual stage is one chunk of the model on one stage; a
// microbatch passes them in ascending order, backward in descending order. This is the only place that knows which
// stage holds which virtual stage:
//   looped    v = chunk x stages + stage                          gpipe, 1f1b, zb-h1 (one chunk), interleaved
//   V shape   chunk 0 on stages 0 .. p-1, chunk 1 on p-1 .. 0     zb-v, dualpipe
// DualPipe's two chunks are two copies of the whole chain: half of the microbatches passes virtual stages 0 .. p-1, the
// other half p .. 2p-1, which run over the stages the other way round.
#pragma once

#include <cstdint>
#include <string_view>

namespace plansim {

enum class ScheduleKind { gpipe, one_f_one_b, interleaved, zb_h1, zb_v, dualpipe };
std::string_view name_of(ScheduleKind kind);

/// The backward pass is split: gradients of the activations first, those of the weights when there is time.
constexpr bool splits_backward(ScheduleKind kind) {
    return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_v || kind == ScheduleKind::dualpipe;
}
constexpr bool v_shaped(ScheduleKind kind) {
    return kind == ScheduleKind::zb_v || kind == ScheduleKind::dualpipe;
}
/// Copies of the chain, each with its own microbatches.
constexpr int copies_of(ScheduleKind kind) {
    return kind == ScheduleKind::dualpipe ? 2 : 1;
}

struct PipelineShape {
    ScheduleKind kind = ScheduleKind::one_f_one_b;
    int stages = 1;
    int chunks = 1;  // per stage
    std::int64_t microbatches = 1;

    [[nodiscard]] int virtual_stages() const { return stages * chunks; }
    [[nodiscard]] int chunk_of(int virtual_stage) const { return virtual_stage / stages; }
    [[nodiscard]] int stage_of(int virtual_stage) const {
        const bool way_back = v_shaped(kind) && virtual_stage >= stages;
        return way_back ? 2 * stages - 1 - virtual_stage : virtual_stage % stages;
    }
    [[nodiscard]] int virtual_stage(int stage, int chunk) const {
        return v_shaped(kind) && chunk == 1 ? 2 * stages - 1 - stage : chunk * stages + stage;
    }
    [[nodiscard]] int copies() const { return copies_of(kind); }
    /// Microbatches that pass each chunk; they are counted from 0 in each copy.
    [[nodiscard]] std::int64_t passes() const { return microbatches / copies(); }
    /// The virtual stage whose output is the input of `virtual_stage` (backward: its gradient); -1 where a chain
    /// starts.
    [[nodiscard]] int source(int virtual_stage, bool backward) const {
        const int length = virtual_stages() / copies();
        const int position = virtual_stage % length;
        if (position == (backward ? length - 1 : 0)) return -1;
        return virtual_stage + (backward ? 1 : -1);
    }
    /// Where the output of `virtual_stage` goes; -1 where a chain ends.
    [[nodiscard]] int target(int virtual_stage, bool backward) const { return source(virtual_stage, !backward); }
    /// True if `other` is a virtual stage (not -1) on another stage, so that there is something to send.
    [[nodiscard]] bool apart(int virtual_stage, int other) const {
        return other >= 0 && stage_of(virtual_stage) != stage_of(other);
    }
};

}  // namespace plansim
