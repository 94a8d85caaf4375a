// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/layout.hpp"

namespace plansim {

Group Layout::devices(int replica, int stage) const {
    Group group;
    for (int cp_rank = 0; cp_rank < plan_.cp; ++cp_rank)
        for (int tp_rank = 0; tp_rank < plan_.tp; ++tp_rank)
            group.push_back(plan_.device_of({tp_rank, cp_rank, replica, stage}));
    return group;
}

std::vector<Group> Layout::expert_groups(int replica, int stage) const {
    const int span = plan_.ep * plan_.etp;  // consecutive ranks that hold all experts once
    const int ranks = plan_.tp * plan_.cp;  // of a replica
    std::vector<Group> result;
    for (int first = (replica * ranks + span - 1) / span * span; first < (replica + 1) * ranks; first += span) {
        Group all;
        for (int other = first / ranks; other <= (first + span - 1) / ranks; ++other)
            for (const DeviceId device : devices(other, stage))
                all.push_back(device);
        for (int expert_rank = 0; expert_rank < plan_.etp; ++expert_rank) {
            Group& group = result.emplace_back();
            for (int index = 0; index < plan_.ep; ++index)
                group.push_back(all[static_cast<std::size_t>(first % ranks + index * plan_.etp + expert_rank)]);
        }
    }
    return result;
}

std::vector<Group> Layout::groups(Axis axis, int replica, int stage) const {
    if (axis == Axis::ep) return expert_groups(replica, stage);
    const bool tensor = axis == Axis::tp;
    std::vector<Group> result(static_cast<std::size_t>(tensor ? plan_.cp : plan_.tp));
    for (int cp_rank = 0; cp_rank < plan_.cp; ++cp_rank)
        for (int tp_rank = 0; tp_rank < plan_.tp; ++tp_rank)
            result[static_cast<std::size_t>(tensor ? cp_rank : tp_rank)].push_back(
                plan_.device_of({tp_rank, cp_rank, replica, stage}));
    return result;
}

std::vector<Group> Layout::dp_groups(int tp_rank, int stage) const {
    std::vector<Group> groups(static_cast<std::size_t>(plan_.outer_replicas));
    const int owner = owner_of(stage);
    const int inner = plan_.dp / plan_.outer_replicas;
    for (int replica = 0; replica < plan_.dp; ++replica) {
        Group& group = groups[static_cast<std::size_t>(replica / inner)];
        for (int cp_rank = 0; cp_rank < plan_.cp; ++cp_rank) {
            group.push_back(plan_.device_of({tp_rank, cp_rank, replica, owner}));
            if (plan_.copies() > 1) group.push_back(plan_.device_of({tp_rank, cp_rank, replica, plan_.pp - 1 - owner}));
        }
    }
    return groups;
}

std::vector<Group> Layout::expert_data_groups(int stage) const {
    const auto span = static_cast<std::size_t>(plan_.ep * plan_.etp);
    std::vector<Group> groups(span * static_cast<std::size_t>(plan_.outer_replicas));
    const int owner = owner_of(stage);
    const int inner = plan_.dp / plan_.outer_replicas;
    std::size_t rank = 0;
    for (int replica = 0; replica < plan_.dp; ++replica)
        for (int copy = 0; copy < plan_.copies(); ++copy)
            for (const DeviceId device : devices(replica, copy == 0 ? owner : plan_.pp - 1 - owner))
                groups[span * static_cast<std::size_t>(replica / inner) + rank++ % span].push_back(device);
    return groups;
}

std::vector<Group> Layout::data_groups(DataGroup kind, int stage) const {
    if (kind == DataGroup::experts) return expert_data_groups(stage);
    std::vector<Group> groups;
    for (int tp_rank = 0; tp_rank < plan_.tp; ++tp_rank) {
        const std::vector<Group> same = dp_groups(tp_rank, stage);
        if (kind == DataGroup::all) {
            groups.insert(groups.end(), same.begin(), same.end());
        } else if (kind == DataGroup::outer) {
            for (std::size_t place = 0; place < same.front().size(); ++place) {
                Group& group = groups.emplace_back();
                for (const Group& replica : same)
                    group.push_back(replica[place]);
            }
        } else {
            for (const Group& all : same)
                add_shards(groups, all, kind);
        }
    }
    return groups;
}

void Layout::add_shards(std::vector<Group>& groups, const Group& all, DataGroup kind) const {
    const std::size_t shard = plan_.fsdp == 0 ? all.size() : static_cast<std::size_t>(plan_.fsdp);
    const std::size_t count = kind == DataGroup::shard ? all.size() / shard : shard;
    for (std::size_t index = 0; index < count; ++index) {
        Group& group = groups.emplace_back();
        for (std::size_t member = 0; member < all.size() / count; ++member)
            group.push_back(kind == DataGroup::shard ? all[index * shard + member] : all[member * shard + index]);
    }
}

}  // namespace plansim
