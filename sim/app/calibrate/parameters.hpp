// SPDX-License-Identifier: Apache-2.0
// The parameters that calibration fits: which keys of which documents they stand for, what is assumed of them before
// any fitting, and how sure of it one is. See platforms/measured/parameters.yaml.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace plansim {

struct FitParameter {
    std::string name;
    std::string meaning;
    double start = 1;
    std::string unit;  // of the start, written behind the value; empty: a number
    double most = 0;   // largest value of a key; 0: none
    double sigma = 0;  // standard deviation of the logarithm before fitting
};

/// One value of a document: the product of its parameters and of a fixed factor.
struct FittedKey {
    std::string document;  // relative to platforms/, without ".yaml"
    std::string key;
    double factor = 1;
    std::vector<std::size_t> parameters;
};

/// `shift`: logarithm of value / start, one entry per parameter.
using Shift = std::vector<double>;

class ParameterSet {
  public:
    static ParameterSet load();

    [[nodiscard]] const std::vector<FitParameter>& parameters() const { return parameters_; }
    [[nodiscard]] const std::vector<FittedKey>& keys() const { return keys_; }
    /// The value of a key as its document says it, e.g. "250 us".
    [[nodiscard]] std::string value(const FittedKey& key, const Shift& shift) const;
    /// Overrides of the values of some documents, as --set takes them.
    [[nodiscard]] std::vector<std::string> sets(const std::vector<std::string>& documents, const Shift& shift) const;
    /// Parameters that any of these documents uses.
    [[nodiscard]] std::vector<std::size_t> used_by(const std::vector<std::string>& documents) const;
    /// The shift that the documents of the catalogue have now: least squares over their keys.
    [[nodiscard]] Shift current() const;

  private:
    std::vector<FitParameter> parameters_;
    std::vector<FittedKey> keys_;
};

/// Writes the values into the documents of the catalogue and says in the comment of each line what informs it.
/// Everything else of the documents stays as it is.
void write_values(const ParameterSet& set, const Shift& shift, const std::vector<std::string>& comments);

}  // namespace plansim
