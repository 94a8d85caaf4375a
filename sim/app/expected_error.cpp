// SPDX-License-Identifier: Apache-2.0
#include "sim/app/expected_error.hpp"

#include <algorithm>

#include "sim/app/scenario.hpp"

namespace plansim {

ExpectedError expected_error(const Scenario& scenario) {
    Diagnostics problems;
    Reader document = Reader::open(find_document("expected-error", DocumentKind::rules), {}, problems);
    document.integer("format", Range{1, 1});
    const auto read = [](Reader entry) {
        ExpectedError error;
        error.mean_pct = entry.number("mean_pct", Range::not_negative());
        error.p90_pct = entry.number("p90_pct", Range::not_negative());
        entry.finish();
        return error;
    };
    ExpectedError result = read(document.map("unknown_framework"));
    const auto accelerators = document.texts("accelerators");
    Reader profiles = document.map("software");
    for (const std::string& name : profiles.keys()) {
        ExpectedError known = read(profiles.map(name));
        known.compared = true;
        const bool same_accelerator = std::find(accelerators.begin(), accelerators.end(),
                                                scenario.platform.accelerator.name) != accelerators.end();
        if (name == scenario.software.name && same_accelerator) result = known;
    }
    document.finish();
    problems.throw_if_any();
    return result;
}

}  // namespace plansim
