// SPDX-License-Identifier: Apache-2.0
// What reaches stderr at each verbosity, and the progress line.
#include "sim/base/log.hpp"

#include <gtest/gtest.h>

namespace plansim {
namespace {

std::string log_everything(Verbosity verbosity) {
    set_verbosity(verbosity);
    testing::internal::CaptureStderr();
    log_info("info {}");
    log_warning("careful");
    log_error("broken");
    set_verbosity(Verbosity::normal);
    return testing::internal::GetCapturedStderr();
}

TEST(Log, VerbosityDecidesWhatIsShown) {
    EXPECT_EQ(log_everything(Verbosity::quiet), "error: broken\n");
    EXPECT_EQ(log_everything(Verbosity::normal), "warning: careful\nerror: broken\n");
    EXPECT_EQ(log_everything(Verbosity::verbose), "info {}\nwarning: careful\nerror: broken\n");
}

TEST(Progress, ShowsBarCountAndTimeLeft) {
    EXPECT_EQ(progress_text("simulating", 0, 32, 0), "simulating  [..........]  0/32");
    EXPECT_EQ(progress_text("simulating", 16, 32, 3), "simulating  [#####.....]  16/32  ETA 3 s");
    EXPECT_EQ(progress_text("x", 1, 10, 60), "x  [#.........]  1/10  ETA 9 min");
    EXPECT_EQ(progress_text("x", 1, 10, 3600), "x  [#.........]  1/10  ETA 9.0 h");
    EXPECT_EQ(progress_text("x", 10, 10, 5), "x  [##########]  10/10");
    EXPECT_EQ(progress_text("x", 0, 0, 0), "x  [##########]  0/0");
}

TEST(Progress, IsSilentWhereThereIsNoTerminal) {
    testing::internal::CaptureStderr();
    {
        Progress progress("x", 2);
        progress.advance();
        progress.advance();
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace plansim
