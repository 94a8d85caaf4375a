// SPDX-License-Identifier: Apache-2.0
// Finds and loads the documents of a command: files, catalogue names, overrides.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/reader.hpp"
#include "sim/cost/cost_model.hpp"

namespace plansim {

enum class DocumentKind { workload, platform, accelerator, software, plan, rules };

/// What the command line says about documents.
struct DocumentOptions {
    std::string workload;
    std::string platform;
    std::string software = "megatron-core";
    std::vector<std::string> sets;  // KEY=VALUE as given
    int devices = 0;                // 0: the platform's own number
};

/// Overrides sorted by document.
struct Overrides {
    std::vector<Override> workload;
    std::vector<Override> platform;
    std::vector<Override> software;
    std::vector<Override> plan;
};
/// Splits "workload.seq=8192"; throws UsageError unless the key names a document.
Overrides parse_sets(const std::vector<std::string>& sets);

/// The folder that holds workloads/ and platforms/; InputError if there is none.
std::filesystem::path data_folder();

/// Path of a document: an existing file, or a name of the catalogue. InputError with the nearest name otherwise.
std::filesystem::path find_document(const std::string& name_or_file, DocumentKind kind);
/// Names in the catalogue, sorted.
std::vector<std::string> catalogue(DocumentKind kind);

/// Opens and reads a platform; its accelerator may be the name of a document of the catalogue, or a path relative to
/// the platform's file.
Platform load_platform(const std::filesystem::path& path, const std::vector<Override>& overrides, int devices,
                       Diagnostics& problems);

/// Loads workload, platform and software profile; InputError lists every problem of all three.
Scenario load_scenario(const DocumentOptions& options);

/// A plan from a file, or inline ("tp=8 pp=4"), with plan.* overrides, checked against the scenario. Warns of a plan
/// that was made for other documents.
Plan load_plan(const std::string& file_or_inline, const Scenario& scenario, const std::vector<Override>& overrides);

/// One line per override that changes neither time nor memory of the plan: an input without effect is worth a warning.
/// `plan_follows`: the plan was searched for these documents and would have taken its batch from others.
void warn_about_idle_overrides(const DocumentOptions& options, const std::string& plan_text, bool plan_follows = false);

}  // namespace plansim
