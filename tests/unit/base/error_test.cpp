// SPDX-License-Identifier: Apache-2.0
// Exit codes and the text of a broken invariant.
#include "sim/base/error.hpp"

#include <gtest/gtest.h>

namespace plansim {
namespace {

TEST(Error, CarriesItsTextAndExitCode) {
    EXPECT_EQ(UsageError("u").code(), ExitCode::usage);
    EXPECT_EQ(InputError("i").code(), ExitCode::input);
    EXPECT_EQ(InfeasibleError("f").code(), ExitCode::infeasible);
    EXPECT_EQ(SimulationError("s").code(), ExitCode::simulation);
    EXPECT_EQ(InternalError("b").code(), ExitCode::bug);
    EXPECT_STREQ(InputError("what is wrong").what(), "what is wrong");
}

TEST(Error, AFailedCheckNamesConditionPlaceAndDetail) {
    try {
        check_failed("a == b", "sim/x.cpp", 7, "a is 1");
        FAIL();
    } catch (const InternalError& error) {
        EXPECT_STREQ(error.what(), "internal error: a == b (sim/x.cpp:7): a is 1; please report this");
    }
}

TEST(Error, TheDetailOfACheckIsOnlyEvaluatedOnFailure) {
    int evaluations = 0;
    const auto detail = [&] {
        ++evaluations;
        return std::string("detail");
    };
    PLANSIM_CHECK(evaluations == 0, detail());
    EXPECT_EQ(evaluations, 0);
    EXPECT_THROW(PLANSIM_CHECK(evaluations == 1, detail()), InternalError);
    EXPECT_EQ(evaluations, 1);
}

}  // namespace
}  // namespace plansim
