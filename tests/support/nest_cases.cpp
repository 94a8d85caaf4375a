// SPDX-License-Identifier: Apache-2.0
#include "tests/support/nest_cases.hpp"

namespace plansim::nest {

Case published_case(const std::string& name, std::int64_t devices) {
    return read_case(std::string(PLANSIM_SOURCE_ROOT) + "/tests/data/nest/" + name + ".json", devices);
}

Case small_case(const std::vector<std::pair<double, double>>& nodes, std::int64_t boundary, std::int64_t devices,
                std::int64_t microbatches) {
    Case planned;
    planned.name = "small";
    planned.devices = devices;
    planned.memory_bytes = 1'000'000;
    planned.microbatches = microbatches;
    planned.recompute = true;
    planned.network = {{devices}, {5}, {1}};
    Profile profile;
    for (const auto& [forward, backward] : nodes)
        profile.nodes.push_back({forward, backward, backward, 1, 2, 10});
    profile.boundary.assign(nodes.size() + 1, boundary);
    profile.boundary.front() = profile.boundary.back() = 0;
    planned.profiles.push_back(profile);
    return planned;
}

Case random_case(std::mt19937& random) {
    const auto draw = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
    Case planned;
    planned.name = "random";
    const int inner = draw(1, 3);
    const int outer = draw(1, 8 / inner);
    planned.devices = inner * outer;
    planned.network = {{inner, outer},
                       {static_cast<double>(draw(5, 50)), static_cast<double>(draw(1, 50))},
                       {0.1 * draw(0, 5), 0.1 * draw(0, 5)}};
    planned.memory_bytes = draw(40, 220);
    planned.microbatches = draw(1, 12);
    planned.recompute = draw(0, 3) > 0;
    const int count = draw(1, 6);
    const bool equal_layers = draw(0, 1) == 1;
    for (int width = 1; width <= draw(1, 2); ++width) {
        Profile profile;
        profile.tp = width;
        profile.group = width;
        for (int node = 0; node < count; ++node) {
            if (equal_layers && node > 1) {
                profile.nodes.push_back(profile.nodes.back());
                continue;
            }
            const double backward = draw(1, 20);
            const int weights = draw(1, 12);
            profile.nodes.push_back(
                {static_cast<double>(draw(1, 20)), backward, backward, weights, 2 * weights, draw(4, 40)});
        }
        profile.boundary.assign(profile.nodes.size() + 1, 0);
        for (std::size_t cut = 1; cut < profile.nodes.size(); ++cut)
            profile.boundary[cut] = draw(1, 4);
        planned.profiles.push_back(profile);
    }
    return planned;
}

std::vector<Costs> costs_of(const Case& planned) {
    std::vector<Costs> costs;
    for (const Profile& profile : planned.profiles)
        costs.emplace_back(planned, profile);
    return costs;
}

}  // namespace plansim::nest
