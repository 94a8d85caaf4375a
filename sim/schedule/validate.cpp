// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <set>
#include <tuple>

#include "sim/base/error.hpp"
#include "sim/schedule/schedule.hpp"

namespace plansim {
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
        const std::int64_t passes = shape_.virtual_stages() * shape_.passes() * (splits_backward(shape_.kind) ? 3 : 2);
        if (done_.size() != static_cast<std::size_t>(passes))
            throw SimulationError(fmt::format("schedule {}: {} passes executed, {} expected", name_of(shape_.kind),
                                              done_.size(), passes));
    }

  private:
    enum class Part { forward, backward, weight };
    using Message = std::tuple<bool, int, std::int64_t>;  // backward, receiving virtual stage, microbatch
    using Done = std::tuple<Part, int, std::int64_t>;     // virtual stage, microbatch

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
        switch (at.kind) {
            case InstructionKind::receive_forward:
                return receive(stage, at, false);
            case InstructionKind::receive_backward:
                return receive(stage, at, true);
            case InstructionKind::send_forward:
                return send(stage, at, false);
            case InstructionKind::send_backward:
                return send(stage, at, true);
            case InstructionKind::forward:
                return compute(stage, at, Part::forward);
            case InstructionKind::backward:
            case InstructionKind::backward_input:
                return compute(stage, at, Part::backward);
            case InstructionKind::backward_weight:
                return compute(stage, at, Part::weight);
            default:
                return true;
        }
    }

    [[nodiscard]] int place(std::size_t stage, const Instruction& at) const {
        return shape_.virtual_stage(static_cast<int>(stage), at.chunk);
    }

    /// False if the message was not sent yet.
    bool receive(std::size_t stage, const Instruction& at, bool backward) {
        const Message message{backward, place(stage, at), at.microbatch};
        if (messages_.erase(message) == 0) return false;
        received_.insert(message);
        return true;
    }

    bool send(std::size_t stage, const Instruction& at, bool backward) {
        const int here = place(stage, at);
        if (!done_.contains({backward ? Part::backward : Part::forward, here, at.microbatch}))
            throw SimulationError(describe("send without pass", stage, at, "which was not computed"));
        if (!messages_.insert({backward, shape_.target(here, backward), at.microbatch}).second)
            throw SimulationError(describe("repeated send", stage, at, "which was sent before"));
        return true;
    }

    bool compute(std::size_t stage, const Instruction& at, Part part) {
        const int here = place(stage, at);
        if (part == Part::weight) {
            if (!done_.contains({Part::backward, here, at.microbatch}))
                throw SimulationError(describe("weight gradient first", stage, at, "before its backward pass"));
        } else {
            check_input(stage, at, part == Part::backward);
        }
        if (part == Part::backward && !done_.contains({Part::forward, here, at.microbatch}))
            throw SimulationError(describe("backward pass first", stage, at, "before its forward pass"));
        if (!done_.insert({part, here, at.microbatch}).second)
            throw SimulationError(describe("repeated pass", stage, at, "executed before"));
        return true;
    }

    /// The input comes from another stage as a message, or from a pass of another chunk of this stage.
    void check_input(std::size_t stage, const Instruction& at, bool backward) {
        const int here = place(stage, at);
        const int source = shape_.source(here, backward);
        if (source < 0) return;
        if (!shape_.apart(here, source)) {
            if (!done_.contains({backward ? Part::backward : Part::forward, source, at.microbatch}))
                throw SimulationError(describe("pass without input", stage, at, "which this stage did not compute"));
        } else if (received_.erase({backward, here, at.microbatch}) == 0) {
            throw SimulationError(describe("pass without input", stage, at, "which was not received"));
        }
    }

    const PipelineShape& shape_;
    const std::vector<std::function<std::optional<Instruction>()>>& streams_;
    std::vector<std::optional<Instruction>> waiting_;
    std::set<Message> messages_;
    std::set<Message> received_;
    std::set<Done> done_;
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
