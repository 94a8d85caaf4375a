// SPDX-License-Identifier: Apache-2.0
// What device memory is used for; ledgers, reports and traces count by these tags.
#pragma once

#include <array>
#include <string_view>

#include "sim/base/units.hpp"

namespace plansim {

enum class MemoryTag { weights, gradients, optimizer, activations, buffers };
inline constexpr std::size_t kMemoryTags = 5;
inline constexpr std::array<std::string_view, kMemoryTags> kMemoryTagNames{"weights", "gradients", "optimizer",
                                                                           "activations", "buffers"};
constexpr std::string_view name_of(MemoryTag tag) {
    return kMemoryTagNames[static_cast<std::size_t>(tag)];
}

using MemoryByTag = std::array<Bytes, kMemoryTags>;

}  // namespace plansim
