// SPDX-License-Identifier: Apache-2.0
// The event engine on SimGrid: flows are communications between hosts, started by no actor; delays are kept in a queue
// of our own that arms one SimGrid timer for its earliest date.
//
// Settings (measured): CM02 without cross traffic, TCP window and latency, which leaves plain max-min sharing;
// SimGrid's CM02 shares in proportion to 1/latency, so latency is added by the caller as a delay. Events closer
// together than 1e-12 s are merged (the default, 1e-9 s, would merge transfers of small messages). One flat zone looks
// routes up in the topology; nested zones take quadratic time to build. Every difference between SimGrid 3.32 and 4.x
// is in this file. Leaves out: on 3.32 the cost of a flow grows with the number of live flows (beyond about 1,000).
#include "sim/replay/engine.hpp"

#include <simgrid/s4u.hpp>  // before the headers below, which lean on it

#include <simgrid/version.h>
#include <xbt/log.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <queue>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"

// Names that differ between versions.
#define PLANSIM_SIMGRID_AT_LEAST(major, minor) \
    (SIMGRID_VERSION_MAJOR > (major) || (SIMGRID_VERSION_MAJOR == (major) && SIMGRID_VERSION_MINOR >= (minor)))
#if PLANSIM_SIMGRID_AT_LEAST(4, 0)
#define PLANSIM_PRECISION "precision/timing:1e-12"
#else
#define PLANSIM_PRECISION "surf/precision:1e-12"
#endif

namespace plansim {
namespace {

namespace sg = simgrid::s4u;
using simgrid::kernel::timer::Timer;

/// SimGrid installs handlers for these signals that print and exit; this keeps the ones that were there.
class KeepSignalHandlers {
  public:
    KeepSignalHandlers() {
        for (std::size_t index = 0; index < std::size(kSignals); ++index)
            ::sigaction(kSignals[index], nullptr, &kept_[index]);
    }
    ~KeepSignalHandlers() {
        for (std::size_t index = 0; index < std::size(kSignals); ++index)
            ::sigaction(kSignals[index], &kept_[index], nullptr);
    }
    KeepSignalHandlers(const KeepSignalHandlers&) = delete;
    KeepSignalHandlers& operator=(const KeepSignalHandlers&) = delete;

  private:
    static constexpr int kSignals[] = {SIGINT, SIGSEGV, SIGBUS, SIGABRT};
    struct sigaction kept_[std::size(kSignals)]{};
};

/// Hosts are the devices in order, so the number of a host's net point is its device.
class FlatZone : public simgrid::kernel::routing::NetZoneImpl {
  public:
    explicit FlatZone(const std::string& name) : NetZoneImpl(name) {}

    /// Links of the flow that is being started, set just before.
    const std::vector<simgrid::kernel::resource::StandardLinkImpl*>* current = nullptr;

  protected:
    void get_local_route(const simgrid::kernel::routing::NetPoint*, const simgrid::kernel::routing::NetPoint*,
                         simgrid::kernel::routing::Route* into, double*) override {
        PLANSIM_CHECK(current != nullptr, "route of a flow that nobody started");
        into->link_list_ = *current;
    }
};

/// A delay that waits for its date.
struct Pending {
    double date;
    std::uint64_t sequence;
    Token token;

    friend bool operator>(const Pending& a, const Pending& b) {
        return a.date != b.date ? a.date > b.date : a.sequence > b.sequence;
    }
};

/// A flow under way. Records keep their address and are reused.
struct Flow {
    sg::CommPtr comm;
    std::uint64_t sequence = 0;
    Token token = 0;
    DeviceId source = 0;
    DeviceId destination = 0;
    std::int64_t bytes = 0;
};

std::string numbered(char letter, std::size_t number) {
    std::string name(1, letter);
    name += std::to_string(number);
    return name;
}

void configure() {
    xbt_log_control_set("root.thres:error");
    for (const char* setting : {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:1e30",
                                "network/latency-factor:1", "network/bandwidth-factor:1", "network/weight-S:0",
                                "network/optim:Lazy", "cpu/optim:Lazy", PLANSIM_PRECISION})
        sg::Engine::set_config(setting);
}

}  // namespace

struct Engine::Impl {
    const Topology& topology;
    sg::Engine* simgrid = nullptr;  // owned by SimGrid until the process ends, like its clock
    FlatZone* zone = nullptr;
    std::vector<sg::Host*> hosts;
    std::vector<sg::Link*> links;  // by LinkId; null: not binding
    std::function<void(Token)> callback = [](Token) {};

    double now = 0;
    std::uint64_t sequence = 0;
    std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending;
    Timer* timer = nullptr;  // for the earliest date of `pending`; none while `draining`
    bool draining = false;

    std::deque<Flow> flows;
    std::vector<Flow*> free_flows;
    std::vector<Flow*> finished;         // of the current instant, not yet reported
    std::vector<sg::CommPtr> graveyard;  // SimGrid touches a communication once more after its completion callback
    std::vector<std::int64_t> link_bytes;
    std::uint64_t flow_count = 0;
    std::uint64_t delay_count = 0;

    Route route;  // scratch
    std::vector<simgrid::kernel::resource::StandardLinkImpl*> route_links;

    explicit Impl(const Topology& topology_in) : topology(topology_in) {}
    void build();
    void push(double date, Token token);
    void arm();
    void drain();
    void start(DeviceId source, DeviceId destination, std::int64_t bytes, Token token);
    void count(DeviceId source, DeviceId destination, std::int64_t bytes);
    void completed(Flow* flow);
    void report_finished();
    [[nodiscard]] bool more_completions() const;
};

void Engine::Impl::build() {
    static bool built = false;
    PLANSIM_CHECK(!built, "one Engine per process: SimGrid keeps its clock");
    built = true;
    const KeepSignalHandlers keep;
    xbt_log_control_set("root.thres:error");
    simgrid = new sg::Engine("plansim");
    configure();
#if PLANSIM_SIMGRID_AT_LEAST(4, 0)
    sg::NetZone* root = simgrid->get_netzone_root();
#else
    sg::NetZone* root = sg::create_empty_zone("root");
#endif
    zone = new FlatZone("devices");  // owned by the root zone
    zone->set_parent(root->get_impl());
    hosts.reserve(static_cast<std::size_t>(topology.devices()));
    for (int device = 0; device < topology.devices(); ++device)
        hosts.push_back(zone->get_iface()->create_host(numbered('d', hosts.size()), 1.0));
    links.reserve(topology.links().size());
    for (const Link& link : topology.links())
        links.push_back(link.binding ? zone->get_iface()->create_link(numbered('l', links.size()), link.goodput.value())
                                     : nullptr);
    for (sg::Link* link : links)
        if (link != nullptr) link->seal();
    link_bytes.assign(links.size(), 0);
    simgrid->seal_platform();
    const auto on_completion = [this](const auto& activity) { completed(activity.template get_data<Flow>()); };
#if PLANSIM_SIMGRID_AT_LEAST(3, 34)
    sg::Comm::on_completion_cb(on_completion);
#else
    sg::Activity::on_completion_cb(on_completion);
#endif
}

void Engine::Impl::push(double date, Token token) {
    const bool earliest = pending.empty() || date < pending.top().date;
    pending.push({date, sequence++, token});
    if (earliest && !draining) arm();
}

void Engine::Impl::arm() {
    if (timer != nullptr) timer->remove();
    timer = Timer::set(pending.top().date, [this] { drain(); });
}

/// Runs in SimGrid's timer. Events that the callbacks add for the same instant run in the same loop.
void Engine::Impl::drain() {
    timer = nullptr;  // SimGrid frees it
    graveyard.clear();
    draining = true;
    const double clock = sg::Engine::get_clock();
    while (!pending.empty() && pending.top().date <= clock) {
        const Pending next = pending.top();
        pending.pop();
        now = std::max(now, next.date);
        callback(next.token);
    }
    draining = false;
    if (!pending.empty()) arm();
}

void Engine::Impl::start(DeviceId source, DeviceId destination, std::int64_t bytes, Token token) {
    if (free_flows.empty()) {
        flows.emplace_back();
        free_flows.push_back(&flows.back());
    }
    Flow* flow = free_flows.back();
    free_flows.pop_back();
    const sg::CommPtr comm = sg::Comm::sendto_init();
    *flow = {comm, sequence++, token, source, destination, bytes};
    zone->current = &route_links;
    comm->set_payload_size(static_cast<std::uint64_t>(bytes));
    comm->set_data(flow);
    comm->set_source(hosts[static_cast<std::size_t>(source)]);
    comm->set_destination(hosts[static_cast<std::size_t>(destination)]);  // starts it on 3.32
    if (comm->get_state() != sg::Activity::State::STARTED) comm->start();
}

void Engine::Impl::count(DeviceId source, DeviceId destination, std::int64_t bytes) {
    route.clear();
    topology.route(source, destination, route);
    for (const LinkId link : route)
        link_bytes[static_cast<std::size_t>(link)] += bytes;
}

/// True if SimGrid has more to report of the same instant.
bool Engine::Impl::more_completions() const {
    for (auto* model : simgrid->get_all_models())
        if (!model->get_finished_action_set()->empty()) return true;
    return false;
}

/// SimGrid reports the flows of one instant one by one in an order of its own; they are reported on together.
void Engine::Impl::completed(Flow* flow) {
    if (finished.empty()) graveyard.clear();  // of an earlier instant: SimGrid is done with them
    graveyard.push_back(std::move(flow->comm));
    finished.push_back(flow);
    if (!more_completions()) report_finished();
}

void Engine::Impl::report_finished() {
    const std::vector<Flow*> batch = std::exchange(finished, {});
    std::vector<Flow> done;
    done.reserve(batch.size());
    for (Flow* flow : batch) {
        done.push_back(std::move(*flow));
        free_flows.push_back(flow);
    }
    std::sort(done.begin(), done.end(), [](const Flow& a, const Flow& b) { return a.sequence < b.sequence; });
    now = std::max(now, sg::Engine::get_clock());
    for (const Flow& flow : done) {
        count(flow.source, flow.destination, flow.bytes);
        callback(flow.token);
    }
}

Engine::Engine(const Topology& topology) : impl_(std::make_unique<Impl>(topology)) {
    impl_->build();
}
Engine::~Engine() = default;

void Engine::on_complete(std::function<void(Token)> callback) {
    impl_->callback = std::move(callback);
}

void Engine::delay(Seconds duration, Token token) {
    PLANSIM_CHECK(duration.value() >= 0, "delay of " + std::to_string(duration.value()) + " s");
    ++impl_->delay_count;
    impl_->push(impl_->now + duration.value(), token);
}

void Engine::flow(DeviceId source, DeviceId destination, Bytes bytes, Token token) {
    PLANSIM_CHECK(bytes.value() >= 0, "flow of " + std::to_string(bytes.value()) + " bytes");
    Impl& impl = *impl_;
    ++impl.flow_count;
    impl.route.clear();
    impl.topology.route(source, destination, impl.route);
    impl.route_links.clear();
    for (const LinkId link : impl.route)
        if (sg::Link* limit = impl.links[static_cast<std::size_t>(link)]) impl.route_links.push_back(limit->get_impl());
    if (bytes.value() > 0 && !impl.route_links.empty()) return impl.start(source, destination, bytes.value(), token);
    for (const LinkId link : impl.route)
        impl.link_bytes[static_cast<std::size_t>(link)] += bytes.value();
    impl.push(impl.now, token);
}

void Engine::run() {
    impl_->simgrid->run();
    PLANSIM_CHECK(impl_->pending.empty() && impl_->free_flows.size() == impl_->flows.size(),
                  "the simulation stopped before its events");
}

Seconds Engine::now() const {
    return Seconds(impl_->now);
}

void Engine::set_goodput(LinkId link, BytesPerSecond goodput) {
    PLANSIM_CHECK(goodput.value() > 0, "goodput of a link");
    sg::Link* limit = impl_->links.at(static_cast<std::size_t>(link));
    if (limit != nullptr) limit->set_bandwidth(goodput.value());
}

const std::vector<std::int64_t>& Engine::link_bytes() const {
    return impl_->link_bytes;
}
std::uint64_t Engine::flows() const {
    return impl_->flow_count;
}
std::uint64_t Engine::delays() const {
    return impl_->delay_count;
}

std::string Engine::simgrid_version() {
    int major = 0;
    int minor = 0;
    int patch = 0;
    sg_version_get(&major, &minor, &patch);
    std::string text = std::to_string(major);
    text.append(".").append(std::to_string(minor));
    if (patch > 0) text.append(".").append(std::to_string(patch));
    return text;
}

}  // namespace plansim
