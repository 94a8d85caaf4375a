// SPDX-License-Identifier: Apache-2.0
// Text for people from the JSON objects of the contract, so that both always say the same.
#pragma once

#include <string>

#include "sim/app/outcome.hpp"

namespace plansim {

/// A `simulate` object: the answer first, then where the time goes, memory by stage, links.
std::string simulate_text(const Json& outcome);
/// "71.3 GiB" and the like from a JSON number.
std::string bytes_text(const Json& bytes);
std::string seconds_text(const Json& seconds);

}  // namespace plansim
