// SPDX-License-Identifier: Apache-2.0
// A collective operation decomposed into the flows that it puts on the network at the same time, plus a latency.
//
// A flow stands for everything that one rank sends over one hop during the whole collective, so a ring over n ranks is
// n flows and not 2(n-1) steps: the ring is assumed to move at fluid rates. A group that spans nodes is hierarchical:
// inside each node every member passes the volume on to the next member over the node's fabric; between neighbouring
// nodes of the ring every member of a node drives its own NIC with an equal share of the volume.
// Time without contention = latency() + max over links of bytes on the link / goodput. See cost/ for the closed form.
// Source of the constants: CollectiveFigures of the platform.
#pragma once

#include <vector>

#include "sim/network/topology.hpp"
#include "sim/spec/collective_kind.hpp"

namespace plansim {

std::string_view name_of(CollectiveKind kind);

/// Devices of a group in rank order. Neighbours in this order need not be neighbours on the network; rings are laid
/// node by node (and along the devices of a node) whatever the order.
using Group = std::vector<DeviceId>;

struct HopFlow {
    DeviceId source = 0;
    DeviceId destination = 0;
    Bytes bytes;
};

struct Decomposition {
    Seconds latency;             // all fixed terms: base, per hop or per level, and the small-message excess (ramp)
    std::vector<HopFlow> flows;  // all start when the latency has passed; the collective ends with the last of them
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;  // the one chosen
};

/// Bytes that each rank sends in a ring: c * (n-1)/n * size with c = 2 for all_reduce, 1 for all_gather,
/// reduce_scatter and all_to_all (size = the full tensor of one rank), size for broadcast. 0 for n = 1.
Bytes ring_volume(CollectiveKind kind, int ranks, Bytes size);

/// `size` is the full tensor: the input of an all_reduce or reduce_scatter, the output of an all_gather, what one rank
/// sends to all ranks (itself included) of an all_to_all. `automatic` takes the algorithm with the least time without
/// contention among those that NCCL has for the kind: ring for all but all_to_all, tree and in_network for all_reduce,
/// direct for all_to_all; or the algorithm that the platform's fabric names. Halving and doubling (Gloo, MPI) is for
/// all_reduce over a power of two of ranks. Where an algorithm does not apply, the ring or the direct exchange stands
/// in; `algorithm` of the result says which.
Decomposition decompose(CollectiveKind kind, CollectiveAlgorithm algorithm, const Group& group, Bytes size,
                        const Topology& topology);

/// Time of flows that all start together, if each link is shared by the sum of their bytes: max over binding links of
/// bytes / goodput. `copies` of flow sets given together contend with each other (sibling groups). Excludes latency.
Seconds bottleneck_time(const std::vector<HopFlow>& flows, const Topology& topology);

/// latency + bottleneck_time of one group alone on the network.
Seconds collective_time(CollectiveKind kind, CollectiveAlgorithm algorithm, const Group& group, Bytes size,
                        const Topology& topology);

/// Time when all sibling groups run the same collective at the same time and contend for links.
Seconds concurrent_collective_time(CollectiveKind kind, CollectiveAlgorithm algorithm, const std::vector<Group>& groups,
                                   Bytes size, const Topology& topology);

/// True if no other device can put load on the group's links: all members are in one node whose fabric is a
/// non-blocking switch (each member owns its port). The replay then needs no flows for a collective of this group: it
/// takes latency + bottleneck_time whatever other groups do. Transfers of the members themselves over the same ports
/// at the same time are not seen.
bool owns_its_links(const Group& group, const Topology& topology);

}  // namespace plansim
