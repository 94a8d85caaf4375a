// SPDX-License-Identifier: Apache-2.0
#include "sim/schedule/schedule.hpp"

#include "sim/schedule/orders.hpp"

namespace plansim {

std::unique_ptr<PassOrder> pass_order(const PipelineShape& shape, int stage) {
    switch (shape.kind) {
        case ScheduleKind::gpipe:
            return make_gpipe(shape, stage);
        case ScheduleKind::one_f_one_b:
            return make_one_f_one_b(shape, stage);
        case ScheduleKind::interleaved:
            return make_interleaved(shape, stage);
        case ScheduleKind::zb_h1:
            return make_zb_h1(shape, stage);
        case ScheduleKind::zb_v:
            return make_zb_v(shape, stage);
        case ScheduleKind::dualpipe:
            return make_dualpipe(shape, stage);
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
        case InstructionKind::backward_input:
            return "backward_input";
        case InstructionKind::backward_weight:
            return "backward_weight";
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

void InstructionStream::queue_transfer(const PassStep& pass, bool receive) {
    if (pass.kind == PassKind::backward_weight) return;
    const bool backward = pass.kind != PassKind::forward;
    const int here = shape_.virtual_stage(stage_, pass.chunk);
    if (!shape_.apart(here, receive ? shape_.source(here, backward) : shape_.target(here, backward))) return;
    const auto kind = receive ? (backward ? InstructionKind::receive_backward : InstructionKind::receive_forward)
                              : (backward ? InstructionKind::send_backward : InstructionKind::send_forward);
    queue_.push_back({kind, pass.chunk, pass.microbatch});
}

void InstructionStream::queue_compute(const PassStep& pass) {
    const auto queue = [&](InstructionKind kind) { queue_.push_back({kind, pass.chunk, pass.microbatch}); };
    const bool split = splits_backward(shape_.kind);
    if (pass.kind == PassKind::forward) queue(InstructionKind::forward);
    if (pass.kind == PassKind::backward && !split) queue(InstructionKind::backward);
    if (pass.kind == PassKind::backward_input || (pass.kind == PassKind::backward && split))
        queue(InstructionKind::backward_input);
    if (pass.kind == PassKind::backward_weight || (pass.kind == PassKind::backward && split))
        queue(InstructionKind::backward_weight);
}

void InstructionStream::queue_next_passes() {
    std::vector<PassStep> passes;
    do
        passes.push_back(order_->at(step_++));
    while (passes.back().joined);
    for (const PassStep& pass : passes)
        queue_transfer(pass, true);
    for (const PassStep& pass : passes)
        queue_compute(pass);
    for (const PassStep& pass : passes)
        queue_transfer(pass, false);
}

std::optional<Instruction> InstructionStream::next() {
    if (!started_) {
        started_ = true;
        return Instruction{InstructionKind::gather_parameters, 0, 0};
    }
    if (queue_.empty() && step_ < order_->length()) queue_next_passes();
    if (!queue_.empty()) {
        const Instruction result = queue_.front();
        queue_.pop_front();
        return result;
    }
    if (tail_ == 0) return ++tail_, Instruction{InstructionKind::reduce_gradients, 0, 0};
    if (tail_ == 1) return ++tail_, Instruction{InstructionKind::optimizer_step, 0, 0};
    return std::nullopt;
}

}  // namespace plansim
