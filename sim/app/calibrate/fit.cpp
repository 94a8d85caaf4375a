// SPDX-License-Identifier: Apache-2.0
#include "sim/app/calibrate/fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "sim/app/outcome.hpp"
#include "sim/base/error.hpp"
#include "sim/replay/isolate.hpp"

namespace plansim {
namespace {

constexpr double kHuberScale = 0.04;
// A residual of a source with n rows weighs n^-0.2: large tables count for more, but not in proportion.
constexpr double kSourceExponent = -0.2;
// How far one published run is expected to lie from a perfect model: repeats differ by 2 to 7 %.
constexpr double kNoise = 0.05;
/// Of the few parameters that a user fits to his own framework, nothing is known before: a factor of 1.6 either way.
constexpr double kUnknownFramework = 0.5;
constexpr double kStep = 0.02;  // of the finite differences
constexpr int kReweightings = 8;

double closed_form(const MeasuredRow& row, const MeasurementRules& rules, const ParameterSet& set, const Shift& shift) {
    const MeasuredRun run =
        measured_run(row, rules, {}, [&](const auto& documents) { return set.sets(documents, shift); });
    return std::log(estimate_plan(run.scenario, run.plan).iteration_time.value());
}

std::string family_of(const std::string& source) {
    if (source.starts_with("llmfoundry")) return "llm-foundry";
    if (source.starts_with("torchtitan")) return "torchtitan";
    if (source.starts_with("nemo") || source.starts_with("mcore")) return "NeMo";
    if (source.starts_with("mbridge") || source.starts_with("dgxc")) return "Megatron-Bridge";
    if (source.starts_with("mlperf")) return "MLPerf";
    if (source.starts_with("maxtext") || source.starts_with("tpu")) return "TPU";
    return source;
}

double weight(double rows_of_source) {
    return std::pow(rows_of_source, kSourceExponent) / (kNoise * kNoise);
}

}  // namespace

Fit::Fit(ParameterSet set, const MeasuredTable& table, int jobs)
    : set_(std::move(set)), rules_(MeasurementRules::load()), shift_(set_.current()), jobs_(jobs) {
    for (const MeasuredRow& row : table.rows) {
        try {
            const MeasuredRun run = measured_run(row, rules_);
            FitRow fit;
            fit.row = row;
            const std::string& id = row.text("id");
            fit.source = id.substr(0, id.rfind('-'));
            fit.family = family_of(fit.source);
            fit.software = run.scenario.software.name;
            fit.accelerator = run.scenario.platform.accelerator.name;
            fit.parameters = set_.used_by(run.documents);
            fit.measured_s = measured_step(row, run).value();
            rows_.push_back(std::move(fit));
        } catch (const Error&) {
            continue;  // validate lists it as skipped
        }
    }
    for (const FitRow& row : rows_)
        rows_of_source_[row.source] += 1;
}

/// Runs `work` for every row in child processes.
void Fit::run(const std::function<std::vector<double>(FitRow&)>& work,
              const std::function<void(FitRow&, const std::vector<double>&)>& store) {
    constexpr std::size_t kBatch = 8;
    std::vector<std::function<std::string()>> works;
    for (std::size_t first = 0; first < rows_.size(); first += kBatch)
        works.emplace_back([&, first] {
            Json result = Json::array();
            for (std::size_t index = first; index < std::min(first + kBatch, rows_.size()); ++index)
                result.push_back(work(rows_[index]));
            return result.dump();
        });
    std::size_t index = 0;
    for (const std::string& text : run_isolated_all(works, jobs_))
        for (const Json& values : Json::parse(text))
            store(rows_[index++], values.get<std::vector<double>>());
}

void Fit::replay() {
    run(
        [&](FitRow& row) {
            const MeasuredRun measured =
                measured_run(row.row, rules_, {}, [&](const auto& documents) { return set_.sets(documents, shift_); });
            const double replayed = simulate_plan(measured.scenario, measured.plan, {})["iteration_time_s"];
            return std::vector{
                std::log(replayed / estimate_plan(measured.scenario, measured.plan).iteration_time.value())};
        },
        [](FitRow& row, const std::vector<double>& values) { row.correction = values.front(); });
}

double Fit::residual_at(const FitRow& row, const Shift& shift) const {
    return closed_form(row.row, rules_, set_, shift) + row.correction - std::log(row.measured_s);
}

void Fit::evaluate(bool derivatives) {
    run(
        [&](FitRow& row) {
            std::vector<double> values{residual_at(row, shift_)};
            if (!derivatives) return values;
            for (const std::size_t parameter : row.parameters) {
                Shift moved = shift_;
                moved[parameter] += kStep;
                values.push_back((residual_at(row, moved) - values.front()) / kStep);
            }
            return values;
        },
        [&](FitRow& row, const std::vector<double>& values) {
            row.residual = values.front();
            if (derivatives) row.gradient.assign(values.begin() + 1, values.end());
        });
}

Shift Fit::solve(const std::function<bool(const FitRow&)>& takes_part, const std::vector<std::size_t>& only,
                 const Shift& from) const {
    const std::size_t count = shift_.size();
    std::map<std::string, double> rows_of_source;
    for (const FitRow& row : rows_)
        if (takes_part(row)) rows_of_source[row.source] += 1;
    const Shift base = from.empty() ? Shift(count, 0.0) : from;
    std::vector<char> moves(count, only.empty() ? 1 : 0);
    for (const std::size_t parameter : only)
        moves[parameter] = 1;
    Shift current = shift_;
    for (std::size_t parameter = 0; parameter < count; ++parameter)
        if (moves[parameter] == 0) current[parameter] = base[parameter];
    const auto size = static_cast<Eigen::Index>(count);
    for (int iteration = 0; iteration < kReweightings; ++iteration) {
        Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(size, size);
        Eigen::VectorXd right = Eigen::VectorXd::Zero(size);
        for (std::size_t parameter = 0; parameter < count; ++parameter) {
            const auto index = static_cast<Eigen::Index>(parameter);
            double sigma = set_.parameters()[parameter].sigma;
            if (!only.empty()) sigma = std::max(sigma, kUnknownFramework);
            const double pull = moves[parameter] != 0 ? 1 / (sigma * sigma) : 1e12;
            matrix(index, index) += pull;
            right(index) += pull * (base[parameter] - current[parameter]);
        }
        for (const FitRow& row : rows_) {
            if (!takes_part(row)) continue;
            double residual = row.residual;
            for (std::size_t place = 0; place < row.parameters.size(); ++place)
                residual += row.gradient[place] * (current[row.parameters[place]] - shift_[row.parameters[place]]);
            const double robust = 1 / std::sqrt(1 + residual * residual / (kHuberScale * kHuberScale));
            const double strength = weight(rows_of_source.at(row.source)) * robust;
            for (std::size_t place = 0; place < row.parameters.size(); ++place) {
                const auto first = static_cast<Eigen::Index>(row.parameters[place]);
                right(first) -= strength * row.gradient[place] * residual;
                for (std::size_t other = 0; other < row.parameters.size(); ++other)
                    matrix(first, static_cast<Eigen::Index>(row.parameters[other])) +=
                        strength * row.gradient[place] * row.gradient[other];
            }
        }
        const Eigen::VectorXd step = matrix.ldlt().solve(right);
        for (std::size_t parameter = 0; parameter < count; ++parameter)
            current[parameter] += step(static_cast<Eigen::Index>(parameter));
        if (step.cwiseAbs().maxCoeff() < 1e-6) break;
    }
    return current;
}

std::vector<double> Fit::uncertainty() const {
    const auto size = static_cast<Eigen::Index>(shift_.size());
    Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(size, size);
    for (Eigen::Index index = 0; index < size; ++index) {
        const double sigma = set_.parameters()[static_cast<std::size_t>(index)].sigma;
        matrix(index, index) += 1 / (sigma * sigma);
    }
    for (const FitRow& row : rows_)
        for (std::size_t place = 0; place < row.parameters.size(); ++place)
            for (std::size_t other = 0; other < row.parameters.size(); ++other)
                matrix(static_cast<Eigen::Index>(row.parameters[place]),
                       static_cast<Eigen::Index>(row.parameters[other])) +=
                    weight(rows_of_source_.at(row.source)) * row.gradient[place] * row.gradient[other];
    const Eigen::MatrixXd inverse = matrix.inverse();
    std::vector<double> result;
    for (Eigen::Index index = 0; index < size; ++index)
        result.push_back(std::sqrt(inverse(index, index)));
    return result;
}

}  // namespace plansim
