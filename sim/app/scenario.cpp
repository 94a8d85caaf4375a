// SPDX-License-Identifier: Apache-2.0
#include "sim/app/scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "sim/app/outcome.hpp"
#include "sim/base/error.hpp"
#include "sim/base/log.hpp"

namespace plansim {

namespace fs = std::filesystem;

/// Where workloads/ and platforms/ live: $PLANSIM_DATA, beside the executable's folder, or the source tree of the
/// build.
fs::path data_folder() {
    std::vector<fs::path> places;
    if (const char* chosen = std::getenv("PLANSIM_DATA")) places.emplace_back(chosen);
    std::error_code ignored;
    const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
    if (!executable.empty()) {
        places.push_back(executable.parent_path().parent_path());
        places.push_back(executable.parent_path().parent_path() / "share" / "plansim");
    }
    places.emplace_back(PLANSIM_SOURCE_DIR);
    for (const fs::path& place : places)
        if (fs::is_directory(place / "workloads", ignored) && fs::is_directory(place / "platforms", ignored))
            return place;
    throw InputError("no catalogue found: set PLANSIM_DATA to the folder that holds workloads/ and platforms/");
}

namespace {

constexpr std::string_view kind_name(DocumentKind kind) {
    switch (kind) {
        case DocumentKind::workload:
            return "workload";
        case DocumentKind::platform:
            return "platform";
        case DocumentKind::accelerator:
            return "accelerator";
        case DocumentKind::software:
            return "software profile";
        case DocumentKind::plan:
            return "plan";
        case DocumentKind::rules:
            return "rules";
    }
    return "?";
}

fs::path catalogue_folder(DocumentKind kind) {
    switch (kind) {
        case DocumentKind::workload:
            return data_folder() / "workloads";
        case DocumentKind::platform:
            return data_folder() / "platforms";
        case DocumentKind::accelerator:
            return data_folder() / "platforms" / "accelerators";
        case DocumentKind::rules:
            return data_folder() / "platforms" / "measured";
        default:
            return data_folder() / "platforms" / "software";
    }
}

bool is_path(const std::string& name_or_file) {
    return name_or_file.find('/') != std::string::npos || fs::path(name_or_file).extension() == ".yaml";
}

Reader open_plan(const std::string& text, const std::vector<Override>& overrides, Diagnostics& problems) {
    std::error_code ignored;
    const bool is_inline = text.find('=') != std::string::npos && !fs::exists(text, ignored);
    if (!is_inline) return Reader::open(text, overrides, problems);
    return Reader::parse(inline_plan_to_yaml(text), "plan", overrides, problems);
}

}  // namespace

Overrides parse_sets(const std::vector<std::string>& sets) {
    Overrides result;
    for (const std::string& set : sets) {
        const auto equals = set.find('=');
        const auto dot = set.find('.');
        if (equals == std::string::npos || dot == std::string::npos || dot > equals)
            throw UsageError(fmt::format("--set {}: expected DOCUMENT.KEY=VALUE, such as workload.seq=8192", set));
        const std::string document = set.substr(0, dot);
        const Override entry{set.substr(dot + 1, equals - dot - 1), set.substr(equals + 1), set.substr(0, equals)};
        if (document == "workload")
            result.workload.push_back(entry);
        else if (document == "platform")
            result.platform.push_back(entry);
        else if (document == "software")
            result.software.push_back(entry);
        else if (document == "plan")
            result.plan.push_back(entry);
        else
            throw UsageError(fmt::format("--set {}: unknown document '{}' (one of workload, platform, software, plan)",
                                         set, document));
    }
    return result;
}

std::vector<std::string> catalogue(DocumentKind kind) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(catalogue_folder(kind)))
        if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

fs::path find_document(const std::string& name_or_file, DocumentKind kind) {
    std::error_code ignored;
    if (is_path(name_or_file) || fs::is_regular_file(name_or_file, ignored)) return name_or_file;
    fs::path path = catalogue_folder(kind) / (name_or_file + ".yaml");
    if (fs::exists(path, ignored)) return path;
    if (fs::exists(name_or_file, ignored)) return name_or_file;  // a folder or device: reading it says what is wrong
    const auto names = catalogue(kind);
    const std::string guess = nearest_name(name_or_file, names);
    throw InputError(fmt::format("unknown {} '{}'{} (neither a file nor one of {})", kind_name(kind), name_or_file,
                                 guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess),
                                 fmt::join(names, ", ")));
}

Platform load_platform(const fs::path& path, const std::vector<Override>& overrides, int devices,
                       Diagnostics& problems) {
    const auto find_accelerator = [&](const std::string& name) {
        return is_path(name) ? path.parent_path() / name : find_document(name, DocumentKind::accelerator);
    };
    return read_platform(Reader::open(path, overrides, problems, Inclusion{"accelerator", find_accelerator}), devices);
}

Scenario load_scenario(const DocumentOptions& options) {
    const Overrides overrides = parse_sets(options.sets);
    Diagnostics problems;
    Scenario scenario;
    scenario.workload = read_workload(
        Reader::open(find_document(options.workload, DocumentKind::workload), overrides.workload, problems));
    scenario.platform = load_platform(find_document(options.platform, DocumentKind::platform), overrides.platform,
                                      options.devices, problems);
    scenario.software = read_software(
        Reader::open(find_document(options.software, DocumentKind::software), overrides.software, problems));
    problems.throw_if_any();
    return scenario;
}

namespace {

Plan read_plan_text(const std::string& file_or_inline, const Scenario& scenario,
                    const std::vector<Override>& overrides) {
    Diagnostics problems;
    Plan plan = read_plan(open_plan(file_or_inline, overrides, problems), scenario.workload, scenario.platform,
                          scenario.software);
    problems.throw_if_any();
    return plan;
}

}  // namespace

Plan load_plan(const std::string& file_or_inline, const Scenario& scenario, const std::vector<Override>& overrides) {
    Plan plan = read_plan_text(file_or_inline, scenario, overrides);
    stamp(plan, scenario);
    return plan;
}

void warn_about_idle_overrides(const DocumentOptions& options, const std::string& plan_text, bool plan_follows) {
    std::string with;
    for (const std::string& set : options.sets) {
        DocumentOptions without = options;
        without.sets.erase(std::find(without.sets.begin(), without.sets.end(), set));
        try {
            const auto fingerprint = [&](const DocumentOptions& documents) {
                const Scenario scenario = load_scenario(documents);
                std::vector<Override> of_plan = parse_sets(documents.sets).plan;
                if (plan_follows) of_plan.push_back({"gbs", std::to_string(scenario.workload.gbs)});
                return outcome_fingerprint(scenario, read_plan_text(plan_text, scenario, of_plan));
            };
            if (with.empty()) with = fingerprint(options);
            if (with == fingerprint(without))
                log_warning(fmt::format("--set {} changes neither the time nor the memory of this plan", set));
        } catch (const Error&) {
            // Without this override the documents do not fit together: it has an effect.
        }
    }
}

}  // namespace plansim
