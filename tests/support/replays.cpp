// SPDX-License-Identifier: Apache-2.0
#include "tests/support/replays.hpp"

#include <cstring>

#include "sim/replay/isolate.hpp"

namespace plansim {
namespace {

/// Appends values to text, or takes them from it, in the same order.
struct Packer {
    std::string bytes;

    template <class T>
    void value(const T& item) {
        static_assert(std::is_trivially_copyable_v<T>);
        bytes.append(reinterpret_cast<const char*>(&item), sizeof item);
    }
    void value(const std::string& text) {
        value(text.size());
        bytes += text;
    }
    template <class T, class Each>
    void list(const std::vector<T>& items, Each&& each) {
        value(items.size());
        for (const T& item : items)
            each(*this, item);
    }
};

struct Unpacker {
    const std::string& bytes;
    std::size_t at = 0;

    template <class T>
    void value(T& item) {
        std::memcpy(&item, bytes.data() + at, sizeof item);
        at += sizeof item;
    }
    void value(std::string& text) {
        std::size_t size = 0;
        value(size);
        text = bytes.substr(at, size);
        at += size;
    }
    template <class T, class Each>
    void list(std::vector<T>& items, Each&& each) {
        std::size_t size = 0;
        value(size);
        items.resize(size);
        for (T& item : items)
            each(*this, item);
    }
};

/// Field by field: padding between fields holds chance bytes.
template <class Stream, class Record>
void visit(Stream& stream, Record& record) {
    const auto plain = [](auto& out, auto& item) { out.value(item); };
    stream.value(record.iteration_time);
    stream.list(record.workers, [&](auto& out, auto& worker) {
        out.value(worker.replica);
        out.value(worker.stage);
        out.list(worker.devices, plain);
        out.value(worker.breakdown);
        out.value(worker.peak_memory);
        out.value(worker.at_peak);
        out.value(worker.flops);
        out.list(worker.memory, plain);
    });
    stream.value(record.slowest);
    stream.list(record.slices, [](auto& out, auto& slice) {
        out.value(slice.worker);
        out.value(slice.kind);
        out.value(slice.chunk);
        out.value(slice.microbatch);
        out.value(slice.start);
        out.value(slice.end);
    });
    stream.list(record.links, [](auto& out, auto& link) {
        out.value(link.name);
        out.value(link.link_class);
        out.value(link.bandwidth);
        out.value(link.bytes);
    });
    stream.value(record.events);
    stream.value(record.flows);
    stream.value(record.delays);
    stream.value(record.folded);
}

}  // namespace

std::string to_bytes(const ReplayRecord& record) {
    Packer packer;
    visit(packer, record);
    return packer.bytes;
}

ReplayRecord from_bytes(const std::string& bytes) {
    ReplayRecord record;
    Unpacker unpacker{bytes};
    visit(unpacker, record);
    return record;
}

ReplayRecord replay_apart(const Scenario& scenario, const Plan& plan, const ReplayOptions& options) {
    return from_bytes(run_isolated([&] {
        const Topology topology(scenario.platform);
        CostModel model(scenario, topology);
        return to_bytes(replay(model, plan, options));
    }));
}

ReplayRecord replay_apart(const Scenario& scenario, const std::string& plan, const ReplayOptions& options) {
    return replay_apart(scenario, plan_of(scenario, plan), options);
}

std::int64_t bytes_over(const ReplayRecord& record, const std::string& part) {
    std::int64_t total = 0;
    for (const LinkRecord& link : record.links)
        if (link.name.find(part) != std::string::npos) total += link.bytes;
    return total;
}

}  // namespace plansim
