// SPDX-License-Identifier: Apache-2.0
// Runs a simulation in a child process of its own, because SimGrid cannot start a second one in the same process.
#pragma once

#include <functional>
#include <string>

namespace plansim {

/// Runs `work` in a forked child and returns what it returned. An Error thrown by the child is thrown again here with
/// the same exit code and text; a child that crashes or is killed becomes a SimulationError that names the signal.
std::string run_isolated(const std::function<std::string()>& work);

}  // namespace plansim
