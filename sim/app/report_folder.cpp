// SPDX-License-Identifier: Apache-2.0
#include "sim/app/report_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace plansim {
namespace {

std::string& command_line() {
    static std::string text;
    return text;
}

/// The argument as a POSIX shell reads it back.
std::string shell_quoted(const std::string& argument) {
    if (!argument.empty() &&
        argument.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+") ==
            std::string::npos)
        return argument;
    std::string result = "'";
    for (const char c : argument)
        result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
}

}  // namespace

void remember_command_line(int argc, char** argv) {
    command_line() = "plansim";
    for (int index = 1; index < argc; ++index)
        command_line() += " " + shell_quoted(argv[index]);
}

void check_report_folder(const std::filesystem::path& folder) {
    const auto fail = [&](const std::string& reason) {
        throw InputError(fmt::format("cannot create the report folder {}: {}", folder.string(), reason));
    };
    std::error_code problem;
    std::filesystem::path existing = std::filesystem::absolute(folder, problem);
    while (existing.has_relative_path() && !std::filesystem::exists(std::filesystem::symlink_status(existing, problem)))
        existing = existing.parent_path();
    if (!std::filesystem::is_directory(existing, problem))
        fail(problem ? problem.message() : existing.string() + " is not a folder");
    if (::access(existing.c_str(), W_OK | X_OK) != 0) fail(std::generic_category().message(errno));
}

void make_report_folder(const std::filesystem::path& folder) {
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (problem)
        throw InputError(fmt::format("cannot create the report folder {}: {}", folder.string(), problem.message()));
}

void write_report(const std::filesystem::path& folder, const Json& report, const std::string& plan_yaml) {
    write_file(folder / "plan.yaml", plan_yaml);
    write_file(folder / "report.json", json_text(report));
    write_file(folder / "command.txt", command_line() + "\n");
}

}  // namespace plansim
