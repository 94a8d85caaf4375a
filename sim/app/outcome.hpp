// SPDX-License-Identifier: Apache-2.0
// The result of simulating one plan, as the `simulate` object of the JSON contract.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/replay/replay.hpp"

namespace plansim {

using Json = nlohmann::ordered_json;

/// The text of a JSON result; bytes that are not UTF-8 (names from the command line) become U+FFFD.
std::string json_text(const Json& json);

/// User and system time that this process has used so far.
double cpu_seconds();

/// Where the files of a recorded run go; empty: nothing is written.
struct SimulateRequest {
    ReplayOptions replay;
    std::string trace_folder;  // trace.json, devices.csv, links.csv, memory.csv
};

/// Replays the plan in a process of its own and returns the `simulate` object.
Json simulate_plan(const Scenario& scenario, const Plan& plan, const SimulateRequest& request);

/// The closed form alone.
Estimate estimate_plan(const Scenario& scenario, const Plan& plan);

/// The full plan as JSON, with the keys of plan.yaml.
Json plan_json(const Plan& plan, const Workload& workload);
Json estimate_json(const Estimate& estimate);

/// Fills in the names and content hashes of the documents that the plan is for; warns if it was made for others.
void stamp(Plan& plan, const Scenario& scenario);

/// Text that differs if the time or memory of a plan differs: closed form first, replay where that is equal.
std::string outcome_fingerprint(const Scenario& scenario, const Plan& plan);

}  // namespace plansim
