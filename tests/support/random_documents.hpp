// SPDX-License-Identifier: Apache-2.0
// Random documents and plans for properties, and the seed that makes every run draw the same ones.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>

#include "tests/support/scenarios.hpp"

namespace plansim {

/// Checks a property with a fixed seed and number of cases; RC_PARAMS of the environment overrides both.
template <class Property>
void check_property(const std::string& what, int cases, Property&& property) {
    const std::string parameters = "seed=20240701 max_success=" + std::to_string(cases);
    ::setenv("RC_PARAMS", parameters.c_str(), 0);
    EXPECT_TRUE(rc::check(what, std::forward<Property>(property)));
}

/// least .. most, both included.
std::int64_t pick(std::int64_t least, std::int64_t most);
bool flip();
/// One of the values given.
template <class T>
T pick_from(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(values.size()) - 1))];
}
/// A double that no decimal fraction hits, between the bounds.
double pick_real(double least, double most);

Workload random_transformer();
Workload random_graph();
Software random_software();
/// A switched platform of `nodes` x `devices_per_node` with imperfect rates.
Platform random_platform(int nodes, int devices_per_node);
/// Scenario and legal plan on up to 16 devices.
struct Case {
    Scenario scenario;
    std::string plan;
};
Case random_case();

}  // namespace plansim
