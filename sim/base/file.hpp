// SPDX-License-Identifier: Apache-2.0
// Files that are never half written: content goes to a temporary name in the same folder and is renamed at the end.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>

namespace plansim {

/// A path that exists and is not a regular file (a pipe, /dev/stdout) is written to directly; a link is followed.
///
/// Writes the whole content, or throws InputError ("cannot write PATH: reason") and leaves no trace.
void write_file(const std::filesystem::path& path, std::string_view content);
/// The same for content that is produced piece by piece.
void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& produce);
/// Reads a whole file; throws InputError ("cannot read PATH: reason") when it cannot or if it is longer than
/// `most_bytes`.
std::string read_file(const std::filesystem::path& path,
                      std::size_t most_bytes = std::numeric_limits<std::size_t>::max());

}  // namespace plansim
