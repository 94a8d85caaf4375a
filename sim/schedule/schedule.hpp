// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules: what each stage executes, in which order, as a lazily generated stream of instructions.
//
// A schedule is an order of passes (forward or backward of one chunk for one microbatch); sends and receives follow
// from it and from where PipelineShape puts the virtual stages. One builder per file (gpipe.cpp, zb_h1.cpp, ...) behind
// PassOrder. A stream is a cursor over closed forms: its memory grows with the stages, not with the microbatches.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/spec/plan.hpp"

namespace plansim {

/// A backward pass as a whole, or split: gradients of the chunk's input (B), later those of its weights (W).
enum class PassKind { forward, backward, backward_input, backward_weight };

/// One pass of a chunk for a microbatch.
struct PassStep {
    PassKind kind = PassKind::forward;
    int chunk = 0;
    std::int64_t microbatch = 0;
    bool joined = false;  // with the next pass: the inputs of both are awaited first, the outputs of both sent last
    friend bool operator==(const PassStep&, const PassStep&) = default;
};

/// The order of passes on one stage.
class PassOrder {
  public:
    virtual ~PassOrder() = default;
    [[nodiscard]] virtual std::int64_t length() const = 0;
    /// 0 <= index < length(); O(log stages).
    [[nodiscard]] virtual PassStep at(std::int64_t index) const = 0;
};
std::unique_ptr<PassOrder> pass_order(const PipelineShape& shape, int stage);

enum class InstructionKind {
    gather_parameters,  // once, first: parameters that another rank owns (ZeRO-1)
    receive_forward,
    forward,
    send_forward,
    receive_backward,
    backward,         // as a whole
    backward_input,   // B and W of a schedule that splits the backward pass, also where one follows the other
    backward_weight,  //
    send_backward,
    reduce_gradients,  // once, after the last backward pass
    optimizer_step     // once, last
};
std::string_view name_of(InstructionKind kind);

struct Instruction {
    InstructionKind kind = InstructionKind::forward;
    int chunk = 0;
    std::int64_t microbatch = 0;
    friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// Yields the instructions of one stage one by one.
class InstructionStream {
  public:
    InstructionStream(const PipelineShape& shape, int stage);
    /// The next instruction, or nothing at the end.
    std::optional<Instruction> next();

  private:
    void queue_next_passes();
    void queue_compute(const PassStep& pass);
    void queue_transfer(const PassStep& pass, bool receive);

    PipelineShape shape_;
    int stage_;
    std::unique_ptr<PassOrder> order_;
    std::int64_t step_ = 0;
    std::deque<Instruction> queue_;  // of the current pass, or of passes that are joined
    int tail_ = 0;                   // instructions after the last pass
    bool started_ = false;
};

/// Runs the streams without time: every receive must find its send, every pass must come after what it needs, nothing
/// may be left over. Throws SimulationError that names stage, instruction and what it waits for. O(instructions).
void validate_schedule(const PipelineShape& shape);
/// The same for given streams, one per stage.
void validate_streams(const PipelineShape& shape,
                      const std::vector<std::function<std::optional<Instruction>()>>& streams);

}  // namespace plansim
