// SPDX-License-Identifier: Apache-2.0
// The one place where a broken invariant turns into an exception.
#include "sim/base/error.hpp"

#include <fmt/format.h>

namespace plansim {

void check_failed(const char* condition, const char* file, int line, const std::string& detail) {
    throw InternalError(
        fmt::format("internal error: {} ({}:{}): {}; please report this", condition, file, line, detail));
}

}  // namespace plansim
