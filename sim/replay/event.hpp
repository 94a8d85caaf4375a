// SPDX-License-Identifier: Apache-2.0
// What an engine event of the replay belongs to; private to the module.
#pragma once

#include "sim/replay/engine.hpp"

namespace plansim {

enum class EventKind : std::uint8_t {
    step,
    unit_latency,
    unit_flow,
    transfer_latency,
    transfer_flow,
    bucket_latency,
    bucket_flow
};

/// Packed into a token: the kind in the top byte, then two indices.
inline Token make_token(EventKind kind, std::size_t index, std::size_t sub = 0) {
    return (static_cast<Token>(kind) << 56) | (static_cast<Token>(sub) << 32) | static_cast<Token>(index);
}

}  // namespace plansim
