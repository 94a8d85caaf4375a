// SPDX-License-Identifier: Apache-2.0
// Which module may include which: base <- spec <- network, graph, device; the planner never sees the replay; SimGrid is
// a matter of sim/replay alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Include {
    std::string file;
    std::string module;  // of the file: "planner", "spec", ...
    std::string target;  // as written between the quotes or brackets
};

std::vector<Include> all_includes() {
    std::vector<Include> result;
    const fs::path root = PLANSIM_SOURCE_ROOT;
    for (const char* top : {"sim", "planner"})
        for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
            if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
            const fs::path relative = fs::relative(entry.path(), root);
            auto part = relative.begin();
            if (*part == "sim") ++part;
            std::ifstream stream(entry.path());
            for (std::string line; std::getline(stream, line);) {
                const auto start = line.find_first_of("<\"");
                if (!line.starts_with("#include") || start == std::string::npos) continue;
                const auto end = line.find_first_of(">\"", start + 1);
                result.push_back({relative.string(), part->string(), line.substr(start + 1, end - start - 1)});
            }
        }
    return result;
}

/// Module of an include of ours, empty otherwise.
std::string module_of(const std::string& target) {
    if (target.starts_with("planner/")) return "planner";
    if (!target.starts_with("sim/")) return "";
    return target.substr(4, target.find('/', 4) - 4);
}

// The direct arrows; what a module may include is all that can be reached along them.
const std::map<std::string, std::set<std::string>> kArrows{
    {"base", {}},
    {"spec", {"base"}},
    {"network", {"spec"}},
    {"graph", {"spec"}},
    {"device", {"spec"}},
    {"trace", {"spec"}},
    {"collective", {"network", "spec"}},
    {"cost", {"graph", "collective"}},
    {"schedule", {"cost"}},
    {"planner", {"schedule", "device", "cost"}},
    {"replay", {"schedule", "device", "trace"}},
    {"app", {"planner", "replay"}},
};

std::set<std::string> reachable(const std::string& module) {
    std::set<std::string> result{module};
    std::vector<std::string> open{module};
    while (!open.empty()) {
        const std::string next = open.back();
        open.pop_back();
        for (const auto& target : kArrows.at(next))
            if (result.insert(target).second) open.push_back(target);
    }
    return result;
}

TEST(Arrows, ModulesIncludeOnlyWhatTheyMay) {
    const auto includes = all_includes();
    ASSERT_GT(includes.size(), 300U);
    for (const Include& include : includes) {
        ASSERT_TRUE(kArrows.contains(include.module)) << include.file << " belongs to no module that this test knows";
        const std::string target = module_of(include.target);
        if (target.empty()) continue;
        EXPECT_TRUE(reachable(include.module).contains(target)) << include.file << " includes " << include.target;
    }
}

TEST(Arrows, OnlyTheReplayIncludesSimGrid) {
    bool found = false;
    for (const Include& include : all_includes()) {
        const bool simgrid = include.target.starts_with("simgrid") || include.target.starts_with("xbt");
        found = found || simgrid;
        EXPECT_TRUE(!simgrid || include.module == "replay") << include.file << " includes " << include.target;
    }
    EXPECT_TRUE(found);
}

TEST(Arrows, IncludesOfOursAreWrittenFromTheRoot) {
    for (const Include& include : all_includes())
        EXPECT_TRUE(module_of(include.target).empty() || fs::exists(fs::path(PLANSIM_SOURCE_ROOT) / include.target))
            << include.file << ": " << include.target;
}

}  // namespace
