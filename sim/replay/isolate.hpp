// SPDX-License-Identifier: Apache-2.0
// Runs a simulation in a child process of its own, because SimGrid cannot start a second one in the same process.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace plansim {

/// Runs `work` in a forked child and returns what it returned. An Error thrown by the child is thrown again here with
/// the same exit code and text; a child that crashes or is killed becomes a SimulationError that names the signal.
std::string run_isolated(const std::function<std::string()>& work);

/// Runs every work in a forked child of its own, at most `at_once` at a time, and returns what they returned, in order.
/// All are run to the end; then the first problem in order is thrown as above.
std::vector<std::string> run_isolated_all(const std::vector<std::function<std::string()>>& works, int at_once);

}  // namespace plansim
