// SPDX-License-Identifier: Apache-2.0
// Suggestions for misspelled names, and foreign text in messages.
#include "sim/base/names.hpp"

#include <gtest/gtest.h>

#include "sim/base/reader.hpp"

namespace plansim {
namespace {

TEST(NearestName, FindsLikelySlips) {
    const std::vector<std::string> names = {"layers", "heads", "hidden_size", "1f1b", "tp", "sequence_length"};
    EXPECT_EQ(nearest_name("layerz", names), "layers");
    EXPECT_EQ(nearest_name("LAYERS", names), "layers");
    EXPECT_EQ(nearest_name("haeds", names), "heads");
    EXPECT_EQ(nearest_name("hidden-size", names), "hidden_size");
    EXPECT_EQ(nearest_name("ifib", names), "1f1b");
    EXPECT_EQ(nearest_name("sequenc_lenght", names), "sequence_length");
    EXPECT_EQ(nearest_name("tpp", names), "tp");
}

TEST(NearestName, DoesNotGuessWildly) {
    EXPECT_EQ(nearest_name("bandwidth", {"layers", "heads"}), "");
    EXPECT_EQ(nearest_name("x", {"y", "z"}), "");
    EXPECT_EQ(nearest_name("ab", {"cd"}), "");
    EXPECT_EQ(nearest_name("", {"a", ""}), "");
    EXPECT_EQ(nearest_name("a", {}), "");
    EXPECT_EQ(nearest_name(std::string(1'000'000, 'a'), {"a", "layers"}), "");
}

TEST(NearestName, PrefersTheSmallestDistanceThenTheFirst) {
    EXPECT_EQ(nearest_name("heads", {"reads", "heads_"}), "reads");
    EXPECT_EQ(nearest_name("layer", {"lover", "layers"}), "layers");
}

TEST(InQuotes, CutsLongTextsAtACharacter) {
    EXPECT_EQ(in_quotes("abc"), "'abc'");
    EXPECT_EQ(in_quotes("a\n\tb\r"), "'a\\n\\tb\\r'");
    EXPECT_EQ(in_quotes(std::string(60, 'x')), "'" + std::string(60, 'x') + "'");
    EXPECT_EQ(in_quotes(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
    EXPECT_EQ(in_quotes(std::string(59, 'x') + "\u00e9"), "'" + std::string(59, 'x') + "...'");
}

}  // namespace
}  // namespace plansim
