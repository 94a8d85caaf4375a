// SPDX-License-Identifier: Apache-2.0
// Writing a document and reading it back changes nothing: the second text equals the first.
#include "tests/support/random_documents.hpp"

namespace plansim {
namespace {

template <class Read>
auto read_back(const std::string& text, Read&& read) {
    Diagnostics problems;
    auto document = read(Reader::parse(text, "document", {}, problems));
    problems.throw_if_any();
    return document;
}

TEST(RoundTrip, ATransformerIsWrittenAsItWasRead) {
    check_property("transformer", 200, [] {
        const std::string text = to_yaml(random_transformer());
        RC_ASSERT(to_yaml(read_back(text, [](Reader reader) { return read_workload(reader); })) == text);
    });
}

TEST(RoundTrip, AnExplicitGraphIsWrittenAsItWasRead) {
    check_property("graph", 200, [] {
        const std::string text = to_yaml(random_graph());
        RC_ASSERT(to_yaml(read_back(text, [](Reader reader) { return read_workload(reader); })) == text);
    });
}

TEST(RoundTrip, ANumberKeepsAllItsDigits) {
    check_property("digits", 200, [] {
        const Workload workload = random_graph();
        const Workload back = read_back(to_yaml(workload), [](Reader reader) { return read_workload(reader); });
        for (std::size_t node = 0; node < workload.graph->nodes.size(); ++node) {
            RC_ASSERT(back.graph->nodes[node].forward_flops == workload.graph->nodes[node].forward_flops);
            RC_ASSERT(back.graph->nodes[node].reads == workload.graph->nodes[node].reads);
        }
    });
}

TEST(RoundTrip, ASoftwareProfileIsWrittenAsItWasRead) {
    check_property("software", 200, [] {
        const std::string text = to_yaml(random_software());
        RC_ASSERT(to_yaml(read_back(text, [](Reader reader) { return read_software(reader); })) == text);
    });
}

TEST(RoundTrip, APlatformIsWrittenAsItWasRead) {
    check_property("platform", 200, [] {
        Platform platform = random_platform(static_cast<int>(pick(1, 8)), static_cast<int>(pick(1, 8)));
        if (flip()) {
            platform.fabric.kind = FabricKind::spine_leaf;
            platform.fabric.nodes_per_leaf = static_cast<int>(pick(1, 8));
            platform.fabric.oversubscription = pick_real(1, 4);
        }
        const std::string text = to_yaml(platform);
        RC_ASSERT(to_yaml(read_back(text, [](Reader reader) { return read_platform(reader, 0); })) == text);
    });
}

TEST(RoundTrip, APlanIsWrittenAsItWasRead) {
    check_property("plan", 200, [] {
        const Case drawn = random_case();
        const Scenario& scenario = drawn.scenario;
        const Plan plan = plan_of(scenario, drawn.plan);
        const std::string text = to_yaml(plan, scenario.workload);
        const Plan back = read_back(text, [&](Reader reader) {
            return read_plan(reader, scenario.workload, scenario.platform, scenario.software);
        });
        RC_ASSERT(back == plan);
        RC_ASSERT(to_yaml(back, scenario.workload) == text);
    });
}

}  // namespace
}  // namespace plansim
