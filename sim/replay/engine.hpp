// SPDX-License-Identifier: Apache-2.0
// The event engine of the replay: delays and network flows, each ending with a callback. Hides SimGrid completely;
// engine.cpp is the only file that includes <simgrid/...> and holds every setting and version difference.
//
// One Engine per process (SimGrid keeps its clock): scenarios are run in forked children, see isolate.hpp.
// Semantics, pinned by tests: a flow takes exactly bytes/goodput of its narrowest link when alone; flows share links
// max-min fair whatever their latencies (latency is added by the caller as a delay). Callbacks run in order of time;
// events at the same time run in the order in which they were created, except that flows end after the delays that end
// at the same time. A delay ends at exactly now + duration (as a double); flows that end within 1e-12 s of each other
// end together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "sim/network/topology.hpp"

namespace plansim {

/// What finished; chosen by the caller, opaque to the engine.
using Token = std::uint64_t;

class Engine {
  public:
    /// Builds one host per device and one link per binding link of the topology, which must outlive the engine.
    explicit Engine(const Topology& topology);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Called once for every finished delay and flow.
    void on_complete(std::function<void(Token)> callback);
    /// Ends `duration` (>= 0) from now.
    void delay(Seconds duration, Token token);
    /// Ends when all bytes have arrived. Zero bytes, or source == destination, or a route without binding links: ends
    /// now (as an event of its own, never inside this call).
    void flow(DeviceId source, DeviceId destination, Bytes bytes, Token token);
    /// Runs until nothing is pending.
    void run();
    [[nodiscard]] Seconds now() const;
    /// Changes the goodput of a link from now on (running flows adapt).
    void set_goodput(LinkId link, BytesPerSecond goodput);

    /// Bytes carried by each link so far (added to all links of the route when a flow completes, binding or not).
    [[nodiscard]] const std::vector<std::int64_t>& link_bytes() const;
    [[nodiscard]] std::uint64_t flows() const;
    [[nodiscard]] std::uint64_t delays() const;
    /// e.g. "3.32"
    [[nodiscard]] static std::string simgrid_version();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace plansim
