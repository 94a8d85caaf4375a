// SPDX-License-Identifier: Apache-2.0
// Runs the real executable as a user does, in a temporary folder, and keeps what it printed.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plansim::test {

struct CommandResult {
    int exit_code = 0;  // 128 + the number of the signal if one ended it, 124 after the time limit
    std::string out;
    std::string err;
};

/// Runs `plansim ARGUMENTS`; stdout goes to `stdout_file` if one is given. Killed after `limit_s` seconds.
CommandResult run_plansim(const std::vector<std::string>& arguments, const std::string& stdout_file = "",
                          int limit_s = 20);

/// Standard output of a command that must succeed, as JSON; records a failure otherwise.
nlohmann::ordered_json json_of(const std::vector<std::string>& arguments);

/// A fresh folder that is removed again.
class TemporaryFolder {
  public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
    /// Writes a file and returns its path.
    [[nodiscard]] std::string write(const std::string& name, std::string_view content) const;

  private:
    std::filesystem::path path_;
};

std::string read_all(const std::filesystem::path& path);
/// Text of a catalogue file such as "workloads/bert-large.yaml".
std::string catalogue_text(const std::string& relative_path);
/// Replaces the first occurrence; records a failure if there is none.
std::string replaced(std::string text, std::string_view what, std::string_view by);

}  // namespace plansim::test
