// SPDX-License-Identifier: Apache-2.0
#include "sim/app/calibrate/parameters.hpp"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "sim/app/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace plansim {
namespace {

namespace fs = std::filesystem;

fs::path document_path(const std::string& document) {
    return find_document("parameters", DocumentKind::rules).parent_path().parent_path() / (document + ".yaml");
}

/// "accelerators/h200:efficiency.stream*1.3"
FittedKey parse_key(const std::string& text, Reader& entry) {
    const auto colon = text.find(':');
    if (colon == std::string::npos) entry.fail("keys", fmt::format("'{}' is not DOCUMENT:KEY", text));
    FittedKey key;
    key.document = text.substr(0, colon);
    key.key = text.substr(std::min(text.size(), colon + 1));
    if (const auto star = key.key.find('*'); star != std::string::npos) {
        key.factor = std::stod(key.key.substr(star + 1));
        key.key.resize(star);
    }
    return key;
}

/// A document as lines, with the line of a key found by indentation.
class DocumentText {
  public:
    explicit DocumentText(const std::string& document) : path_(document_path(document)) {
        std::stringstream text(read_file(path_));
        for (std::string line; std::getline(text, line);)
            lines_.push_back(line);
    }

    /// Index of the line "leaf: ..." of "outer.inner.leaf"; InputError if it is not there.
    [[nodiscard]] std::size_t find(const std::string& key) const {
        std::stringstream parts(key);
        std::size_t line = 0;
        std::size_t indent = 0;
        std::string part;
        while (std::getline(parts, part, '.')) {
            const std::string start = std::string(indent, ' ') + part + ":";
            while (line < lines_.size() && !lines_[line].starts_with(start)) {
                const bool left =
                    indent > 0 && !lines_[line].empty() && !lines_[line].starts_with(std::string(indent, ' '));
                if (left) line = lines_.size() - 1;
                ++line;
            }
            if (line >= lines_.size()) throw InputError(fmt::format("{}: key {} is not there", path_.string(), key));
            indent += 2;
            if (!parts.eof()) ++line;
        }
        return line;
    }

    [[nodiscard]] double number(const std::string& key) const {
        const std::string& line = lines_[find(key)];
        return std::stod(line.substr(line.find(':') + 1));
    }

    void set(const std::string& key, const std::string& value, const std::string& comment) {
        std::string& line = lines_[find(key)];
        line = fmt::format("{}: {}  # {}", line.substr(0, line.find(':')), value, comment);
    }

    void write() const {
        std::string text;
        for (const std::string& line : lines_)
            text += line + "\n";
        write_file(path_, text);
    }

  private:
    fs::path path_;
    std::vector<std::string> lines_;
};

}  // namespace

ParameterSet ParameterSet::load() {
    ParameterSet result;
    Diagnostics problems;
    Reader document = Reader::open(find_document("parameters", DocumentKind::rules), {}, problems);
    document.integer("format", Range{1, 1});
    std::map<std::pair<std::string, std::string>, std::size_t> places;
    for (Reader& entry : document.maps("parameters")) {
        const std::size_t index = result.parameters_.size();
        FitParameter parameter;
        parameter.name = entry.text("name");
        parameter.meaning = entry.text("meaning");
        parameter.start = entry.number("start", Range::positive());
        parameter.unit = entry.text("unit", "");
        parameter.most = entry.number_or("most", 0, Range::not_negative());
        parameter.sigma = entry.number("sigma", Range{0, 10, true});
        for (const std::string& text : entry.texts("keys")) {
            FittedKey key = parse_key(text, entry);
            const auto [place, added] = places.try_emplace({key.document, key.key}, result.keys_.size());
            if (added) result.keys_.push_back(key);
            FittedKey& stored = result.keys_[place->second];
            if (!added) stored.factor *= key.factor;
            stored.parameters.push_back(index);
        }
        entry.finish();
        result.parameters_.push_back(std::move(parameter));
    }
    document.finish();
    problems.throw_if_any();
    return result;
}

std::string ParameterSet::value(const FittedKey& key, const Shift& shift) const {
    double value = key.factor;
    std::string unit;
    for (const std::size_t index : key.parameters)
        value *= parameters_[index].start * std::exp(shift[index]);
    for (const std::size_t index : key.parameters) {
        if (parameters_[index].most > 0) value = std::min(value, parameters_[index].most);
        if (!parameters_[index].unit.empty()) unit = " " + parameters_[index].unit;
    }
    return fmt::format("{:.4g}{}", value, unit);
}

std::vector<std::string> ParameterSet::sets(const std::vector<std::string>& documents, const Shift& shift) const {
    std::vector<std::string> result;
    for (const FittedKey& key : keys_) {
        if (std::find(documents.begin(), documents.end(), key.document) == documents.end()) continue;
        const std::string prefix = key.document.starts_with("software/")       ? "software."
                                   : key.document.starts_with("accelerators/") ? "platform.accelerator."
                                                                               : "platform.";
        result.push_back(fmt::format("{}{}={}", prefix, key.key, value(key, shift)));
    }
    return result;
}

std::vector<std::size_t> ParameterSet::used_by(const std::vector<std::string>& documents) const {
    std::set<std::size_t> result;
    for (const FittedKey& key : keys_)
        if (std::find(documents.begin(), documents.end(), key.document) != documents.end())
            result.insert(key.parameters.begin(), key.parameters.end());
    return {result.begin(), result.end()};
}

Shift ParameterSet::current() const {
    const auto count = static_cast<Eigen::Index>(parameters_.size());
    Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(count, count);
    Eigen::VectorXd right = Eigen::VectorXd::Zero(count);
    // The documents say the products; a weak pull to the starts decides how they are shared among the parameters.
    constexpr double kPull = 1e-4;
    for (Eigen::Index index = 0; index < count; ++index) {
        const double sigma = parameters_[static_cast<std::size_t>(index)].sigma;
        matrix(index, index) += kPull / (sigma * sigma);
    }
    std::map<std::string, DocumentText> documents;
    for (const FittedKey& key : keys_) {
        const DocumentText& text = documents.try_emplace(key.document, key.document).first->second;
        double start = key.factor;
        for (const std::size_t index : key.parameters)
            start *= parameters_[index].start;
        const double wanted = std::log(text.number(key.key) / start);
        for (const std::size_t row : key.parameters) {
            right(static_cast<Eigen::Index>(row)) += wanted;
            for (const std::size_t column : key.parameters)
                matrix(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)) += 1;
        }
    }
    const Eigen::VectorXd solved = matrix.ldlt().solve(right);
    return {solved.data(), solved.data() + solved.size()};
}

void write_values(const ParameterSet& set, const Shift& shift, const std::vector<std::string>& comments) {
    std::map<std::string, DocumentText> documents;
    for (const FittedKey& key : set.keys()) {
        std::string comment;
        for (const std::size_t index : key.parameters)
            comment += (comment.empty() ? "" : " x ") + comments[index];
        documents.try_emplace(key.document, key.document).first->second.set(key.key, set.value(key, shift), comment);
    }
    for (const auto& [name, text] : documents)
        text.write();
}

}  // namespace plansim
