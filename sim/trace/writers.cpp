// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/writers.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <map>

#include "sim/base/quantity_text.hpp"

namespace plansim {
namespace {

constexpr int kComputeThread = 0;
constexpr int kCommunicationThread = 1;
constexpr double kMicroseconds = 1e6;

bool is_communication(SliceKind kind) {
    return kind == SliceKind::send_forward || kind == SliceKind::send_backward || kind == SliceKind::reduce_gradients ||
           kind == SliceKind::gather_parameters;
}

std::string slice_title(const Slice& slice) {
    switch (slice.kind) {
        case SliceKind::forward:
        case SliceKind::backward:
        case SliceKind::backward_input:
        case SliceKind::backward_weight:
        case SliceKind::send_forward:
        case SliceKind::send_backward:
            return fmt::format("{} {}", name_of(slice.kind), slice.microbatch);
        default:
            return std::string(name_of(slice.kind));
    }
}

/// Writes events separated by commas.
class EventList {
  public:
    explicit EventList(std::ostream& out) : out_(out) { out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"; }
    template <class... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        if (!first_) out_ << ",\n";
        first_ = false;
        fmt::print(out_, format, std::forward<Args>(args)...);
    }
    void close() { out_ << "\n]}\n"; }

  private:
    std::ostream& out_;
    bool first_ = true;
};

}  // namespace

void write_trace(std::ostream& out, const ReplayRecord& record, const Plan& plan, int devices_per_node) {
    EventList events(out);
    for (const WorkerRecord& worker : record.workers)
        for (const int device : worker.devices) {
            events.add(
                R"json({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"device {0} (node {1}, stage {2}, replica {3})"}}}})json",
                device, device / devices_per_node, worker.stage, worker.replica);
            events.add(R"json({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})json",
                       device, device);
            events.add(R"json({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"compute"}}}})json",
                       device, kComputeThread);
            events.add(
                R"json({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"communication"}}}})json",
                device, kCommunicationThread);
        }
    for (const Slice& slice : record.slices) {
        const WorkerRecord& worker = record.workers[static_cast<std::size_t>(slice.worker)];
        const std::string title = slice_title(slice);
        const std::string start = to_text(slice.start.value() * kMicroseconds);
        const std::string duration = to_text((slice.end - slice.start).value() * kMicroseconds);
        for (const int device : worker.devices)
            events.add(
                R"json({{"ph":"X","pid":{},"tid":{},"name":"{}","cat":"{}","ts":{},"dur":{},"args":{{"chunk":{},"virtual_stage":{}}}}})json",
                device, is_communication(slice.kind) ? kCommunicationThread : kComputeThread, title,
                name_of(slice.kind), start, duration, slice.chunk,
                plan.shape().virtual_stage(worker.stage, slice.chunk));
    }
    for (const WorkerRecord& worker : record.workers)
        for (const MemorySample& sample : worker.memory) {
            std::string tags;
            for (std::size_t tag = 0; tag < kMemoryTagNames.size(); ++tag)
                tags += fmt::format("{}\"{}_bytes\":{}", tag == 0 ? "" : ",", kMemoryTagNames[tag],
                                    sample.live[tag].value());
            for (const int device : worker.devices)
                events.add(R"json({{"ph":"C","pid":{},"name":"memory","ts":{},"args":{{{}}}}})json", device,
                           to_text(sample.time.value() * kMicroseconds), tags);
        }
    events.close();
}

void write_devices_csv(std::ostream& out, const ReplayRecord& record, int devices_per_node) {
    out << "device,node,replica,stage,tp_rank,busy_s,communication_s,idle_s";
    for (std::size_t index = 0; index < kTimeClasses; ++index)
        out << ',' << name_of(static_cast<TimeClass>(index)) << "_s";
    out << ",peak_bytes";
    for (const auto tag : kMemoryTagNames)
        out << ',' << tag << "_bytes";
    out << '\n';
    std::map<int, std::pair<const WorkerRecord*, std::size_t>> by_device;
    for (const WorkerRecord& worker : record.workers)
        for (std::size_t rank = 0; rank < worker.devices.size(); ++rank)
            by_device[worker.devices[rank]] = {&worker, rank};
    for (const auto& [device, place] : by_device) {
        const auto& [worker, rank] = place;
        fmt::print(out, "{},{},{},{},{},{},{},{}", device, device / devices_per_node, worker->replica, worker->stage,
                   rank, to_text(worker->breakdown.busy().value()), to_text(worker->breakdown.communication().value()),
                   to_text(worker->breakdown.idle().value()));
        for (std::size_t index = 0; index < kTimeClasses; ++index)
            fmt::print(out, ",{}", to_text(worker->breakdown[static_cast<TimeClass>(index)].value()));
        fmt::print(out, ",{}", worker->peak_memory.value());
        for (const Bytes amount : worker->at_peak)
            fmt::print(out, ",{}", amount.value());
        out << '\n';
    }
}

void write_links_csv(std::ostream& out, const ReplayRecord& record) {
    out << "link,class,bandwidth_Bps,bytes,mean_utilisation\n";
    for (const LinkRecord& link : record.links) {
        const double utilisation =
            static_cast<double>(link.bytes) / (link.bandwidth.value() * record.iteration_time.value());
        fmt::print(out, "{},{},{},{},{}\n", link.name, link.link_class, to_text(link.bandwidth.value()), link.bytes,
                   to_text(utilisation));
    }
}

void write_memory_csv(std::ostream& out, const ReplayRecord& record) {
    out << "replica,stage,time_s";
    for (const auto tag : kMemoryTagNames)
        out << ',' << tag << "_bytes";
    out << ",total_bytes\n";
    for (const WorkerRecord& worker : record.workers)
        for (const MemorySample& sample : worker.memory) {
            fmt::print(out, "{},{},{}", worker.replica, worker.stage, to_text(sample.time.value()));
            Bytes total;
            for (const Bytes amount : sample.live) {
                fmt::print(out, ",{}", amount.value());
                total += amount;
            }
            fmt::print(out, ",{}\n", total.value());
        }
}

}  // namespace plansim
