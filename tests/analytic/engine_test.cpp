// SPDX-License-Identifier: Apache-2.0
// The event engine against times derived by hand. Every simulation runs in a process of its own.
#include "sim/replay/engine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/collective/collective.hpp"
#include "sim/replay/isolate.hpp"

namespace plansim {
namespace {

/// Four nodes of two devices; ports of 300 GB/s in a node, NICs of 10 GB/s, all with efficiency 1.
Platform cluster(int nodes = 4, double oversubscription = 1) {
    Platform platform;
    platform.name = "test";
    platform.devices = 2 * nodes;
    platform.devices_per_node = 2;
    platform.node_fabric.kind = FabricKind::nvswitch;
    platform.node_fabric.bandwidth = BytesPerSecond(300e9);
    platform.node_fabric.collectives.efficiency = 1;
    platform.fabric.kind = FabricKind::spine_leaf;
    platform.fabric.bandwidth = BytesPerSecond(10e9);
    platform.fabric.nics = 2;
    platform.fabric.nodes_per_leaf = 2;
    platform.fabric.oversubscription = oversubscription;
    platform.fabric.collectives.efficiency = 1;
    return platform;
}

LinkId link_id(const Topology& topology, const std::string& name) {
    for (std::size_t link = 0; link < topology.links().size(); ++link)
        if (topology.links()[link].name == name) return static_cast<LinkId>(link);
    throw std::out_of_range(name);
}

struct Event {
    Token token;
    double time;
};

/// Runs a simulation in a child. `begin` starts it; `react` is called for every event. Returns all events in order.
std::vector<Event> simulate(const Platform& platform, const std::function<void(Engine&, const Topology&)>& begin,
                            const std::function<void(Engine&, Token)>& react = {}) {
    const std::string text = run_isolated([&] {
        const Topology topology(platform);
        Engine engine(topology);
        std::ostringstream out;
        out << std::hexfloat;
        engine.on_complete([&](Token token) {
            out << token << ' ' << engine.now().value() << '\n';
            if (react) react(engine, token);
        });
        begin(engine, topology);
        engine.run();
        return out.str();
    });
    std::vector<Event> events;
    std::istringstream in(text);
    std::string token;
    std::string time;
    while (in >> token >> time)
        events.push_back({std::stoull(token), std::strtod(time.c_str(), nullptr)});
    return events;
}

double time_of(const std::vector<Event>& events, Token token) {
    for (const Event& event : events)
        if (event.token == token) return event.time;
    return std::nan("");
}

void expect_close(double actual, double expected) {
    EXPECT_NEAR(actual, expected, 1e-12 * expected);
}

constexpr Bytes kGigabyte(1'000'000'000);

TEST(Engine, OneFlowTakesExactlyItsBytesOverTheNarrowestLink) {
    // 1 GB over a NIC of 10 GB/s: 0.1 s; an odd size: 123,456,789 B / 10 GB/s.
    for (const Bytes bytes : {kGigabyte, Bytes(123'456'789)}) {
        const auto events = simulate(cluster(), [&](Engine& engine, const Topology&) { engine.flow(0, 4, bytes, 1); });
        ASSERT_EQ(events.size(), 1u);
        expect_close(events[0].time, bytes.as_double() / 10e9);
    }
}

TEST(Engine, TwoFlowsShareALinkFairlyWhateverTheirPrecedingLatencies) {
    // Both 1 GB into the NIC of device 4. Flow 1 starts at 1 us, flow 2 at 10 us.
    // Flow 1 has sent 9 us x 10 GB/s = 90 kB alone; then both get 5 GB/s: flow 1 ends at
    // 10 us + (1e9 - 90e3) / 5e9 = 10 us + 0.199982 s; flow 2 has then 90 kB left at 10 GB/s: 9 us later.
    const auto events = simulate(
        cluster(),
        [](Engine& engine, const Topology&) {
            engine.delay(Seconds(1e-6), 101);
            engine.delay(Seconds(10e-6), 102);
        },
        [](Engine& engine, Token token) {
            if (token == 101) engine.flow(0, 4, kGigabyte, 1);
            if (token == 102) engine.flow(2, 4, kGigabyte, 2);
        });
    expect_close(time_of(events, 1), 10e-6 + 0.199982);
    expect_close(time_of(events, 2), 10e-6 + 0.199982 + 9e-6);
}

TEST(Engine, ThreeFlowsWithASecondBottleneckAreSharedMaxMin) {
    // Flows 1 and 2 leave device 0 (NIC of 10 GB/s); flows 2 and 3 enter device 4, whose NIC is set to 4 GB/s.
    // Max-min: the receiving NIC gives 2 GB/s each to 2 and 3; flow 1 takes the remaining 8 GB/s.
    // Flow 1, 8 GB: 1 s. Flow 2, 3 GB: at 1 s it has 1 GB left; still 2 GB/s: 1.5 s. Flow 3, 5 GB: 3 GB by 1.5 s, then
    // 4 GB/s alone for the last 2 GB: 2 s.
    const auto events = simulate(cluster(), [](Engine& engine, const Topology& topology) {
        engine.set_goodput(link_id(topology, "node2.nic0.down"), BytesPerSecond(4e9));
        engine.flow(0, 6, Bytes(8'000'000'000), 1);
        engine.flow(0, 4, Bytes(3'000'000'000), 2);
        engine.flow(2, 4, Bytes(5'000'000'000), 3);
    });
    expect_close(time_of(events, 1), 1.0);
    expect_close(time_of(events, 2), 1.5);
    expect_close(time_of(events, 3), 2.0);
}

TEST(Engine, OversubscribedLeavesLimitTheFlowsOfTheirNodes) {
    // Leaf of 2 nodes x 2 NICs x 10 GB/s at 4:1: 10 GB/s up. Four flows of 1 GB from it: 2.5 GB/s each: 0.4 s.
    // Without oversubscription the uplinks do not bind: 0.1 s.
    const auto begin = [](Engine& engine, const Topology&) {
        for (DeviceId device = 0; device < 4; ++device)
            engine.flow(device, device + 4, kGigabyte, static_cast<Token>(device));
    };
    for (const Event& event : simulate(cluster(4, 4), begin))
        expect_close(event.time, 0.4);
    for (const Event& event : simulate(cluster(4, 1), begin))
        expect_close(event.time, 0.1);
}

TEST(Engine, AFlowAdaptsWhenTheGoodputOfItsLinkChanges) {
    // 1 GB at 10 GB/s; at 40 ms 0.6 GB are left and the link drops to 2 GB/s: 0.04 + 0.3 s.
    const auto events = simulate(
        cluster(),
        [](Engine& engine, const Topology&) {
            engine.flow(0, 4, kGigabyte, 1);
            engine.delay(Seconds(0.04), 2);
        },
        [](Engine& engine, Token token) {
            const Topology topology(cluster());
            if (token == 2) engine.set_goodput(link_id(topology, "node0.nic0.up"), BytesPerSecond(2e9));
        });
    expect_close(time_of(events, 1), 0.34);
}

TEST(Engine, DelaysEndInOrderOfTimeAndAtEqualTimesInOrderOfCreation) {
    std::vector<Token> order;
    const auto events = simulate(
        cluster(1),
        [](Engine& engine, const Topology&) {
            engine.delay(Seconds(2), 3);
            for (Token token = 10; token < 30; ++token)
                engine.delay(Seconds(1), token);
            engine.delay(Seconds(0), 1);
            engine.flow(0, 0, kGigabyte, 2);  // ends now, after what was created before
        },
        [](Engine& engine, Token token) {
            if (token == 10) engine.delay(Seconds(0), 30);  // created last at this time
        });
    order.reserve(events.size());
    for (const Event& event : events)
        order.push_back(event.token);
    std::vector<Token> expected{1, 2};
    for (Token token = 10; token <= 30; ++token)
        expected.push_back(token);
    expected.push_back(3);
    EXPECT_EQ(order, expected);
}

TEST(Engine, ADelayEndsAtExactlyNowPlusItsDuration) {
    // 1,000 steps of 0.1 summed in doubles, with a flow under way.
    double sum = 0;
    for (int step = 0; step < 1000; ++step)
        sum += 0.1;
    const auto events = simulate(
        cluster(),
        [](Engine& engine, const Topology&) {
            engine.flow(0, 4, Bytes(333'333'333'333), 5000);
            engine.delay(Seconds(0.1), 1);
        },
        [](Engine& engine, Token token) {
            if (token < 1000) engine.delay(Seconds(0.1), token + 1);
        });
    EXPECT_EQ(time_of(events, 1000), sum);
}

TEST(Engine, FlowsThatEndTogetherAreReportedInOrderOfCreation) {
    const auto events = simulate(cluster(), [](Engine& engine, const Topology&) {
        for (const DeviceId device : {3, 0, 2, 1})
            engine.flow(device, device + 4, kGigabyte, static_cast<Token>(device));
    });
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[0].token, 3u);
    EXPECT_EQ(events[1].token, 0u);
    EXPECT_EQ(events[2].token, 2u);
    EXPECT_EQ(events[3].token, 1u);
}

TEST(Engine, AFlowEndsAfterADelayThatEndsAtTheSameTime) {
    // 1 GB at 10 GB/s and a delay of 0.1 s that was created later.
    const auto events = simulate(cluster(), [](Engine& engine, const Topology&) {
        engine.flow(0, 4, kGigabyte, 1);
        engine.delay(Seconds(0.1), 2);
    });
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].token, 2u);
    EXPECT_EQ(events[1].time, events[0].time);
}

TEST(Engine, AHundredThousandDelaysAndAChainOfAsManyEmptyFlowsRun) {
    const std::string text = run_isolated([] {
        const Topology topology(cluster(1));
        Engine engine(topology);
        std::uint64_t events = 0;
        engine.on_complete([&](Token token) {
            ++events;
            if (token > 0) engine.flow(0, 1, Bytes(0), token - 1);
        });
        for (int count = 0; count < 100'000; ++count)
            engine.delay(Seconds(1e-6 * (count % 1000)), 0);
        engine.flow(0, 1, Bytes(0), 100'000);
        engine.run();
        return std::to_string(events) + " " + std::to_string(engine.delays()) + " " + std::to_string(engine.flows());
    });
    EXPECT_EQ(text, "200001 100000 100001");
}

TEST(Engine, LinkBytesAreExactOnBindingAndOtherLinks) {
    // Device 0 sends 1,000,003 B to device 4 (through the leaves) and 7 B to device 1 (in the node).
    const std::string text = run_isolated([] {
        const Topology topology(cluster());
        Engine engine(topology);
        engine.flow(0, 4, Bytes(1'000'003), 1);
        engine.flow(0, 1, Bytes(7), 2);
        engine.run();
        std::ostringstream out;
        for (std::size_t link = 0; link < topology.links().size(); ++link)
            if (engine.link_bytes()[link] != 0)
                out << topology.links()[link].name << '=' << engine.link_bytes()[link] << ' ';
        return out.str();
    });
    EXPECT_EQ(text,
              "node0.device0.up=7 node0.device1.down=7 node0.nic0.up=1000003 node2.nic0.down=1000003 leaf0.up=1000003 "
              "leaf1.down=1000003 ");
}

TEST(Engine, ACollectiveReplayedAsFlowsTakesTheTimeOfItsClosedForm) {
    // Ring all-reduce over four nodes with two members each: max over links of bytes / goodput, links not coupled
    // in a way that lets a flow wait for another.
    const Topology topology(cluster());
    const Group group{0, 1, 2, 3, 4, 5, 6, 7};
    const auto ring = decompose(CollectiveKind::all_reduce, CollectiveAlgorithm::ring, group, kGigabyte, topology);
    const auto events = simulate(cluster(), [&](Engine& engine, const Topology&) {
        for (const HopFlow& flow : ring.flows)
            engine.flow(flow.source, flow.destination, flow.bytes, 1);
    });
    expect_close(events.back().time, bottleneck_time(ring.flows, topology).value());
}

TEST(Engine, TheSameSimulationTwiceGivesIdenticalTimes) {
    const auto once = [] {
        std::uint64_t state = 1;
        const auto next = [&](std::uint64_t bound) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            return (state >> 33) % bound;
        };
        int left = 2000;
        return simulate(
            cluster(4, 2),
            [&](Engine& engine, const Topology&) {
                for (Token token = 0; token < 40; ++token)
                    engine.delay(Seconds(0), token);
            },
            [&](Engine& engine, Token token) {
                if (left-- <= 0) return;
                const auto source = static_cast<DeviceId>(next(8));
                const auto destination = static_cast<DeviceId>(next(8));
                if (next(3) == 0)
                    engine.delay(Seconds(1e-6 * static_cast<double>(next(100))), token);
                else
                    engine.flow(source, destination, Bytes(static_cast<std::int64_t>(next(1'000'000))), token);
            });
    };
    const auto first = once();
    const auto second = once();
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t event = 0; event < first.size(); ++event) {
        EXPECT_EQ(first[event].token, second[event].token);
        EXPECT_EQ(first[event].time, second[event].time);
        EXPECT_GE(first[event].time, first[event == 0 ? 0 : event - 1].time);
    }
}

TEST(Engine, AnErrorThrownByACallbackReachesTheCaller) {
    EXPECT_THROW(simulate(
                     cluster(1), [](Engine& engine, const Topology&) { engine.delay(Seconds(1), 1); },
                     [](Engine&, Token) { throw SimulationError("deadlock"); }),
                 SimulationError);
}

TEST(Engine, ItReportsTheVersionOfSimGrid) {
    EXPECT_NE(Engine::simgrid_version().find('.'), std::string::npos);
}

std::string error_of(const std::function<std::string()>& work, ExitCode code) {
    try {
        run_isolated(work);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code);
        return error.what();
    }
    return "no error";
}

TEST(Isolate, TheTextOfTheChildComesBackWhole) {
    const std::string text(1'000'000, 'x');
    EXPECT_EQ(run_isolated([&] { return text + std::string(1, '\0') + "end"; }), text + std::string(1, '\0') + "end");
    EXPECT_EQ(run_isolated([] { return std::string(); }), "");
}

TEST(Isolate, ErrorsPassThroughWithTheirCodeAndText) {
    EXPECT_THROW(run_isolated([]() -> std::string { throw InputError("a"); }), InputError);
    EXPECT_THROW(run_isolated([]() -> std::string { throw UsageError("a"); }), UsageError);
    EXPECT_THROW(run_isolated([]() -> std::string { throw InfeasibleError("a"); }), InfeasibleError);
    EXPECT_EQ(error_of([]() -> std::string { throw SimulationError("no progress"); }, ExitCode::simulation),
              "no progress");
    EXPECT_EQ(error_of([]() -> std::string { throw std::logic_error("oops"); }, ExitCode::bug), "oops");
}

TEST(Isolate, ACrashBecomesASimulationErrorThatNamesTheSignal) {
    const auto crash = [](int signal) {
        return [signal]() -> std::string {
            std::signal(signal, SIG_DFL);
            std::raise(signal);
            return "";
        };
    };
    EXPECT_EQ(error_of(crash(SIGSEGV), ExitCode::simulation), "simulation ended by signal 11 (Segmentation fault)");
    EXPECT_EQ(error_of(crash(SIGKILL), ExitCode::simulation), "simulation ended by signal 9 (Killed)");
}

TEST(Isolate, ACrashAfterTheEngineWasBuiltIsStillNamed) {
    const auto work = []() -> std::string {
        std::signal(SIGSEGV, SIG_DFL);
        const Topology topology(cluster(1));
        const Engine engine(topology);  // SimGrid would catch the signal, print and exit
        std::raise(SIGSEGV);
        return "";
    };
    EXPECT_EQ(error_of(work, ExitCode::simulation), "simulation ended by signal 11 (Segmentation fault)");
}

TEST(Isolate, AnExitWithoutResultBecomesASimulationError) {
    EXPECT_EQ(error_of([]() -> std::string { std::_Exit(7); }, ExitCode::simulation),
              "simulation ended early with exit code 7");
}

TEST(Isolate, SeveralWorksReturnInOrderHoweverManyRunAtOnce) {
    std::vector<std::function<std::string()>> works;
    for (int work = 0; work < 20; ++work)  // longer than a pipe holds
        works.emplace_back([work] { return std::string(100'000, static_cast<char>('a' + work)); });
    for (const int at_once : {1, 3, 100}) {
        const auto results = run_isolated_all(works, at_once);
        ASSERT_EQ(results.size(), works.size());
        for (std::size_t work = 0; work < works.size(); ++work)
            EXPECT_EQ(results[work], works[work]());
    }
    EXPECT_TRUE(run_isolated_all({}, 2).empty());
}

TEST(Isolate, OfSeveralProblemsTheFirstInOrderIsThrown) {
    const auto fail = [](const char* text) { return [text]() -> std::string { throw InputError(text); }; };
    try {
        run_isolated_all({[] { return std::string("fine"); }, fail("first"), fail("second")}, 3);
        ADD_FAILURE() << "nothing thrown";
    } catch (const InputError& error) {
        EXPECT_STREQ(error.what(), "first");
    }
}

}  // namespace
}  // namespace plansim
