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
            time += chunk_cost(model, plan, plan.shape().virtual_stage(stage, chunk)).total().value();
        most = std::max(most, time * static_cast<double>(plan.shape().passes()));
    }
    return most;
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
