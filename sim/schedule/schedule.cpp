// SPDX-License-Identifier: Apache-2.0
#include "sim/schedule/schedule.hpp"

#include <fmt/format.h>

#include <set>
#include <tuple>

#include "sim/base/error.hpp"
#include "sim/schedule/orders.hpp"

namespace plansim {

PipelineShape pipeline_shape(const Plan& plan) {
    return {plan.schedule, plan.pp, plan.vpp, plan.microbatches()};
}

std::unique_ptr<PassOrder> pass_order(const PipelineShape& shape, int stage) {
    switch (shape.kind) {
        case ScheduleKind::gpipe:
            return make_gpipe(shape, stage);
        case ScheduleKind::one_f_one_b:
            return make_one_f_one_b(shape, stage);
        case ScheduleKind::interleaved:
            return make_interleaved(shape, stage);
    }
    return nullptr;
}

std::string_view name_of(InstructionKind kind) {
    switch (kind) {
        case InstructionKind::gather_parameters:
            return "gather_parameters";
        case InstructionKind::receive_forward:
            return "receive_forward";
        case InstructionKind::forward:
            return "forward";
        case InstructionKind::send_forward:
            return "send_forward";
        case InstructionKind::receive_backward:
            return "receive_backward";
        case InstructionKind::backward:
            return "backward";
        case InstructionKind::send_backward:
            return "send_backward";
        case InstructionKind::reduce_gradients:
            return "reduce_gradients";
        case InstructionKind::optimizer_step:
            return "optimizer_step";
    }
    return "?";
}

InstructionStream::InstructionStream(const PipelineShape& shape, int stage)
    : shape_(shape), stage_(stage), order_(pass_order(shape, stage)) {}

std::optional<Instruction> InstructionStream::next() {
    if (!started_) {
        started_ = true;
        return Instruction{InstructionKind::gather_parameters, 0, 0};
    }
    while (step_ < order_->length()) {
        const PassStep pass = order_->at(step_);
        const int virtual_stage = pass.chunk * shape_.stages + stage_;
        const bool first = virtual_stage == (pass.backward ? shape_.virtual_stages() - 1 : 0);
        const bool last = virtual_stage == (pass.backward ? 0 : shape_.virtual_stages() - 1);
        const int part = part_++;
        if (part == 0 && !first)
            return Instruction{pass.backward ? InstructionKind::receive_backward : InstructionKind::receive_forward,
                               pass.chunk, pass.microbatch};
        if (part == 1)
            return Instruction{pass.backward ? InstructionKind::backward : InstructionKind::forward, pass.chunk,
                               pass.microbatch};
        if (part == 2) {
            part_ = 0;
            ++step_;
            if (!last)
                return Instruction{pass.backward ? InstructionKind::send_backward : InstructionKind::send_forward,
                                   pass.chunk, pass.microbatch};
        }
    }
    if (tail_ == 0) return ++tail_, Instruction{InstructionKind::reduce_gradients, 0, 0};
    if (tail_ == 1) return ++tail_, Instruction{InstructionKind::optimizer_step, 0, 0};
    return std::nullopt;
}

namespace {

/// Executes streams without time; each stage runs until it has to wait for a message that was not sent yet.
class SymbolicRun {
  public:
    SymbolicRun(const PipelineShape& shape, const std::vector<std::function<std::optional<Instruction>()>>& streams)
        : shape_(shape), streams_(streams), waiting_(streams.size()) {}

    void run() {
        bool progress = true;
        while (progress) {
            progress = false;
            for (std::size_t stage = 0; stage < streams_.size(); ++stage)
                progress = advance(stage) || progress;
        }
        for (std::size_t stage = 0; stage < streams_.size(); ++stage)
            if (waiting_[stage])
                throw SimulationError(describe("deadlock", stage, *waiting_[stage], "which nobody sends"));
        if (!messages_.empty()) {
            const auto& [backward, virtual_stage, microbatch] = *messages_.begin();
            throw SimulationError(
                fmt::format("schedule {}: the {} message to virtual stage {} for microbatch {} is never received",
                            name_of(shape_.kind), backward ? "backward" : "forward", virtual_stage, microbatch));
        }
        const auto passes = static_cast<std::size_t>(shape_.virtual_stages() * shape_.microbatches);
        if (done_.size() != 2 * passes)
            throw SimulationError(fmt::format("schedule {}: {} passes executed, {} expected", name_of(shape_.kind),
                                              done_.size(), 2 * passes));
    }

  private:
    using Message = std::tuple<bool, int, std::int64_t>;  // backward, receiving virtual stage, microbatch

    [[nodiscard]] std::string describe(const std::string& what, std::size_t stage, const Instruction& at,
                                       const std::string& why) const {
        return fmt::format("schedule {}: {} on stage {} at {} of chunk {}, microbatch {}, {}", name_of(shape_.kind),
                           what, stage, name_of(at.kind), at.chunk, at.microbatch, why);
    }

    bool advance(std::size_t stage) {
        bool progress = false;
        while (true) {
            if (!waiting_[stage]) waiting_[stage] = streams_[stage]();
            if (!waiting_[stage] || !execute(stage, *waiting_[stage])) return progress;
            waiting_[stage].reset();
            progress = true;
        }
    }

    bool execute(std::size_t stage, const Instruction& at) {
        const int virtual_stage = at.chunk * shape_.stages + static_cast<int>(stage);
        const int last = shape_.virtual_stages() - 1;
        switch (at.kind) {
            case InstructionKind::receive_forward:
            case InstructionKind::receive_backward: {
                const bool backward = at.kind == InstructionKind::receive_backward;
                if (messages_.erase({backward, virtual_stage, at.microbatch}) == 0) return false;
                received_.insert({backward, virtual_stage, at.microbatch});
                return true;
            }
            case InstructionKind::forward:
            case InstructionKind::backward: {
                const bool backward = at.kind == InstructionKind::backward;
                const bool own_input = virtual_stage == (backward ? last : 0);
                if (!own_input && received_.erase({backward, virtual_stage, at.microbatch}) == 0)
                    throw SimulationError(describe("pass without input", stage, at, "which was not received"));
                if (backward && !done_.contains({false, virtual_stage, at.microbatch}))
                    throw SimulationError(describe("backward pass first", stage, at, "before its forward pass"));
                if (!done_.insert({backward, virtual_stage, at.microbatch}).second)
                    throw SimulationError(describe("repeated pass", stage, at, "executed before"));
                return true;
            }
            case InstructionKind::send_forward:
            case InstructionKind::send_backward: {
                const bool backward = at.kind == InstructionKind::send_backward;
                if (!done_.contains({backward, virtual_stage, at.microbatch}))
                    throw SimulationError(describe("send without pass", stage, at, "which was not computed"));
                if (!messages_.insert({backward, virtual_stage + (backward ? -1 : 1), at.microbatch}).second)
                    throw SimulationError(describe("repeated send", stage, at, "which was sent before"));
                return true;
            }
            default:
                return true;
        }
    }

    const PipelineShape& shape_;
    const std::vector<std::function<std::optional<Instruction>()>>& streams_;
    std::vector<std::optional<Instruction>> waiting_;
    std::set<Message> messages_;
    std::set<Message> received_;
    std::set<Message> done_;
};

}  // namespace

void validate_streams(const PipelineShape& shape,
                      const std::vector<std::function<std::optional<Instruction>()>>& streams) {
    SymbolicRun(shape, streams).run();
}

void validate_schedule(const PipelineShape& shape) {
    std::vector<std::function<std::optional<Instruction>()>> streams;
    for (int stage = 0; stage < shape.stages; ++stage)
        streams.emplace_back([stream = std::make_shared<InstructionStream>(shape, stage)] { return stream->next(); });
    validate_streams(shape, streams);
}

}  // namespace plansim
