// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/layout.hpp"

namespace plansim {

Group Layout::tp_group(int replica, int stage) const {
    Group group;
    for (int rank = 0; rank < plan_.tp; ++rank)
        group.push_back(plan_.device_of({rank, 0, replica, stage}));
    return group;
}

Group Layout::dp_group(int tp_rank, int stage) const {
    Group group;
    for (int replica = 0; replica < plan_.dp; ++replica)
        group.push_back(plan_.device_of({tp_rank, 0, replica, stage}));
    return group;
}

std::vector<Group> Layout::dp_groups(int stage) const {
    std::vector<Group> groups;
    for (int rank = 0; rank < plan_.tp; ++rank)
        groups.push_back(dp_group(rank, stage));
    return groups;
}

}  // namespace plansim
