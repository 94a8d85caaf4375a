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

std::vector<Group> Layout::groups(Axis axis, int replica, int stage) const {
    const bool tensor = axis == Axis::tp;
    std::vector<Group> result(static_cast<std::size_t>(tensor ? plan_.cp : plan_.tp));
    for (int cp_rank = 0; cp_rank < plan_.cp; ++cp_rank)
        for (int tp_rank = 0; tp_rank < plan_.tp; ++tp_rank)
            result[static_cast<std::size_t>(tensor ? cp_rank : tp_rank)].push_back(
                plan_.device_of({tp_rank, cp_rank, replica, stage}));
    return result;
}

Group Layout::dp_group(int tp_rank, int stage) const {
    Group group;
    const int owner = owner_of(stage);
    for (int replica = 0; replica < plan_.dp; ++replica)
        for (int cp_rank = 0; cp_rank < plan_.cp; ++cp_rank) {
            group.push_back(plan_.device_of({tp_rank, cp_rank, replica, owner}));
            if (plan_.copies() > 1) group.push_back(plan_.device_of({tp_rank, cp_rank, replica, plan_.pp - 1 - owner}));
        }
    return group;
}

std::vector<Group> Layout::dp_groups(int stage) const {
    std::vector<Group> groups;
    for (int rank = 0; rank < plan_.tp; ++rank)
        groups.push_back(dp_group(rank, stage));
    return groups;
}

}  // namespace plansim
