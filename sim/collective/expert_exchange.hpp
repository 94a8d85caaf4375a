// SPDX-License-Identifier: Apache-2.0
// The all-to-all that brings tokens to their experts, or back.
//
// A token that several experts of one rank want travels there once, and one that several ranks of a node want crosses
// the network once and is passed on inside the node (DeepSeek-AI 2024, DeepEP). With balanced routing a token visits a
// given one of n ranks with probability 1 - (1 - 1/n)^top_k.
#pragma once

#include "sim/collective/collective.hpp"

namespace plansim {

/// `tokens`: bytes of one copy of the tokens that each rank of the group holds.
Decomposition expert_exchange(const Group& group, Bytes tokens, std::int64_t top_k, const Topology& topology);

}  // namespace plansim
