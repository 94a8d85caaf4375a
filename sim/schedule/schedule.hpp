// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules: what each stage executes, in which order, as a lazily generated stream of instructions.
//
// A schedule is an order of passes (forward or backward of one chunk for one microbatch); sends and receives follow
// from it, because virtual stage v = chunk * stages + stage receives from v - 1 and sends to v + 1 (backward: the other
// way). One builder per file (gpipe.cpp, one_f_one_b.cpp, interleaved.cpp) behind PassOrder. A stream is a cursor over
// closed forms: it takes O(1) memory however many microbatches there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/spec/plan.hpp"

namespace plansim {

struct PipelineShape {
    ScheduleKind kind = ScheduleKind::one_f_one_b;
    int stages = 1;
    int chunks = 1;  // per stage
    std::int64_t microbatches = 1;
    [[nodiscard]] int virtual_stages() const { return stages * chunks; }
};
PipelineShape pipeline_shape(const Plan& plan);

/// One forward or backward pass of a chunk for a microbatch.
struct PassStep {
    bool backward = false;
    int chunk = 0;
    std::int64_t microbatch = 0;
    friend bool operator==(const PassStep&, const PassStep&) = default;
};

/// The order of passes on one stage.
class PassOrder {
  public:
    virtual ~PassOrder() = default;
    [[nodiscard]] virtual std::int64_t length() const = 0;
    /// 0 <= index < length(); O(1).
    [[nodiscard]] virtual PassStep at(std::int64_t index) const = 0;
};
std::unique_ptr<PassOrder> pass_order(const PipelineShape& shape, int stage);

enum class InstructionKind {
    gather_parameters,  // once, first: parameters that another rank owns (ZeRO-1)
    receive_forward,
    forward,
    send_forward,
    receive_backward,
    backward,
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
    PipelineShape shape_;
    int stage_;
    std::unique_ptr<PassOrder> order_;
    std::int64_t step_ = 0;
    int part_ = 0;  // receive, pass, send within a step
    int tail_ = 0;  // instructions after the last pass
    bool started_ = false;
};

/// Runs the streams without time: every receive must find its send, every pass must come after what it needs, nothing
/// may be left over. Throws SimulationError that names stage, instruction and what it waits for. O(instructions).
void validate_schedule(const PipelineShape& shape);
/// The same for given streams, one per stage.
void validate_streams(const PipelineShape& shape,
                      const std::vector<std::function<std::optional<Instruction>()>>& streams);

}  // namespace plansim
