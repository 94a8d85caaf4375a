// SPDX-License-Identifier: Apache-2.0
// plansim plan --nest: contract of the JSON, malformed cases, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_command.hpp"

namespace plansim::test {
namespace {

using ::testing::EndsWith;

const std::string kCases = std::string(PLANSIM_TEST_DATA) + "/data/nest/";

/// Runs a published case with one piece of its text replaced and expects these messages behind the file's name.
void expect_malformed(std::string_view what, std::string_view by, const std::string& message) {
    const TemporaryFolder folder;
    const std::string text = replaced(read_all(kCases + "tpuv4_fatTree_mbs1_llama2.json"), what, by);
    const CommandResult result = run_plansim({"plan", "--nest", folder.write("case.json", text)});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, folder.file("case.json") + message + "\n");
}

TEST(Nest, MalformedCasesAreReportedAtTheirPlace) {
    expect_malformed("\"maxDevices\": 64", "\"maxDevices\": 100",
                     ":1:232: error: devices_per_level: levels of 8 x 4 x 2 hold 64 devices, maxDevices is 100");
    expect_malformed("\"ep_degree\": 1, ", "", ":1:1: error: ep_degree: missing key");
    expect_malformed("\"sourceId\": -1, \"destId\": 0", "\"sourceId\": 99, \"destId\": 0",
                     ":1:6703: error: edges.1[0].sourceId: there is no node 99 of width 1");
    expect_malformed("\"sourceId\": -1, \"destId\": 0", "\"sourceId\": 5, \"destId\": 0",
                     ":1:6696: error: edges.1: the edges form a cycle");
    expect_malformed("{\"id\": 0", "{\"id\": 1", ":1:711: error: nodes.1[2].id: a second node 1");
}

TEST(Nest, DevicesMustFillTheLevels) {
    const CommandResult result =
        run_plansim({"plan", "--nest", kCases + "tpuv4_fatTree_mbs1_llama2.json", "--devices", "100"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.err, "--devices: error: 100 devices do not fill levels of 8 x 4 x 2\n");
}

TEST(Nest, WhatFitsNowhereIsInfeasible) {
    const TemporaryFolder folder;
    const std::string text = replaced(read_all(kCases + "tpuv4_fatTree_mbs1_llama2.json"),
                                      "\"maxMemoryPerDevice\": 68719476736", "\"maxMemoryPerDevice\": 1000");
    const CommandResult result = run_plansim({"plan", "--nest", folder.write("case.json", text)});
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_EQ(
        result.err,
        "error: case: nothing fits into 1000 bytes on 64 devices: width 1: one node alone takes 10408288300 bytes\n");
}

}  // namespace
}  // namespace plansim::test
