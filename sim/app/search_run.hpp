// SPDX-License-Identifier: Apache-2.0
// A search as the commands run it: with progress, time, and fixed keys of the plan.
#pragma once

#include <string>
#include <vector>

#include "planner/search.hpp"
#include "sim/app/outcome.hpp"

namespace plansim {

struct SearchRun {
    SearchResult result;
    Json json;  // the `search` object
};

/// Throws InfeasibleError if nothing fits. `fixed` are the plan.* overrides: they narrow the search.
SearchRun run_search(const Scenario& scenario, int top, const std::vector<Override>& fixed);
/// Table of the plans found.
std::string search_text(const SearchRun& found, const Scenario& scenario);

}  // namespace plansim
