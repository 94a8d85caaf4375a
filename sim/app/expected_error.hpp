// SPDX-License-Identifier: Apache-2.0
// How far a prediction is expected to lie from the truth: what validation taught about the software profile, or, for a
// profile or an accelerator that was never compared with a run, what predictions of left-out frameworks taught.
#pragma once

#include "sim/cost/cost_model.hpp"

namespace plansim {

/// Absolute errors in percent.
struct ExpectedError {
    double mean_pct = 0;
    double p90_pct = 0;
    bool compared = false;  // the profile and the accelerator were compared with measured runs
};

/// Reads platforms/measured/expected-error.yaml, which `plansim calibrate --write` writes.
ExpectedError expected_error(const Scenario& scenario);

}  // namespace plansim
