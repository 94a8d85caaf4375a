// SPDX-License-Identifier: Apache-2.0
#include "run_command.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

namespace plansim::test {

namespace fs = std::filesystem;

CommandResult run_plansim(const std::vector<std::string>& arguments, const std::string& stdout_file, int limit_s) {
    const TemporaryFolder folder;
    const std::string out_file = stdout_file.empty() ? folder.file("out") : stdout_file;
    const std::string err_file = folder.file("err");
    std::vector<std::string> words{PLANSIM_EXECUTABLE};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_file.c_str(), O_WRONLY | O_CREAT, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, err_file.c_str(), O_WRONLY | O_CREAT, 0644);
    pid_t child = 0;
    const int problem = posix_spawn(&child, PLANSIM_EXECUTABLE, &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (problem != 0) {
        ADD_FAILURE() << "cannot start " << PLANSIM_EXECUTABLE;
        return {127, "", ""};
    }
    int status = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limit_s);
    bool late = false;
    while (waitpid(child, &status, WNOHANG) == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (!late && std::chrono::steady_clock::now() > end) {
            late = true;
            kill(child, SIGKILL);
        }
    }
    CommandResult result;
    result.exit_code = late ? 124 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (stdout_file.empty()) result.out = read_all(out_file);
    result.err = read_all(err_file);
    return result;
}

nlohmann::ordered_json json_of(const std::vector<std::string>& arguments) {
    const CommandResult result = run_plansim(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    auto json = nlohmann::ordered_json::parse(result.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << result.out;
    return json;
}

TemporaryFolder::TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "plansim-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "cannot make " << pattern;
    path_ = pattern;
}
TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}
std::string TemporaryFolder::write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return file(name);
}

std::string read_all(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

std::string catalogue_text(const std::string& relative_path) {
    std::string text = read_all(fs::path(PLANSIM_SOURCE_ROOT) / relative_path);
    EXPECT_FALSE(text.empty()) << relative_path;
    return text;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
    const auto at = text.find(what);
    if (at == std::string::npos)
        ADD_FAILURE() << "no '" << what << "' in the text";
    else
        text.replace(at, what.size(), by);
    return text;
}

}  // namespace plansim::test
