// SPDX-License-Identifier: Apache-2.0
// Random legal plans in the replay: they end, their accounts add up, and they repeat.
#include <cmath>
#include <map>

#include "tests/support/random_documents.hpp"
#include "tests/support/replays.hpp"

namespace plansim {
namespace {

ReplayOptions random_options() {
    return {flip() ? Fidelity::layer : Fidelity::stage, flip() ? Replicas::all : Replicas::automatic, flip()};
}

/// Time that a stage computes whatever it waits for: all passes of all microbatches.
double least_time(CostModel& model, const Plan& plan) {
    double most = 0;
    for (int stage = 0; stage < plan.pp; ++stage) {
        double time = 0;
        for (int chunk = 0; chunk < plan.vpp; ++chunk)
            time += chunk_cost(model, plan, plan.shape().virtual_stage(stage, chunk)).total(plan.schedule).value();
        most = std::max(most, time * static_cast<double>(plan.shape().passes()));
    }
    return most;
}

/// The way of one microbatch: forward through every virtual stage of a copy of the chain and back.
double critical_path(CostModel& model, const Plan& plan) {
    double time = 0;
    for (int virtual_stage = 0; virtual_stage < plan.virtual_stages() / plan.copies(); ++virtual_stage) {
        const ChunkCost cost = chunk_cost(model, plan, virtual_stage);
        const Phase& backward = splits_backward(plan.schedule) ? cost.backward_input : cost.backward;
        time += (cost.forward.total() + cost.recompute.total() + backward.total()).value();
    }
    return time;
}

TEST(RandomPlan, EndsWithAccountsThatAddUp) {
    check_property("accounts", 150, [] {
        const Case drawn = random_case();
        const ReplayOptions options = random_options();
        const Plan plan = plan_of(drawn.scenario, drawn.plan);
        const ReplayRecord record = replay_apart(drawn.scenario, plan, options);
        RC_ASSERT(record.workers.size() == static_cast<std::size_t>(plan.dp * plan.pp));
        const double iteration = record.iteration_time.value();
        for (const WorkerRecord& worker : record.workers) {
            RC_ASSERT(std::abs(worker.breakdown.total().value() - iteration) <= 1e-9 * iteration);
            for (std::size_t share = 0; share < kTimeClasses; ++share)
                RC_ASSERT(worker.breakdown[static_cast<TimeClass>(share)] >= Seconds(0));
        }
        const Topology topology(drawn.scenario.platform);
        CostModel model(drawn.scenario, topology);
        RC_ASSERT(iteration >= least_time(model, plan) * (1 - 1e-9));
        RC_ASSERT(iteration >= critical_path(model, plan) * (1 - 1e-9));
    });
}

TEST(RandomPipeline, PassesEveryMicrobatchThroughEveryStageOnceAndTakesAtLeastItsWay) {
    check_property("pipeline", 60, [] {
        const auto pp = static_cast<int>(pick(1, 8));
        std::vector<std::string> schedules{"gpipe", "1f1b", "zb-h1"};
        if (pp > 1) schedules.emplace_back("zb-v");
        if (pp % 2 == 0) schedules.emplace_back("dualpipe");
        const std::string schedule = pick_from(schedules);
        const std::int64_t microbatches = schedule == "dualpipe" ? 2 * pick(pp, 16) : pick(1, 32);
        const auto time = [] { return static_cast<int>(pick(1, 9)); };
        const Scenario scenario{split_chain(2 * pp, time(), time(), time(), microbatches), ideal_platform(pp, 1),
                                bare_software()};
        const Plan plan = plan_of(scenario, "pp=" + std::to_string(pp) + " schedule=" + schedule);
        const ReplayRecord record = replay_apart(scenario, plan, {Fidelity::stage, Replicas::automatic, true});
        std::map<std::tuple<int, SliceKind, int, std::int64_t>, int> passes;
        for (const Slice& slice : record.slices)
            ++passes[{slice.worker, slice.kind, slice.chunk, slice.microbatch}];
        const std::int64_t kinds = splits_backward(plan.schedule) ? 3 : 2;
        RC_ASSERT(static_cast<std::int64_t>(passes.size()) == kinds * plan.virtual_stages() * plan.shape().passes());
        for (const auto& [pass, count] : passes)
            RC_ASSERT(count == 1);
        const Topology topology(scenario.platform);
        CostModel model(scenario, topology);
        RC_ASSERT(record.iteration_time.value() >= critical_path(model, plan) * (1 - 1e-9));
        RC_ASSERT(record.iteration_time.value() >= least_time(model, plan) * (1 - 1e-9));
    });
}

TEST(RandomPlan, ConservesBytesOnEveryTier) {
    check_property("bytes", 100, [] {
        const Case drawn = random_case();
        const ReplayRecord record = replay_apart(drawn.scenario, drawn.plan, random_options());
        std::map<std::string, std::int64_t> up;
        std::map<std::string, std::int64_t> down;
        for (const LinkRecord& link : record.links)
            (link.name.ends_with(".up") ? up : down)[link.link_class] += link.bytes;
        RC_ASSERT(up == down);
    });
}

TEST(RandomPlan, GivesTheSameRecordTwice) {
    check_property("repeatable", 50, [] {
        const Case drawn = random_case();
        const ReplayOptions options = random_options();
        const std::string first = to_bytes(replay_apart(drawn.scenario, drawn.plan, options));
        RC_ASSERT(first == to_bytes(replay_apart(drawn.scenario, drawn.plan, options)));
    });
}

TEST(RandomPlan, CarriesTheSameBytesHoweverItIsReplayed) {
    check_property("same bytes", 60, [] {
        const Case drawn = random_case();
        const ReplayRecord fine = replay_apart(drawn.scenario, drawn.plan, {Fidelity::layer, Replicas::all, false});
        const ReplayRecord coarse =
            replay_apart(drawn.scenario, drawn.plan, {Fidelity::stage, Replicas::folded, false});
        for (std::size_t link = 0; link < fine.links.size(); ++link)
            RC_ASSERT(fine.links[link].bytes == coarse.links[link].bytes);
    });
}

}  // namespace
}  // namespace plansim
