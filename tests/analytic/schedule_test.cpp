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

/// "F0 F1 B0 ..."; with chunks "F0.1" is microbatch 0 of chunk 1.
std::string order_text(const PipelineShape& shape, int stage) {
    const auto order = pass_order(shape, stage);
    std::string text;
    for (std::int64_t index = 0; index < order->length(); ++index) {
        const PassStep pass = order->at(index);
        text += (index > 0 ? " " : "") + std::string(pass.backward ? "B" : "F") + std::to_string(pass.microbatch);
        if (shape.chunks > 1) text += "." + std::to_string(pass.chunk);
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

TEST(Schedule, EveryStreamHoldsAsManyChunksInFlightAsTheMemoryModelSays) {
    for (const ScheduleKind kind : {kOneFOneB, kGpipe, kInterleaved})
        for (const int stages : {1, 2, 3, 4, 8})
            for (const int chunks : {1, 2, 3, 5})
                for (const std::int64_t rounds : {1, 2, 5}) {
                    if ((kind != kInterleaved || stages == 1) && chunks > 1) continue;
                    const PipelineShape shape{kind, stages, chunks, rounds * stages};
                    for (int stage = 0; stage < stages; ++stage) {
                        const auto order = pass_order(shape, stage);
                        std::int64_t live = 0;
                        std::int64_t most = 0;
                        for (std::int64_t index = 0; index < order->length(); ++index)
                            most = std::max(most, live += order->at(index).backward ? -1 : 1);
                        EXPECT_EQ(most, chunks_in_flight(kind, stage, stages, chunks, shape.microbatches))
                            << name_of(kind) << " p=" << stages << " v=" << chunks << " m=" << shape.microbatches
                            << " stage " << stage;
                    }
                }
}

TEST(Schedule, EveryShapeRunsWithoutDeadlock) {
    for (const int stages : {1, 2, 3, 5, 8})
        for (const std::int64_t microbatches : {1, 2, 7, 8, 15}) {
            EXPECT_NO_THROW(validate_schedule({kOneFOneB, stages, 1, microbatches}));
            EXPECT_NO_THROW(validate_schedule({kGpipe, stages, 1, microbatches}));
            for (const int chunks : {2, 3}) {
                if (stages == 1) continue;
                EXPECT_NO_THROW(validate_schedule({kInterleaved, stages, chunks, microbatches * stages}));
            }
        }
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

TEST_F(BrokenStreams, PassExecutedTwiceIsNamed) {
    const auto at = position(streams[0], InstructionKind::forward, 1);
    streams[0].insert(at, *at);
    EXPECT_THAT(verdict(shape, streams), ::testing::HasSubstr("repeated pass on stage 0"));
}

}  // namespace
}  // namespace plansim
