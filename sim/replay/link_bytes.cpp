// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/link_bytes.hpp"

#include "sim/collective/expert_exchange.hpp"

namespace plansim {
void add_flow_bytes(const HopFlow& flow, std::int64_t times, const Topology& topology,
                    std::vector<std::int64_t>& bytes) {
    Route route;
    topology.route(flow.source, flow.destination, route);
    for (const LinkId link : route)
        bytes[static_cast<std::size_t>(link)] += flow.bytes.value() * times;
}

void add_unit_bytes(const Layout& layout, int replica, int stage, const CollectiveCounts& counts, bool copied,
                    const Topology& topology, std::vector<std::int64_t>& bytes) {
    for (const auto& [call, count] : counts) {
        const std::int64_t times = count.as_delay + (copied ? count.as_flow : 0);
        if (times == 0) continue;
        const auto [axis, kind, size, top_k] = call;
        for (const Group& group : layout.groups(axis, replica, stage))
            for (const HopFlow& flow :
                 (axis == Axis::ep ? expert_exchange(group, Bytes(size), top_k, topology)
                                   : decompose(kind, CollectiveAlgorithm::automatic, group, Bytes(size), topology))
                     .flows)
                add_flow_bytes(flow, times, topology, bytes);
    }
}

void add_bucket_bytes(const Layout& layout, int stage, const Bucket& bucket, const Topology& topology,
                      std::vector<std::int64_t>& bytes) {
    for (const Group& group : layout.data_groups(bucket.collective.group, stage))
        for (const HopFlow& flow :
             decompose(bucket.collective.kind, CollectiveAlgorithm::automatic, group, bucket.collective.size, topology)
                 .flows)
            add_flow_bytes(flow, bucket.completed, topology, bytes);
}

void add_boundary_bytes(CostModel& model, const Plan& plan, int replica, std::vector<std::int64_t>& bytes) {
    const Layout layout(plan);
    const PipelineShape shape = plan.shape();
    for (int front = 0; front < shape.virtual_stages(); ++front) {
        const int next = shape.target(front, false);
        if (!shape.apart(front, next)) continue;
        const Group from = layout.devices(replica, shape.stage_of(front));
        const Group to = layout.devices(replica, shape.stage_of(next));
        const Bytes amount = model.p2p_bytes(plan, chunk_cost(model, plan, front).boundary);
        for (std::size_t rank = 0; rank < from.size(); ++rank) {
            add_flow_bytes({from[rank], to[rank], amount}, shape.passes(), model.topology(), bytes);
            add_flow_bytes({to[rank], from[rank], amount}, shape.passes(), model.topology(), bytes);
        }
    }
}

}  // namespace plansim
