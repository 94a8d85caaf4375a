// SPDX-License-Identifier: Apache-2.0
// Fit of parameters to published training runs: robust least squares on log(predicted / measured), each parameter
// pulled to its start by how sure of that one is.
//
// Predictions are replays. Their derivatives are those of the closed form, which follows the replay within a few
// percent and is a hundred times faster: log(predicted) = log(closed form at the shift) + log(replay / closed form) at
// the last replay. Gauss-Newton with iteratively reweighted residuals (pseudo-Huber, 8 %).
#pragma once

#include <functional>

#include "sim/app/calibrate/parameters.hpp"
#include "sim/app/validate/measured_run.hpp"

namespace plansim {

/// One row with a prediction.
struct FitRow {
    MeasuredRow row;
    std::string source;  // table that it comes from: the id up to the last '-'
    std::string family;  // framework
    std::vector<std::size_t> parameters;
    double measured_s = 0;
    double correction = 0;         // log(replay / closed form)
    double residual = 0;           // log(predicted / measured) at the current shift
    std::vector<double> gradient;  // of the residual, one entry per parameter of `parameters`
};

class Fit {
  public:
    /// Rows that cannot be predicted are left out.
    Fit(ParameterSet set, const MeasuredTable& table, int jobs);

    [[nodiscard]] const ParameterSet& set() const { return set_; }
    [[nodiscard]] const std::vector<FitRow>& rows() const { return rows_; }
    [[nodiscard]] const Shift& shift() const { return shift_; }
    void move_to(Shift shift) { shift_ = std::move(shift); }

    /// Replays every row at the current shift and takes its closed form's distance from it.
    void replay();
    /// Residuals at the current shift; with derivatives if asked for.
    void evaluate(bool derivatives);
    /// The shift that a linearised fit of the rows that `takes_part` reaches. `only`: parameters that may move; empty:
    /// all. `from`: the shift that unmoved parameters keep and that moved ones are pulled to; by default the starts.
    [[nodiscard]] Shift solve(const std::function<bool(const FitRow&)>& takes_part,
                              const std::vector<std::size_t>& only = {}, const Shift& from = {}) const;
    /// Residual of a row at another shift, by the closed form and the row's correction.
    [[nodiscard]] double residual_at(const FitRow& row, const Shift& shift) const;
    /// Remaining uncertainty of every parameter (standard deviation of the logarithm), from the curvature of the fit.
    [[nodiscard]] std::vector<double> uncertainty() const;

  private:
    void run(const std::function<std::vector<double>(FitRow&)>& work,
             const std::function<void(FitRow&, const std::vector<double>&)>& store);
    [[nodiscard]] double weight(const FitRow& row) const;

    ParameterSet set_;
    MeasurementRules rules_;
    std::vector<FitRow> rows_;
    std::map<std::string, double> rows_of_source_;
    Shift shift_;
    int jobs_;
};

}  // namespace plansim
