// SPDX-License-Identifier: Apache-2.0
// plansim calibrate: fits the parameters of accelerators, fabrics and software profiles to published training runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "sim/app/calibrate/fit.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/outcome.hpp"
#include "sim/base/error.hpp"
#include "sim/base/log.hpp"

namespace plansim {
namespace {

struct Request {
    std::string file;
    int iterations = 2;
    int jobs = 0;
    bool write = false;
    bool cross_validate = false;
};

/// Errors in percent of a set of rows.
struct Errors {
    std::vector<double> percent;
    void add(double residual) { percent.push_back(100 * (std::exp(residual) - 1)); }
    [[nodiscard]] Json json() const {
        if (percent.empty()) return {{"n", 0}};
        std::vector<double> absolute;
        for (const double error : percent)
            absolute.push_back(std::abs(error));
        std::sort(absolute.begin(), absolute.end());
        const auto count = static_cast<double>(percent.size());
        const auto at = [&](double share) { return absolute[static_cast<std::size_t>(share * (count - 1))]; };
        return {{"n", percent.size()},
                {"median_ape_pct", (absolute[(absolute.size() - 1) / 2] + absolute[absolute.size() / 2]) / 2},
                {"mape_pct", std::accumulate(absolute.begin(), absolute.end(), 0.0) / count},
                {"bias_pct", std::accumulate(percent.begin(), percent.end(), 0.0) / count},
                {"p90_ape_pct", at(0.9)}};
    }
};

std::string line(const std::string& name, const Json& errors) {
    if (errors["n"] == 0) return "";
    return fmt::format("  {:<24} {:>4}  {:6.1f} {:6.1f} {:+6.1f} {:6.1f}\n", name, errors["n"].get<int>(),
                       errors["median_ape_pct"].get<double>(), errors["mape_pct"].get<double>(),
                       errors["bias_pct"].get<double>(), errors["p90_ape_pct"].get<double>());
}

constexpr const char* kHeader =
    "                              n  median   mean   bias    p90   (absolute errors in percent)\n";

Json in_sample(const Fit& fit) {
    std::map<std::string, Errors> by_source;
    Errors all;
    for (const FitRow& row : fit.rows()) {
        by_source[row.source].add(row.residual);
        all.add(row.residual);
    }
    Json json;
    for (const auto& [source, errors] : by_source)
        json["by_source"][source] = errors.json();
    json["all"] = all.json();
    return json;
}

/// Refits without a source (or family) and predicts it.
Json left_out(const Fit& fit, std::string FitRow::*group) {
    std::set<std::string> groups;
    for (const FitRow& row : fit.rows())
        groups.insert(row.*group);
    Json json;
    Errors all;
    for (const std::string& name : groups) {
        const Shift blind = fit.solve([&](const FitRow& row) { return row.*group != name; });
        Errors errors;
        for (const FitRow& row : fit.rows())
            if (row.*group == name) {
                const double residual = fit.residual_at(row, blind);
                errors.add(residual);
                all.add(residual);
            }
        json["by_group"][name] = errors.json();
    }
    json["all"] = all.json();
    return json;
}

/// Parameters that a user with a few runs of an unknown framework fits: its host time and its element-wise traffic.
std::vector<std::size_t> framework_parameters(const Fit& fit, const FitRow& row) {
    std::vector<std::size_t> result;
    for (const std::size_t parameter : row.parameters) {
        const std::string& name = fit.set().parameters()[parameter].name;
        const bool general = name == "host_growth" || name == "elementwise_eager" || name == "elementwise_fused";
        if (!general && (name.starts_with("host_") || name.starts_with("elementwise_"))) result.push_back(parameter);
    }
    return result;
}

/// A family left out, then calibrated with a few of its rows; mean over seeded draws of the errors on the others.
Json with_few_rows(const Fit& fit, std::size_t count, int draws) {
    std::set<std::string> families;
    std::map<std::string, std::size_t> sizes;
    for (const FitRow& row : fit.rows())
        ++sizes[row.family];
    // The recipe's nine families; the others are mixtures of generations.
    for (const auto& [family, size] : sizes)
        if (size >= 2 * count && family != "MLPerf" && family != "Megatron-Bridge" && family != "TPU")
            families.insert(family);
    Json json;
    double sum = 0;
    for (const std::string& family : families) {
        std::vector<const FitRow*> rows;
        for (const FitRow& row : fit.rows())
            if (row.family == family) rows.push_back(&row);
        const Shift blind = fit.solve([&](const FitRow& row) { return row.family != family; });
        Errors errors;
        for (int draw = 0; draw < draws; ++draw) {
            std::mt19937 random(static_cast<unsigned>(draw));
            std::vector<const FitRow*> shuffled = rows;
            std::shuffle(shuffled.begin(), shuffled.end(), random);
            std::set<const FitRow*> chosen(shuffled.begin(), shuffled.begin() + static_cast<std::ptrdiff_t>(count));
            std::set<std::size_t> free;
            for (const FitRow* row : chosen)
                for (const std::size_t parameter : framework_parameters(fit, *row))
                    free.insert(parameter);
            const Shift shift =
                fit.solve([&](const FitRow& row) { return chosen.contains(&row); }, {free.begin(), free.end()}, blind);
            for (const FitRow* row : rows)
                if (!chosen.contains(row)) errors.add(fit.residual_at(*row, shift));
        }
        json["by_family"][family] = errors.json();
        sum += json["by_family"][family]["mape_pct"].get<double>();
    }
    json["mean_of_families_mape_pct"] = families.empty() ? 0 : sum / static_cast<double>(families.size());
    return json;
}

/// "fitted on a, b, c, +- 3 %; start 0.82 (meaning)".
std::vector<std::string> comments_of(const Fit& fit) {
    const std::vector<double> sigma = fit.uncertainty();
    std::vector<std::map<std::string, double>> information(sigma.size());
    for (const FitRow& row : fit.rows())
        for (std::size_t place = 0; place < row.parameters.size(); ++place)
            information[row.parameters[place]][row.source] += row.gradient[place] * row.gradient[place];
    std::vector<std::string> result;
    for (std::size_t parameter = 0; parameter < sigma.size(); ++parameter) {
        const FitParameter& what = fit.set().parameters()[parameter];
        std::vector<std::pair<double, std::string>> sources;
        for (const auto& [source, amount] : information[parameter])
            if (amount > 0) sources.emplace_back(amount, source);
        std::sort(sources.rbegin(), sources.rend());
        // A parameter whose uncertainty the rows hardly reduce keeps its start.
        const bool informed = sigma[parameter] < 0.9 * what.sigma && !sources.empty();
        std::string text =
            fmt::format("{} {:.3g}{}", what.name, what.start * std::exp(fit.shift()[parameter]), what.unit);
        if (informed) {
            text += " fitted on ";
            for (std::size_t index = 0; index < std::min<std::size_t>(3, sources.size()); ++index)
                text += (index == 0 ? "" : ", ") + sources[index].second;
        } else {
            text += " assumed";
        }
        result.push_back(text + fmt::format(", +- {:.0f} %", 100 * sigma[parameter]));
    }
    return result;
}

void calibrate(const CommonOptions& common, const Request& request) {
    const int jobs =
        request.jobs > 0 ? request.jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    Fit fit(ParameterSet::load(), read_measured(request.file), jobs);
    fit.replay();
    fit.evaluate(true);
    Json json{{"format", 1}, {"rows", fit.rows().size()}, {"parameters", fit.set().parameters().size()}};
    json["before"] = in_sample(fit);
    for (int iteration = 0; iteration < request.iterations; ++iteration) {
        log_info(fmt::format("iteration {} of {}", iteration + 1, request.iterations));
        fit.move_to(fit.solve([](const FitRow&) { return true; }));
        if (iteration + 1 == request.iterations) fit.replay();
        fit.evaluate(true);
    }
    json["fit"] = in_sample(fit);
    const std::vector<double> sigma = fit.uncertainty();
    for (std::size_t parameter = 0; parameter < sigma.size(); ++parameter) {
        const FitParameter& what = fit.set().parameters()[parameter];
        json["values"].push_back({{"name", what.name},
                                  {"start", what.start},
                                  {"value", what.start * std::exp(fit.shift()[parameter])},
                                  {"unit", what.unit},
                                  {"uncertainty_pct", 100 * sigma[parameter]},
                                  {"start_uncertainty_pct", 100 * what.sigma}});
    }
    if (request.cross_validate) {
        json["source_left_out"] = left_out(fit, &FitRow::source);
        json["family_left_out"] = left_out(fit, &FitRow::family);
        json["family_with_three_rows"] = with_few_rows(fit, 3, 12);
    }
    if (request.write) write_values(fit.set(), fit.shift(), comments_of(fit));
    if (common.format == OutputFormat::json) {
        std::cout << json_text(json);
        return;
    }
    std::string text = "before\n" + std::string(kHeader) + line("all rows", json["before"]["all"]) + "fit\n" + kHeader;
    for (const auto& [source, errors] : json["fit"]["by_source"].items())
        text += line(source, errors);
    text += line("all rows", json["fit"]["all"]);
    if (request.cross_validate) {
        for (const auto& [title, key] :
             {std::pair{"source left out", "source_left_out"}, {"family left out", "family_left_out"}}) {
            text += fmt::format("{}\n{}", title, kHeader);
            for (const auto& [source, errors] : json[key]["by_group"].items())
                text += line(source, errors);
            text += line("all rows", json[key]["all"]);
        }
        text += fmt::format("family left out, then calibrated with three of its rows (12 draws)\n{}", kHeader);
        for (const auto& [family, errors] : json["family_with_three_rows"]["by_family"].items())
            text += line(family, errors);
        text += fmt::format("  mean over families {:.1f} %\n",
                            json["family_with_three_rows"]["mean_of_families_mape_pct"].get<double>());
    }
    for (const Json& value : json["values"])
        text += fmt::format("  {:<28} {:>9.4g} {:<3} +- {:3.0f} %   start {:g}\n", value["name"].get<std::string>(),
                            value["value"].get<double>(), value["unit"].get<std::string>(),
                            value["uncertainty_pct"].get<double>(), value["start"].get<double>());
    std::cout << text;
}

}  // namespace

void add_calibrate(CLI::App& app, CommonOptions& common) {
    const auto request = std::make_shared<Request>();
    CLI::App* command = app.add_subcommand("calibrate", "fit the parameters of documents to measured training runs");
    command
        ->add_option("MEASURED", request->file,
                     "training runs, as CSV with the columns of tests/accuracy/measured/training.csv")
        ->required();
    command->add_option("--iterations", request->iterations, "Gauss-Newton iterations (default 2)")
        ->check(CLI::Range(0, 20));
    command->add_flag("--write", request->write, "write the values into the documents of the catalogue");
    command->add_flag("--cross-validate", request->cross_validate,
                      "also leave out each source and each framework, and calibrate frameworks with three rows");
    command->add_option("-j,--jobs", request->jobs, "processes at a time (default: one per core)")
        ->check(CLI::Range(1, 1024));
    command->footer("Example: plansim calibrate tests/accuracy/measured/training.csv --cross-validate");
    add_output_options(*command, common);
    command->callback([&common, request] { calibrate(common, *request); });
}

}  // namespace plansim
