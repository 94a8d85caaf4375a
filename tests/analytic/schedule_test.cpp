// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules against the published orders, and the validator against broken streams.
#include "sim/schedule/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/cost/memory.hpp"

namespace plansim {
namespace {

constexpr auto kOneFOneB = ScheduleKind::one_f_one_b;
constexpr auto kGpipe = ScheduleKind::gpipe;
constexpr auto kInterleaved = ScheduleKind::interleaved;
constexpr auto kZbH1 = ScheduleKind::zb_h1;
constexpr auto kZbV = ScheduleKind::zb_v;
constexpr auto kDualpipe = ScheduleKind::dualpipe;

/// "F0 F1 B0 ..."; with chunks "F0.1" is microbatch 0 of chunk 1. A split backward pass is B and W, a whole one under a
/// schedule that splits others is A; "F0.1+" is joined with the next pass.
std::string order_text(const PipelineShape& shape, int stage) {
    const auto order = pass_order(shape, stage);
    std::string text;
    for (std::int64_t index = 0; index < order->length(); ++index) {
        const PassStep pass = order->at(index);
        const char whole = splits_backward(shape.kind) ? 'A' : 'B';
        const char letter = pass.kind == PassKind::forward           ? 'F'
                            : pass.kind == PassKind::backward        ? whole
                            : pass.kind == PassKind::backward_weight ? 'W'
                                                                     : 'B';
        text += (index > 0 ? " " : "") + std::string(1, letter) + std::to_string(pass.microbatch);
        if (shape.chunks > 1) text += "." + std::to_string(pass.chunk);
        if (pass.joined) text += "+";
    }
    return text;
}

using Stream = std::vector<Instruction>;

std::vector<Stream> streams_of(const PipelineShape& shape) {
    std::vector<Stream> result;
    for (int stage = 0; stage < shape.stages; ++stage) {
        InstructionStream stream(shape, stage);
        result.emplace_back();
        while (const auto instruction = stream.next())
            result.back().push_back(*instruction);
    }
    return result;
}

/// The message of the validator, or "" if it accepts the streams.
std::string verdict(const PipelineShape& shape, const std::vector<Stream>& streams) {
    std::vector<std::function<std::optional<Instruction>()>> sources;
    for (const Stream& stream : streams)
        sources.emplace_back([&stream, next = std::size_t{0}]() mutable -> std::optional<Instruction> {
            if (next == stream.size()) return std::nullopt;
            return stream[next++];
        });
    try {
        validate_streams(shape, sources);
    } catch (const SimulationError& error) {
        return error.what();
    }
    return "";
}

auto position(Stream& stream, InstructionKind kind, std::int64_t microbatch) {
    const auto found = std::find(stream.begin(), stream.end(), Instruction{kind, 0, microbatch});
    if (found == stream.end()) throw std::out_of_range("no such instruction");
    return found;
}

void drop(Stream& stream, InstructionKind kind, std::int64_t microbatch) {
    stream.erase(position(stream, kind, microbatch));
}

void drop_microbatch(Stream& stream, std::int64_t microbatch) {
    std::erase_if(stream, [&](const Instruction& at) { return at.microbatch == microbatch; });
}

TEST(Schedule, FirstOfFourStagesOf1F1BWarmsUpWithThreeForwardPasses) {
    EXPECT_EQ(order_text({kOneFOneB, 4, 1, 8}, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
}

TEST(Schedule, LastStageOf1F1BAlternatesFromTheStart) {
    EXPECT_EQ(order_text({kOneFOneB, 4, 1, 8}, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST(Schedule, FewerMicrobatchesThanStagesMakeThe1F1BWarmUpCoverAllOfThem) {
    EXPECT_EQ(order_text({kOneFOneB, 4, 1, 2}, 0), "F0 F1 B0 B1");
}

TEST(Schedule, GpipeRunsAllForwardPassesBeforeTheFirstBackwardPass) {
    for (int stage = 0; stage < 3; ++stage)
        EXPECT_EQ(order_text({kGpipe, 3, 1, 4}, stage), "F0 F1 F2 F3 B0 B1 B2 B3");
}

// Megatron (Narayanan et al. 2021; forward_backward_pipelining_with_interleaving): the n-th forward pass is chunk
// (n mod p v) / p of microbatch p floor(n / (p v)) + n mod p; backward the chunks count down. With p = v = 2, m = 4:
//   forward  0.0 1.0 0.1 1.1 2.0 3.0 2.1 3.1      backward 0.1 1.1 0.0 1.0 2.1 3.1 2.0 3.0   (microbatch.chunk)
// Warm-up 2 (p - rank - 1) + (v - 1) p: 4 passes on rank 0, 2 on rank 1; then one forward and one backward in turn.
TEST(Schedule, InterleavedOrderOfTwoStagesAndTwoChunksIsMegatrons) {
    const PipelineShape shape{kInterleaved, 2, 2, 4};
    EXPECT_EQ(order_text(shape, 0), "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
    EXPECT_EQ(order_text(shape, 1), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

TEST(Schedule, InterleavedWithOneChunkIs1F1B) {
    for (int stage = 0; stage < 4; ++stage)
        EXPECT_EQ(order_text({kInterleaved, 4, 1, 8}, stage), order_text({kOneFOneB, 4, 1, 8}, stage));
}

TEST(Schedule, LastStageReceivesForwardAndSendsBackwardAroundItsPasses) {
    using K = InstructionKind;
    const Stream expected{{K::gather_parameters, 0, 0}, {K::receive_forward, 0, 0}, {K::forward, 0, 0},
                          {K::backward, 0, 0},          {K::send_backward, 0, 0},   {K::receive_forward, 0, 1},
                          {K::forward, 0, 1},           {K::backward, 0, 1},        {K::send_backward, 0, 1},
                          {K::reduce_gradients, 0, 0},  {K::optimizer_step, 0, 0}};
    EXPECT_EQ(streams_of({kOneFOneB, 2, 1, 2})[1], expected);
}

// Qi et al. 2023, ZB-H1: stage s warms up like 1F1B and keeps the weight gradients of s microbatches back.
TEST(Schedule, ZbH1DelaysAsManyWeightGradientsAsThereAreStagesInFront) {
    const PipelineShape shape{kZbH1, 3, 1, 4};
    EXPECT_EQ(order_text(shape, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    EXPECT_EQ(order_text(shape, 1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
    EXPECT_EQ(order_text(shape, 2), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
}

// torch.distributed.pipelining ScheduleZBVZeroBubble with p = 2, m = 4. Warm-up: 2 (p - s) - 1 passes of chunk 0, s
// pairs, p - s times F B W of chunk 1; m - p turns of the steady state; s pairs B B, p - s pairs B W, and W.
TEST(Schedule, ZbVAlternatesBetweenTheTwoArmsOfTheV) {
    const PipelineShape shape{kZbV, 2, 2, 4};
    EXPECT_EQ(order_text(shape, 0),
              "F0.0 F1.0 F2.0 F0.1 B0.1 W0.1 F1.1 B1.1 W1.1 F3.0 B0.0 W0.0 F2.1 B2.1 W2.1 B1.0 W1.0 F3.1 B3.1 W3.1 "
              "B2.0 W2.0 B3.0 W3.0");
    EXPECT_EQ(order_text(shape, 1),
              "F0.0 F0.1 F1.0 F1.1 B0.1 W0.1 F2.0 B0.0 W0.0 F2.1 B1.1 W1.1 F3.0 B1.0 W1.0 F3.1 B2.1 W2.1 B2.0 B3.1 "
              "B3.0 W2.0 W3.1 W3.0");
}

// github.com/deepseek-ai/DualPipe, dualpipe.py, 2 ranks and 4 chunks: half_rank 0, step_1 = 0, step_2 = 1, step_3 = 0,
// step_4 = 2 - 2 + 0 + 1 = 1 (middle rank: its first pair is not joined), step_6 = 1 (near one split), step_8 = 1.
TEST(Schedule, DualpipeOfTwoStagesMirrorsItself) {
    const PipelineShape shape{kDualpipe, 2, 2, 4};
    EXPECT_EQ(order_text(shape, 0), "F0.0 F0.1 F1.0 A0.1 F1.1+ A0.0 A1.1 B1.0 W1.0");
    EXPECT_EQ(order_text(shape, 1), "F0.1 F0.0 F1.1 A0.0 F1.0+ A0.1 A1.0 B1.1 W1.1");
}

// The same with 4 ranks and 8 chunks (4 a direction). Rank 0: half_rank 0, steps 2, 1, 1, 1, 1, 1, 1, 1; rank 1:
// half_rank 1, steps 0, 2, 0, 2, 0, 2, 0, 2.
TEST(Schedule, DualpipeOfFourStagesFollowsTheEightSteps) {
    const PipelineShape shape{kDualpipe, 4, 2, 8};
    EXPECT_EQ(order_text(shape, 0),
              "F0.0 F1.0 F2.0 F0.1 B0.1 W0.1 F1.1 F3.0+ A1.1 F2.1+ A0.0 A2.1 F3.1+ A1.0 A3.1 B2.0 W2.0 B3.0 W3.0");
    EXPECT_EQ(order_text(shape, 1),
              "F0.0 F0.1 F1.0 F1.1 F2.0 A0.1 F2.1+ A0.0 F3.0+ A1.1 F3.1+ A1.0 A2.1 A2.0 B3.1 B3.0 W3.1 W3.0");
}

// A joined pair waits for both inputs and sends both outputs at its end; a whole backward pass is B and then W.
TEST(Schedule, JoinedPassesReceiveFirstAndSendLast) {
    using K = InstructionKind;
    const Stream stream = streams_of({kDualpipe, 2, 2, 4})[0];
    const auto first = std::find(stream.begin(), stream.end(), Instruction{K::receive_forward, 1, 1});
    ASSERT_NE(first, stream.end());
    const Stream expected{{K::receive_forward, 1, 1},
                          {K::receive_backward, 0, 0},
                          {K::forward, 1, 1},
                          {K::backward_input, 0, 0},
                          {K::backward_weight, 0, 0}};
    EXPECT_EQ(Stream(first, first + 5), expected);
}

// In V shape the last stage hands chunk 0's output to its own chunk 1: no message.
TEST(Schedule, TurnOfTheVSendsNothing) {
    using K = InstructionKind;
    const Stream stream = streams_of({kZbV, 2, 2, 4})[1];
    EXPECT_EQ(std::count(stream.begin(), stream.end(), Instruction{K::send_forward, 0, 0}), 0);
    EXPECT_EQ(std::count(stream.begin(), stream.end(), Instruction{K::receive_forward, 1, 0}), 0);
    EXPECT_EQ(std::count(stream.begin(), stream.end(), Instruction{K::send_forward, 1, 0}), 1);
}

/// Most chunks whose activations a stage holds: from F to W, or to the end of a whole backward pass.
std::int64_t most_in_flight(const PipelineShape& shape, int stage) {
    const auto order = pass_order(shape, stage);
    std::int64_t live = 0;
    std::int64_t most = 0;
    for (std::int64_t index = 0; index < order->length(); ++index) {
        const PassKind kind = order->at(index).kind;
        if (kind == PassKind::backward_input) continue;
        most = std::max(most, live += kind == PassKind::forward ? 1 : -1);
    }
    return most;
}

/// Shapes of all schedules that are legal for these degrees.
std::vector<PipelineShape> legal_shapes(int stages, std::int64_t microbatches) {
    std::vector<PipelineShape> shapes{
        {kOneFOneB, stages, 1, microbatches}, {kGpipe, stages, 1, microbatches}, {kZbH1, stages, 1, microbatches}};
    for (const int chunks : {2, 3, 5})
        if (stages > 1 && microbatches % stages == 0) shapes.push_back({kInterleaved, stages, chunks, microbatches});
    if (stages > 1) shapes.push_back({kZbV, stages, 2, microbatches});
    if (stages % 2 == 0 && microbatches % 2 == 0 && microbatches >= 2 * stages)
        shapes.push_back({kDualpipe, stages, 2, microbatches});
    return shapes;
}

TEST(Schedule, EveryStreamHoldsAsManyChunksInFlightAsTheMemoryModelSays) {
    for (int stages = 1; stages <= 8; ++stages)
        for (std::int64_t microbatches = 1; microbatches <= 32; ++microbatches)
            for (const PipelineShape& shape : legal_shapes(stages, microbatches))
                for (int stage = 0; stage < stages; ++stage)
                    EXPECT_EQ(most_in_flight(shape, stage), chunks_in_flight(shape, stage))
                        << name_of(shape.kind) << " p=" << stages << " v=" << shape.chunks << " m=" << microbatches
                        << " stage " << stage;
}

// Qi et al. 2023: zb-h1 holds no more than 1F1B's first stage, p microbatches; zb-v the same in 2 p halves of a stage.
// DualPipe's README: p + 1.
TEST(Schedule, PublishedActivationsOfTheSplitSchedules) {
    for (int stage = 0; stage < 8; ++stage) {
        EXPECT_EQ(most_in_flight({kZbH1, 8, 1, 32}, stage), 8);
        EXPECT_EQ(most_in_flight({kZbV, 8, 2, 32}, stage), 16);
        EXPECT_EQ(most_in_flight({kDualpipe, 8, 2, 32}, stage), 9);
    }
}

// The validator fails on deadlock, on messages that do not match and on any pass that is missing or executed twice.
TEST(Schedule, EveryShapeRunsWithoutDeadlockAndEveryPassOnce) {
    for (int stages = 1; stages <= 8; ++stages)
        for (std::int64_t microbatches = 1; microbatches <= 32; ++microbatches)
            for (const PipelineShape& shape : legal_shapes(stages, microbatches))
                EXPECT_NO_THROW(validate_schedule(shape))
                    << name_of(shape.kind) << " p=" << stages << " v=" << shape.chunks << " m=" << microbatches;
}

class BrokenStreams : public ::testing::Test {
  protected:
    const PipelineShape shape{kOneFOneB, 2, 1, 2};
    std::vector<Stream> streams = streams_of(shape);
};

TEST_F(BrokenStreams, UntouchedOnesAreAccepted) {
    EXPECT_EQ(verdict(shape, streams), "");
}

TEST_F(BrokenStreams, MissingSendIsADeadlock) {
    drop(streams[0], InstructionKind::send_forward, 1);
    EXPECT_THAT(verdict(shape, streams), ::testing::AllOf(::testing::HasSubstr("deadlock on stage 0"),
                                                          ::testing::HasSubstr("microbatch 1, which nobody sends")));
}

TEST_F(BrokenStreams, SecondReceiveOfAMessageIsADeadlock) {
    const auto at = position(streams[1], InstructionKind::receive_forward, 0);
    streams[1].insert(at, *at);
    EXPECT_THAT(verdict(shape, streams), ::testing::HasSubstr("deadlock on stage"));
}

TEST_F(BrokenStreams, SecondSendOfAMessageIsLeftOver) {
    const auto at = position(streams[0], InstructionKind::send_forward, 1);
    streams[0].insert(at, *at);
    EXPECT_NE(verdict(shape, streams), "");
}

TEST_F(BrokenStreams, WaitingForABackwardPassBeforeTheFirstForwardPassIsADeadlockOfThatStageAndMicrobatch) {
    const auto at = position(streams[0], InstructionKind::receive_backward, 0);
    std::rotate(streams[0].begin(), at, at + 1);
    EXPECT_THAT(verdict(shape, streams),
                ::testing::HasSubstr("deadlock on stage 0 at receive_backward of chunk 0, microbatch 0"));
}

TEST_F(BrokenStreams, SendingWhatWasNotComputedIsNamed) {
    drop(streams[0], InstructionKind::forward, 1);
    EXPECT_THAT(verdict(shape, streams),
                ::testing::HasSubstr("send without pass on stage 0 at send_forward of chunk 0, microbatch 1"));
}

TEST_F(BrokenStreams, AMicrobatchThatNobodyComputesIsMissed) {
    for (Stream& stream : streams)
        drop_microbatch(stream, 1);
    EXPECT_THAT(verdict(shape, streams), ::testing::HasSubstr("4 passes executed, 8 expected"));
}

TEST_F(BrokenStreams, BackwardBeforeForwardIsNamed) {
    const auto forward = position(streams[1], InstructionKind::forward, 1);
    std::iter_swap(forward, position(streams[1], InstructionKind::backward, 1));
    EXPECT_THAT(verdict(shape, streams),
                ::testing::HasSubstr("backward pass first on stage 1 at backward of chunk 0, microbatch 1"));
}

TEST_F(BrokenStreams, PassWhoseInputWasNotReceivedIsNamed) {
    drop(streams[1], InstructionKind::receive_forward, 1);
    EXPECT_THAT(verdict(shape, streams),
                ::testing::HasSubstr("pass without input on stage 1 at forward of chunk 0, microbatch 1"));
}

TEST_F(BrokenStreams, MessageThatNobodyReceivesIsNamed) {
    drop(streams[0], InstructionKind::receive_backward, 1);
    drop(streams[0], InstructionKind::backward, 1);
    EXPECT_THAT(verdict(shape, streams),
                ::testing::HasSubstr("the backward message to virtual stage 0 for microbatch 1 is never received"));
}

TEST(BrokenSplitStreams, WeightGradientBeforeItsBackwardPassIsNamed) {
    const PipelineShape shape{kZbH1, 2, 1, 2};
    std::vector<Stream> streams = streams_of(shape);
    const auto weight = position(streams[1], InstructionKind::backward_weight, 0);
    std::iter_swap(weight, position(streams[1], InstructionKind::backward_input, 0));
    EXPECT_THAT(verdict(shape, streams),
                ::testing::HasSubstr("weight gradient first on stage 1 at backward_weight of chunk 0, microbatch 0"));
}

TEST(BrokenSplitStreams, AMissingWeightGradientIsMissed) {
    const PipelineShape shape{kZbH1, 2, 1, 2};
    std::vector<Stream> streams = streams_of(shape);
    drop(streams[0], InstructionKind::backward_weight, 1);
    EXPECT_THAT(verdict(shape, streams), ::testing::HasSubstr("11 passes executed, 12 expected"));
}

TEST(BrokenSplitStreams, TurnOfTheVBeforeItsInputIsNamed) {
    const PipelineShape shape{kZbV, 2, 2, 2};
    std::vector<Stream> streams = streams_of(shape);
    const auto first = position(streams[1], InstructionKind::forward, 0);
    std::iter_swap(first, std::find(streams[1].begin(), streams[1].end(), Instruction{InstructionKind::forward, 1, 0}));
    EXPECT_THAT(verdict(shape, streams),
                ::testing::HasSubstr("pass without input on stage 1 at forward of chunk 1, microbatch 0, which this "
                                     "stage did not compute"));
}

TEST_F(BrokenStreams, PassExecutedTwiceIsNamed) {
    const auto at = position(streams[0], InstructionKind::forward, 1);
    streams[0].insert(at, *at);
    EXPECT_THAT(verdict(shape, streams), ::testing::HasSubstr("repeated pass on stage 0"));
}

}  // namespace
}  // namespace plansim
