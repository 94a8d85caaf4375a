// SPDX-License-Identifier: Apache-2.0
// Replays in a child process of their own, because SimGrid keeps its clock; the record comes back as bytes.
#pragma once

#include "sim/replay/replay.hpp"
#include "tests/support/scenarios.hpp"

namespace plansim {

/// Everything in a record, in order; equal records give equal bytes.
std::string to_bytes(const ReplayRecord& record);
ReplayRecord from_bytes(const std::string& bytes);

ReplayRecord replay_apart(const Scenario& scenario, const Plan& plan, const ReplayOptions& options = {});
/// The plan as inline text.
ReplayRecord replay_apart(const Scenario& scenario, const std::string& plan, const ReplayOptions& options = {});

/// Bytes over all links whose name contains `part`, e.g. ".up".
std::int64_t bytes_over(const ReplayRecord& record, const std::string& part);

}  // namespace plansim
