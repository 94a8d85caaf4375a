// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/data_streams.hpp"

#include <algorithm>

#include "sim/replay/event.hpp"
#include "sim/replay/link_bytes.hpp"

namespace plansim {

DataStreams::DataStreams(CostModel& model, const Plan& plan, Engine& engine, Extent extent)
    : model_(model), plan_(plan), engine_(engine), extent_(extent), layout_(plan), topology_(model.topology()) {
    for (int stage = 0; stage < plan.pp; ++stage) {
        Stream& stream = stages_.emplace_back();
        if (layout_.owner_of(stage) == stage) stream.buckets = make_buckets(model, plan, stage);
        for (int replica = 0; replica < extent.replicas; ++replica)
            for (const DeviceId device : layout_.devices(replica, stage))
                own_nodes_.insert(topology_.node_of(device));
    }
}

StageBuckets DataStreams::laid_out(int stage) const {
    StageBuckets result = of(stage);
    if (layout_.owner_of(stage) != stage) std::reverse(result.units.begin(), result.units.end());
    return result;
}

void DataStreams::mark_ready(int stage, int bucket) {
    Stream& stream = stages_[owner(stage)];
    if (++stream.buckets.buckets[static_cast<std::size_t>(bucket)].ready % (extent_.replicas * plan_.copies()) != 0)
        return;
    stream.queue.push_back(bucket);
    start_next(owner(stage));
}

void DataStreams::start_next(std::size_t stage) {
    Stream& stream = stages_[stage];
    if (stream.running >= 0 || stream.queue.empty()) return;
    stream.running = stream.queue.front();
    stream.queue.pop_front();
    stream.start = engine_.now();
    const auto index = static_cast<std::size_t>(stream.running);
    const Bucket& bucket = stream.buckets.buckets[index];
    if (extent_.alone) {
        stream.pending_flows = 1;
        return engine_.delay(bucket.estimate, make_token(EventKind::bucket_flow, index, stage));
    }
    Seconds latency;
    for (const Group& group : groups(bucket.collective.group, stage))
        latency = std::max(latency, collective(group, bucket).simulated.latency);
    engine_.delay(latency, make_token(EventKind::bucket_latency, index, stage));
}

/// Groups of a stage whose flows are simulated.
const std::vector<Group>& DataStreams::groups(DataGroup kind, std::size_t stage) {
    std::vector<Group>& result = groups_[{kind, stage}];
    if (!result.empty()) return result;
    const int index = static_cast<int>(stage);
    if (extent_.tensor_ranks < plan_.tp)
        result = layout_.dp_groups(0, index);
    else
        result = layout_.data_groups(kind, index);
    return result;
}

const DataStreams::GroupCollective& DataStreams::collective(const Group& group, const Bucket& bucket) {
    const DataCollective& what = bucket.collective;
    const auto [entry, added] = collectives_.try_emplace({group.front(), group.size(), what.kind, what.size.value()});
    if (!added) return entry->second;
    entry->second.simulated = decompose(what.kind, CollectiveAlgorithm::automatic, group, what.size, topology_);
    if (extent_.folded) keep_own_flows(entry->second);
    return entry->second;
}

/// One replica stands for all: the flows that leave or enter its nodes stand for those of the others, if those are no
/// slower.
void DataStreams::keep_own_flows(GroupCollective& collective) const {
    std::vector<HopFlow> own;
    for (const HopFlow& flow : collective.simulated.flows) {
        const bool mine = own_nodes_.contains(topology_.node_of(flow.source)) ||
                          own_nodes_.contains(topology_.node_of(flow.destination));
        (mine ? own : collective.others).push_back(flow);
    }
    if (bottleneck_time(own, topology_) < bottleneck_time(collective.simulated.flows, topology_))
        collective.others.clear();
    else
        collective.simulated.flows = std::move(own);
}

void DataStreams::start_flows(int stage, std::size_t index) {
    Stream& stream = stages_[owner(stage)];
    const Bucket& bucket = stream.buckets.buckets[index];
    const std::vector<Group>& simulated = groups(bucket.collective.group, owner(stage));
    for (const Group& group : simulated)
        stream.pending_flows += static_cast<int>(collective(group, bucket).simulated.flows.size());
    for (const Group& group : simulated)
        for (const HopFlow& flow : collective(group, bucket).simulated.flows)
            engine_.flow(flow.source, flow.destination, flow.bytes,
                         make_token(EventKind::bucket_flow, index, owner(stage)));
}

std::optional<Seconds> DataStreams::end_flow(int stage, std::size_t index, bool beside_compute) {
    Stream& stream = stages_[owner(stage)];
    if (--stream.pending_flows > 0) return std::nullopt;
    const double share = model_.scenario().software.dp_overlap_share;
    if (beside_compute && !stream.stretched && share > 0) {
        stream.stretched = true;
        stream.pending_flows = 1;
        engine_.delay((engine_.now() - stream.start) * (1 / share - 1),
                      make_token(EventKind::bucket_flow, index, owner(stage)));
        return std::nullopt;
    }
    const Seconds start = stream.start;
    stream.stretched = false;
    stream.running = -1;
    Bucket& bucket = stream.buckets.buckets[index];
    ++bucket.completed;
    if (bucket.then >= 0) stream.queue.push_front(bucket.then);
    start_next(owner(stage));
    return start;
}

bool DataStreams::has_run(int stage, int index, const std::optional<Instruction>& awaited_by) const {
    const StageBuckets& all = of(stage);
    const Bucket& bucket = all.buckets[static_cast<std::size_t>(index)];
    const bool every_microbatch = bucket.reduces ? all.reduces_every_backward : bucket.every_microbatch;
    return bucket.completed > (every_microbatch && awaited_by ? awaited_by->microbatch : 0);
}

bool DataStreams::gathering(int stage) const {
    const StageBuckets& all = of(stage);
    return std::any_of(all.at_start.begin(), all.at_start.end(),
                       [&](int bucket) { return all.buckets[static_cast<std::size_t>(bucket)].completed == 0; });
}

bool DataStreams::reductions_done(int stage) const {
    const StageBuckets& all = of(stage);
    const std::int64_t runs = all.reduces_every_backward ? plan_.microbatches() : 1;
    return std::all_of(all.buckets.begin(), all.buckets.end(),
                       [&](const Bucket& bucket) { return !bucket.reduces || bucket.completed >= runs; });
}

void DataStreams::add_bytes_stood_for(std::vector<std::int64_t>& bytes) {
    for (std::size_t stage = 0; !extent_.alone && stage < stages_.size(); ++stage)
        for (const Bucket& bucket : stages_[stage].buckets.buckets)
            for (const Group& group : groups(bucket.collective.group, stage))
                for (const HopFlow& flow : collective(group, bucket).others)
                    add_flow_bytes(flow, bucket.completed, topology_, bytes);
}

void DataStreams::add_bytes_of_delays(std::vector<std::int64_t>& bytes) const {
    for (int stage = 0; extent_.alone && stage < plan_.pp; ++stage)
        for (const Bucket& bucket : of(stage).buckets)
            add_bucket_bytes(layout_, stage, bucket, topology_, bytes);
}

}  // namespace plansim
