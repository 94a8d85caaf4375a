// SPDX-License-Identifier: Apache-2.0
// Strict reading of documents: values, positions, overrides, and the exact text of every problem.
#include "sim/base/reader.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <functional>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace plansim {
namespace {

namespace fs = std::filesystem;

enum class Pipeline { gpipe, one_f_one_b, interleaved };
constexpr std::array<std::pair<std::string_view, Pipeline>, 3> kPipelines = {
    {{"gpipe", Pipeline::gpipe}, {"1f1b", Pipeline::one_f_one_b}, {"interleaved", Pipeline::interleaved}}};

/// All problems of reading `text` as x.yaml, one per line; "" if there are none.
std::string problems_of(const std::string& text, const std::function<void(Reader)>& read,
                        const std::vector<Override>& overrides = {}) {
    Diagnostics problems;
    try {
        read(Reader::parse(text, "x.yaml", overrides, problems));
        problems.throw_if_any();
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

/// The problem of a document that cannot even be opened.
std::string document_problem(const std::string& text) {
    return problems_of(text, [](const Reader&) { ADD_FAILURE() << "opened"; });
}

std::string integer_problem(const std::string& text, Range range = {}) {
    return problems_of(text, [range](Reader reader) { EXPECT_EQ(reader.integer("layers", range), 0); });
}

// ---- values --------------------------------------------------------------------------------------------------------

TEST(Reader, ReadsEveryKindOfValue) {
    const std::string text =
        "name: llama 70b\n"
        "quoted: '5'\n"
        "layers: 80\n"
        "dropout: 0.1\n"
        "causal: on\n"
        "tied: false\n"
        "bandwidth: 400 Gbps\n"
        "memory: \"80 GiB\"\n"
        "schedule: 1f1b\n"
        "sizes: [1, 2, 3]\n"
        "labels:\n  - a\n  - b c\n"
        "node: {count: 8}\n"
        "links:\n  - {width: 1}\n  - {width: 2}\n";
    EXPECT_EQ(problems_of(text,
                          [](Reader reader) {
                              EXPECT_EQ(reader.text("name"), "llama 70b");
                              EXPECT_EQ(reader.text("quoted"), "5");
                              EXPECT_EQ(reader.integer("layers", Range::positive()), 80);
                              EXPECT_EQ(reader.number("dropout", Range::share()), 0.1);
                              EXPECT_TRUE(reader.flag("causal"));
                              EXPECT_FALSE(reader.flag("tied"));
                              EXPECT_EQ(reader.quantity<BytesPerSecond>("bandwidth"), BytesPerSecond(50e9));
                              EXPECT_EQ(reader.quantity<Bytes>("memory"), kGiB * 80);
                              EXPECT_EQ(reader.one_of<Pipeline>("schedule", kPipelines), Pipeline::one_f_one_b);
                              EXPECT_EQ(reader.integers("sizes"), (std::vector<std::int64_t>{1, 2, 3}));
                              EXPECT_EQ(reader.texts("labels"), (std::vector<std::string>{"a", "b c"}));
                              Reader node = reader.map("node");
                              EXPECT_EQ(node.integer("count"), 8);
                              EXPECT_EQ(node.path(), "node");
                              node.finish();
                              std::vector<Reader> links = reader.maps("links");
                              ASSERT_EQ(links.size(), 2U);
                              EXPECT_EQ(links[1].integer("width"), 2);
                              EXPECT_EQ(links[1].path(), "links[1]");
                              EXPECT_EQ(links[0].integer("width"), 1);
                              links[0].finish();
                              reader.finish();
                          }),
              "");
}

TEST(Reader, OptionalValuesFallBack) {
    EXPECT_EQ(problems_of("a: 1\n",
                          [](Reader reader) {
                              EXPECT_EQ(reader.integer_or("a", 7), 1);
                              EXPECT_EQ(reader.integer_or("b", 7), 7);
                              EXPECT_EQ(reader.number_or("c", 0.5), 0.5);
                              EXPECT_TRUE(reader.flag_or("d", true));
                              EXPECT_EQ(reader.text("e", "none"), "none");
                              EXPECT_EQ(reader.quantity_or<Watts>("f", Watts(5)), Watts(5));
                              EXPECT_EQ(reader.one_of_or<Pipeline>("g", kPipelines, Pipeline::interleaved),
                                        Pipeline::interleaved);
                              reader.finish();
                          }),
              "");
}

TEST(Reader, AnOptionalValueThatIsWrongIsAProblemToo) {
    EXPECT_EQ(problems_of("a: x\nb:\nc: y\n",
                          [](Reader reader) {
                              EXPECT_EQ(reader.integer_or("a", 7), 7);
                              EXPECT_EQ(reader.number_or("b", 0.5), 0.5);
                              EXPECT_EQ(reader.one_of_or<Pipeline>("c", kPipelines, Pipeline::interleaved),
                                        Pipeline::interleaved);
                          }),
              "x.yaml:1:1: error: a: expected an integer, found 'x'\n"
              "x.yaml:2:1: error: b: missing value\n"
              "x.yaml:3:1: error: c: unknown value 'y' (one of gpipe, 1f1b, interleaved)");
}

TEST(Reader, TellsWhatIsPresent) {
    EXPECT_EQ(problems_of("a: {x: 1}\nb: [1]\nc: ~\nd: 1\n",
                          [](Reader reader) {
                              EXPECT_TRUE(reader.has("c"));
                              EXPECT_FALSE(reader.has("z"));
                              EXPECT_TRUE(reader.is_map("a"));
                              EXPECT_FALSE(reader.is_map("b"));
                              EXPECT_FALSE(reader.is_map("z"));
                              EXPECT_TRUE(reader.is_list("b"));
                              EXPECT_FALSE(reader.is_list("d"));
                              EXPECT_EQ(reader.keys(), (std::vector<std::string>{"a", "b", "c", "d"}));
                              reader.finish();
                          }),
              "");
}

TEST(Reader, LookingDoesNotCountAsAsking) {
    EXPECT_EQ(problems_of("a: {x: 1}\n",
                          [](Reader reader) {
                              EXPECT_TRUE(reader.has("a"));
                              EXPECT_TRUE(reader.is_map("a"));
                              reader.finish();
                          }),
              "x.yaml:1:1: error: a: unknown key; did you mean 'a'?");
}

TEST(Reader, CopiesShareWhatWasAskedFor) {
    EXPECT_EQ(problems_of("a: 1\nb: 2\n",
                          [](Reader reader) {
                              Reader copy = reader;
                              copy.integer("a");
                              reader.integer("b");
                              copy.finish();
                          }),
              "");
}

// ---- messages ------------------------------------------------------------------------------------------------------

TEST(Reader, ReportsAMissingUnitWithAHint) {
    const std::string text =
        "# two links\nlinks:\n  - bandwidth: 1 GB/s\n  - bandwidth: 1 GB/s\n  -\n        bandwidth: 400\n";
    EXPECT_EQ(problems_of(text,
                          [](Reader reader) {
                              for (Reader link : reader.maps("links"))
                                  link.quantity<BytesPerSecond>("bandwidth");
                          }),
              "x.yaml:6:9: error: links[2].bandwidth: missing unit in '400'; did you mean '400 Gbps'?");
}

TEST(Reader, ReportsAnUnknownKeyWithTheNearestKnownOne) {
    EXPECT_EQ(problems_of("heads: 1\n\nlayerz: 2\nxyzzy: 3\nnode: {countt: 1}\n",
                          [](Reader reader) {
                              reader.integer("heads");
                              reader.integer_or("layers", 1);
                              Reader node = reader.map("node");
                              node.integer_or("count", 1);
                              node.finish();
                              reader.finish();
                          }),
              "x.yaml:5:8: error: node.countt: unknown key; did you mean 'count'?\n"
              "x.yaml:3:1: error: layerz: unknown key; did you mean 'layers'?\n"
              "x.yaml:4:1: error: xyzzy: unknown key");
}

TEST(Reader, ReportsAMissingKeyAtItsMap) {
    EXPECT_EQ(integer_problem("heads: 1\n"), "x.yaml:1:1: error: layers: missing key");
    EXPECT_EQ(problems_of("a: 1\nnode:\n  b: 2\nlist: [{c: 1}]\n",
                          [](Reader reader) {
                              reader.map("node").text("name");
                              reader.maps("list")[0].flag("fast");
                          }),
              "x.yaml:2:1: error: node.name: missing key\n"
              "x.yaml:4:8: error: list[0].fast: missing key");
}

TEST(Reader, ReportsAMissingValue) {
    EXPECT_EQ(integer_problem("layers:\n"), "x.yaml:1:1: error: layers: missing value");
    EXPECT_EQ(integer_problem("layers: null\n"), "x.yaml:1:1: error: layers: missing value");
    EXPECT_EQ(problems_of("a: [1, ~]\nb: [x, ~]\nc: [~]\nd: ~\n",
                          [](Reader reader) {
                              reader.integers("a");
                              reader.texts("b");
                              reader.maps("c");
                              reader.map("d");
                          }),
              "x.yaml:1:8: error: a[1]: missing value\n"
              "x.yaml:2:8: error: b[1]: missing value\n"
              "x.yaml:3:5: error: c[0]: missing value\n"
              "x.yaml:4:1: error: d: missing value");
}

TEST(Reader, ReportsAWrongInteger) {
    EXPECT_EQ(integer_problem("layers: many\n"), "x.yaml:1:1: error: layers: expected an integer, found 'many'");
    EXPECT_EQ(integer_problem("layers: [1]\n"), "x.yaml:1:1: error: layers: expected an integer, found a list");
    EXPECT_EQ(integer_problem("layers: {a: 1}\n"), "x.yaml:1:1: error: layers: expected an integer, found a map");
    EXPECT_EQ(integer_problem("layers: '5'\n"), "x.yaml:1:1: error: layers: expected an integer, found the text '5'");
    EXPECT_EQ(integer_problem("layers: 010\n"), "x.yaml:1:1: error: layers: leading zero in '010'; did you mean '10'?");
    EXPECT_EQ(integer_problem("layers: 0x10\n"), "x.yaml:1:1: error: layers: expected an integer, found '0x10'");
    EXPECT_EQ(integer_problem("layers: 1.5\n"), "x.yaml:1:1: error: layers: expected an integer, found '1.5'");
    EXPECT_EQ(integer_problem("layers: 1e3\n"),
              "x.yaml:1:1: error: layers: expected an integer, found '1e3'; did you mean '1000'?");
    EXPECT_EQ(integer_problem("layers: 99999999999999999999\n"),
              "x.yaml:1:1: error: layers: '99999999999999999999' is out of range for an integer");
    EXPECT_EQ(integer_problem("layers: |\n  5\n  6\n"),
              "x.yaml:1:1: error: layers: expected an integer, found the text '5\\n6\\n'");
}

TEST(Reader, ReportsAWrongNumber) {
    const auto problem = [](const std::string& text) {
        return problems_of(text, [](Reader reader) { EXPECT_EQ(reader.number("x"), 0); });
    };
    EXPECT_EQ(problem("x: nan\n"), "x.yaml:1:1: error: x: 'nan' is not a number");
    EXPECT_EQ(problem("x: .nan\n"), "x.yaml:1:1: error: x: '.nan' is not a number");
    EXPECT_EQ(problem("x: -.inf\n"), "x.yaml:1:1: error: x: '-.inf' is not a number");
    EXPECT_EQ(problem("x: \"5\"\n"), "x.yaml:1:1: error: x: expected a number, found the text '5'");
    EXPECT_EQ(problem("x: 5 W\n"), "x.yaml:1:1: error: x: expected a number, found '5 W'");
    EXPECT_EQ(problem("x: []\n"), "x.yaml:1:1: error: x: expected a number, found a list");
    EXPECT_EQ(problem("x: 1e999\n"), "x.yaml:1:1: error: x: '1e999' is out of range");
}

TEST(Reader, ReportsAWrongQuantity) {
    const auto problem = [](const std::string& text) {
        return problems_of(text, [](Reader reader) { EXPECT_EQ(reader.quantity<Watts>("x"), Watts(0)); });
    };
    EXPECT_EQ(problem("x: [700 W]\n"), "x.yaml:1:1: error: x: expected a number with a unit, found a list");
    EXPECT_EQ(problem("x: '700'\n"), "x.yaml:1:1: error: x: missing unit in '700'; did you mean '700 W'?");
    EXPECT_EQ(problem("x: .inf\n"), "x.yaml:1:1: error: x: '.inf' is not a number; write it like '700 W'");
    EXPECT_EQ(problem("x: 0 W\n"), "x.yaml:1:1: error: x: must be above 0, found 0 W");
}

TEST(Reader, ReportsAWrongFlag) {
    const auto problem = [](const std::string& text) {
        return problems_of(text, [](Reader reader) { EXPECT_FALSE(reader.flag("x")); });
    };
    EXPECT_EQ(problem("x: yes\n"), "x.yaml:1:1: error: x: expected true, false, on or off, found 'yes'");
    EXPECT_EQ(problem("x: True\n"), "x.yaml:1:1: error: x: expected true, false, on or off, found 'True'");
    EXPECT_EQ(problem("x: 1\n"), "x.yaml:1:1: error: x: expected true, false, on or off, found '1'");
    EXPECT_EQ(problem("x: 'on'\n"), "x.yaml:1:1: error: x: expected true, false, on or off, found the text 'on'");
    EXPECT_EQ(problem("x: {}\n"), "x.yaml:1:1: error: x: expected true, false, on or off, found a map");
}

TEST(Reader, ReportsAWrongChoice) {
    const auto problem = [](const std::string& text) {
        return problems_of(
            text, [](Reader reader) { EXPECT_EQ(reader.one_of<Pipeline>("schedule", kPipelines), Pipeline::gpipe); });
    };
    EXPECT_EQ(problem("schedule: ifib\n"),
              "x.yaml:1:1: error: schedule: unknown value 'ifib'; did you mean '1f1b'? "
              "(one of gpipe, 1f1b, interleaved)");
    EXPECT_EQ(problem("schedule: zigzag\n"),
              "x.yaml:1:1: error: schedule: unknown value 'zigzag' (one of gpipe, 1f1b, interleaved)");
    EXPECT_EQ(problem("schedule: [1f1b]\n"), "x.yaml:1:1: error: schedule: expected a text, found a list");
}

TEST(Reader, ReportsAWrongListOrMap) {
    EXPECT_EQ(problems_of("a: 5\nb: {x: 1}\nc: 7\nd: [1, x, [2]]\ne: [[1]]\nf: [{g: 1}, h]\ni: [1]\n",
                          [](Reader reader) {
                              EXPECT_TRUE(reader.integers("a").empty());
                              EXPECT_TRUE(reader.texts("b").empty());
                              EXPECT_TRUE(reader.maps("c").empty());
                              EXPECT_EQ(reader.integers("d"), (std::vector<std::int64_t>{1}));
                              EXPECT_TRUE(reader.texts("e").empty());
                              EXPECT_EQ(reader.maps("f").size(), 2U);
                              reader.map("i");
                              EXPECT_TRUE(reader.integers("z").empty());
                          }),
              "x.yaml:1:1: error: a: expected a list of integers, found '5'\n"
              "x.yaml:2:1: error: b: expected a list of texts, found a map\n"
              "x.yaml:3:1: error: c: expected a list of maps, found '7'\n"
              "x.yaml:4:8: error: d[1]: expected an integer, found 'x'\n"
              "x.yaml:4:11: error: d[2]: expected an integer, found a list\n"
              "x.yaml:5:5: error: e[0]: expected a text, found a list\n"
              "x.yaml:6:13: error: f[1]: expected a map, found 'h'\n"
              "x.yaml:7:1: error: i: expected a map, found a list\n"
              "x.yaml:1:1: error: z: missing key");
}

TEST(Reader, ReportsAValueOutOfItsRange) {
    EXPECT_EQ(integer_problem("layers: -3\n", Range::positive()),
              "x.yaml:1:1: error: layers: must be above 0, found -3");
    EXPECT_EQ(integer_problem("layers: -3\n", Range::not_negative()),
              "x.yaml:1:1: error: layers: must be at least 0, found -3");
    EXPECT_EQ(integer_problem("layers: 3\n", Range::at_least(4)),
              "x.yaml:1:1: error: layers: must be at least 4, found 3");
    EXPECT_EQ(integer_problem("layers: 2\n", Range::share()),
              "x.yaml:1:1: error: layers: must be between 0 and 1, found 2");
    EXPECT_EQ(integer_problem("layers: 2\n", Range::fraction()),
              "x.yaml:1:1: error: layers: must be above 0 and at most 1, found 2");
    EXPECT_EQ(integer_problem("layers: 9\n", Range{.most = 8}),
              "x.yaml:1:1: error: layers: must be at most 8, found 9");
    EXPECT_EQ(problems_of("t: 5 us\nm: 1 KiB\nv: [0, 1]\n",
                          [](Reader reader) {
                              reader.quantity<Seconds>("t", Range::at_least(1));
                              reader.quantity<Bytes>("m", Range::at_least(1048576));
                              reader.integers("v", Range::positive());
                          }),
              "x.yaml:1:1: error: t: must be at least 1 s, found 5 us\n"
              "x.yaml:2:1: error: m: must be at least 1 MiB, found 1 KiB\n"
              "x.yaml:3:5: error: v[0]: must be above 0, found 0");
}

TEST(Reader, OneWrongMapDoesNotCauseOtherProblems) {
    EXPECT_EQ(problems_of("node: 5\n",
                          [](Reader reader) {
                              for (const std::string_view key : {"node", "fabric"}) {
                                  Reader child = reader.map(key);
                                  EXPECT_EQ(child.path(), key);
                                  EXPECT_FALSE(child.has("x"));
                                  EXPECT_TRUE(child.keys().empty());
                                  EXPECT_EQ(child.text("a"), "");
                                  EXPECT_EQ(child.integer("b"), 0);
                                  EXPECT_EQ(child.quantity<Bytes>("c"), Bytes(0));
                                  EXPECT_EQ(child.one_of<Pipeline>("d", kPipelines), Pipeline::gpipe);
                                  EXPECT_TRUE(child.integers("e").empty());
                                  EXPECT_TRUE(child.maps("f").empty());
                                  EXPECT_EQ(child.map("g").integer("h"), 0);
                                  child.fail("b", "is no good");
                                  child.finish();
                              }
                          }),
              "x.yaml:1:1: error: node: expected a map, found '5'\n"
              "x.yaml:1:1: error: fabric: missing key");
}

TEST(Reader, ReportsContradictionsAtTheirKey) {
    EXPECT_EQ(problems_of("a: 1\nnode:\n  b: 2\n  c: x\n",
                          [](Reader reader) {
                              Reader node = reader.map("node");
                              node.fail("b", "more than a", "did you mean '1'?");
                              node.fail("", "contradicts itself");
                              node.fail("absent", "belongs here");
                              reader.fail("", "all wrong");
                              node.integer("c");
                              node.fail("c", "an echo of the failed reading");
                              EXPECT_EQ(node.where("b"), "x.yaml:3:3");
                              EXPECT_EQ(node.where(), "x.yaml:2:1");
                              EXPECT_EQ(reader.where(), "x.yaml:1:1");
                          }),
              "x.yaml:3:3: error: node.b: more than a; did you mean '1'?\n"
              "x.yaml:2:1: error: node: contradicts itself\n"
              "x.yaml:2:1: error: node.absent: belongs here\n"
              "x.yaml:1:1: error: all wrong\n"
              "x.yaml:4:3: error: node.c: expected an integer, found 'x'");
}

TEST(Diagnostics, ListsTwentyProblemsAndCountsTheRest) {
    Diagnostics problems;
    EXPECT_TRUE(problems.empty());
    EXPECT_NO_THROW(problems.throw_if_any());
    std::string expected;
    for (int line = 1; line <= 22; ++line) {
        problems.add("f:" + std::to_string(line), "", "bad");
        if (line <= 20) expected += "f:" + std::to_string(line) + ": error: bad\n";
        if (line == 21) {
            try {
                problems.throw_if_any();
                FAIL();
            } catch (const InputError& error) {
                EXPECT_EQ(error.what(), expected + "and 1 more error");
            }
        }
    }
    try {
        problems.throw_if_any();
        FAIL();
    } catch (const InputError& error) {
        EXPECT_EQ(error.what(), expected + "and 2 more errors");
    }
}

TEST(Diagnostics, GathersOverSeveralDocuments) {
    Diagnostics problems;
    Reader::parse("a: x\n", "first.yaml", {}, problems).integer("a");
    try {
        Reader::parse("a: [\n", "second.yaml", {}, problems);
        FAIL();
    } catch (const InputError& error) {
        EXPECT_STREQ(error.what(),
                     "first.yaml:1:1: error: a: expected an integer, found 'x'\n"
                     "second.yaml:2:1: error: not valid YAML: end of sequence flow not found");
    }
}

// ---- documents that cannot be opened -------------------------------------------------------------------------------

TEST(Reader, RefusesDuplicateKeysAnywhere) {
    EXPECT_EQ(document_problem("a: 1\nm: [{x: 1, x: 2}]\nb:\n  c: 1\n  d: 2\n  c: 3\na: 4\n"),
              "x.yaml:2:12: error: m[0].x: duplicate key; first given at line 2\n"
              "x.yaml:6:3: error: b.c: duplicate key; first given at line 4\n"
              "x.yaml:7:1: error: a: duplicate key; first given at line 1");
}

TEST(Reader, RefusesYamlFeaturesWithHiddenMeaning) {
    EXPECT_EQ(document_problem("a: &x 1\nb: *x\nc: !!int 5\nd: {e: !foo [1]}\n"),
              "x.yaml:1:4: error: a: anchors (&name) are not supported\n"
              "x.yaml:2:4: error: b: aliases (*name) are not supported\n"
              "x.yaml:3:4: error: c: tags are not supported\n"
              "x.yaml:4:8: error: d.e: tags are not supported");
    EXPECT_EQ(document_problem("[a]: 1\n"), "x.yaml:1:1: error: a key must be a plain text");
    EXPECT_EQ(document_problem("a: {~: 1}\n"), "x.yaml:1:5: error: a: a key must be a plain text");
    EXPECT_EQ(document_problem("a: 1\n---\nb: 2\n"), "x.yaml: error: more than one YAML document");
}

TEST(Reader, RefusesWhatIsNoMap) {
    EXPECT_EQ(document_problem(""), "x.yaml: error: the document is empty");
    EXPECT_EQ(document_problem("# only a comment\n"), "x.yaml: error: the document is empty");
    EXPECT_EQ(document_problem("- 1\n"), "x.yaml:1:1: error: expected a map, found a list");
    EXPECT_EQ(document_problem("hello\n"), "x.yaml:1:1: error: expected a map, found 'hello'");
}

TEST(Reader, RefusesInvalidYaml) {
    EXPECT_EQ(document_problem("a: b: c\n"), "x.yaml:1:5: error: not valid YAML: illegal map value");
    EXPECT_EQ(document_problem("a:\n\tb: 1\n"), "x.yaml:2:3: error: not valid YAML: illegal map value");
    EXPECT_EQ(document_problem("a: \"unterminated"), "x.yaml:1:17: error: not valid YAML: illegal EOF in scalar");
    EXPECT_EQ(document_problem("a: [1, 2"), "x.yaml:1:1: error: not valid YAML: end of sequence flow not found");
    EXPECT_EQ(document_problem("a: \""), "x.yaml:1:4: error: a: not valid YAML: the quote is never closed");
    EXPECT_EQ(document_problem("\xef\xbb\xbf"
                               "\u00e9: 1\r\nb: '\n"),
              "x.yaml:2:4: error: b: not valid YAML: the quote is never closed");
    EXPECT_EQ(document_problem("a: 1\n]\n"), "x.yaml:2:1: error: not valid YAML: illegal flow end");
    EXPECT_EQ(document_problem("a: *b\n"), "x.yaml:1:4: error: not valid YAML: the referenced anchor is not defined");
}

TEST(Reader, RefusesWhatIsNoText) {
    EXPECT_EQ(document_problem(std::string("a: \0b\n", 6)),
              "x.yaml:1:4: error: not a text file: the control character 0x00");
    EXPECT_EQ(document_problem("a: 1\nb: \x1b[31m\n"),
              "x.yaml:2:4: error: not a text file: the control character 0x1B");
    EXPECT_EQ(document_problem("\x7f\x45LF\x02"), "x.yaml:1:1: error: not a text file: the control character 0x7F");
    EXPECT_EQ(document_problem("a: \xff\xfe\n"), "x.yaml:1:4: error: not a text file: invalid UTF-8 at byte 0xFF");
    EXPECT_EQ(document_problem("a: \xc0\x80\n"), "x.yaml:1:4: error: not a text file: invalid UTF-8 at byte 0xC0");
    EXPECT_EQ(document_problem("a: \xed\xa0\x80\n"), "x.yaml:1:4: error: not a text file: invalid UTF-8 at byte 0xED");
    EXPECT_EQ(document_problem("a: \xe2\x82"), "x.yaml:1:4: error: not a text file: invalid UTF-8 at byte 0xE2");
    EXPECT_EQ(document_problem("a: \"\\e[31m\"\n"), "x.yaml:1:4: error: a: a text with control characters");
}

TEST(Reader, RefusesAbsurdNestingWithoutCrashing) {
    const auto nested = [](const std::string& opener, int times) {
        std::string text = "a: ";
        for (int level = 0; level < times; ++level)
            text += opener;
        return document_problem(text);
    };
    EXPECT_EQ(nested("[", 1'000'000), "x.yaml:1:204: error: nested more than 64 levels deep");
    EXPECT_EQ(nested("[ {", 100'000), "x.yaml:1:304: error: nested more than 64 levels deep");
    EXPECT_EQ(nested("[x,", 100'000), "x.yaml:1:100: error: nested more than 64 levels deep");
}

TEST(Reader, AcceptsSixtyFourLevels) {
    EXPECT_EQ(problems_of("a: " + std::string(63, '[') + std::string(63, ']') + "\n", [](const Reader&) {}), "");
    EXPECT_EQ(document_problem("a: " + std::string(64, '[') + std::string(64, ']') + "\n"),
              "x.yaml:1:67: error: nested more than 64 levels deep");
}

TEST(Reader, ReadsCrLfUnicodeAndAByteOrderMark) {
    EXPECT_EQ(problems_of("\xef\xbb\xbf"
                          "a: 1\r\nb: \u00e9\u4e16\U0001f600\r\nc: x\r\n",
                          [](Reader reader) {
                              EXPECT_EQ(reader.integer("a"), 1);
                              EXPECT_EQ(reader.text("b"), "\u00e9\u4e16\U0001f600");
                              reader.integer("c");
                          }),
              "x.yaml:3:1: error: c: expected an integer, found 'x'");
}

TEST(Reader, AcceptsAnEmptyTextAtTheEnd) {
    EXPECT_EQ(problems_of("a: ''\nb: \"\"", [](Reader reader) { EXPECT_EQ(reader.text("b"), ""); }), "");
}

TEST(Reader, ATruncatedDocumentLacksKeysOrIsInvalid) {
    const std::string text = "layers: 80\nnode:\n  count: 8\n  link: {bandwidth: 400 Gbps}\nname: \"x\"\n";
    const auto read = [](Reader reader) {
        reader.integer("layers");
        Reader node = reader.map("node");
        node.integer("count");
        Reader link = node.map("link");
        link.quantity<BytesPerSecond>("bandwidth");
        link.finish();
        node.finish();
        reader.text("name");
        reader.finish();
    };
    EXPECT_EQ(problems_of(text, read), "");
    for (std::size_t length = 0; length + 1 < text.size(); ++length)
        EXPECT_NE(problems_of(text.substr(0, length), read), "") << length;
}

TEST(Reader, SaysWhyAFileCannotBeOpened) {
    std::string folder = (fs::temp_directory_path() / "plansim-reader-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const auto problem = [](const std::string& path) -> std::string {
        Diagnostics problems;
        try {
            Reader::open(path, {}, problems);
        } catch (const InputError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(problem(folder), "cannot read " + folder + ": is a directory");
    EXPECT_EQ(problem(folder + "/no.yaml"), "cannot read " + folder + "/no.yaml: no such file");
    const std::string path = folder + "/a.yaml";
    write_file(path, "a: [\n");
    EXPECT_EQ(problem(path), path + ":2:1: error: not valid YAML: end of sequence flow not found");
    write_file(path, "a: 1\n");
    EXPECT_EQ(problem(path), "");
    write_file(path, "a: " + std::string(std::size_t{17} << 20U, 'x'));
    EXPECT_EQ(problem(path), "cannot read " + path + ": longer than 16777216 bytes");
    fs::remove_all(folder);
}

// ---- overrides -----------------------------------------------------------------------------------------------------

TEST(Override, ReplacesAndAddsValues) {
    EXPECT_EQ(problems_of("a: 1\nlinks: [{bandwidth: 1 GB/s}, {bandwidth: 2 GB/s}]\nempty:\n",
                          [](Reader reader) {
                              EXPECT_EQ(reader.integer("a"), 5);
                              std::vector<Reader> links = reader.maps("links");
                              EXPECT_EQ(links[1].quantity<BytesPerSecond>("bandwidth"), BytesPerSecond(100e9));
                              EXPECT_EQ(reader.map("new").map("deep").text("name"), "x, y");
                              EXPECT_EQ(reader.integers("list"), (std::vector<std::int64_t>{1, 9}));
                              EXPECT_EQ(reader.map("map").integer("k"), 3);
                              EXPECT_EQ(reader.map("empty").integer("x"), 4);
                              reader.finish();
                          },
                          {{"a", "4"},
                           {"a", "5"},
                           {"links[1].bandwidth", "800 Gbps"},
                           {"new.deep.name", "x, y"},
                           {"list", "[1, 2]"},
                           {"list[1]", "9"},
                           {"map", "{k: 3}"},
                           {"empty.x", "4"}}),
              "");
}

TEST(Override, IsReportedAsTheOptionThatGaveIt) {
    EXPECT_EQ(problems_of("a: 1\nnode: {count: 1}\n",
                          [](Reader reader) {
                              reader.integer("a");
                              reader.map("node").integer("count");
                              Reader fabric = reader.map("fabric");
                              fabric.integer("width");
                              fabric.finish();
                              EXPECT_EQ(fabric.where("kind"), "--set fabric");
                              reader.finish();
                          },
                          {{"a", "x"},
                           {"node.count", "y", "platform.node.count"},
                           {"fabric", "{kind: ring}"},
                           {"typo", "1"},
                           {"b", ""}}),
              "--set a: error: a: expected an integer, found 'x'\n"
              "--set platform.node.count: error: node.count: expected an integer, found 'y'\n"
              "--set fabric: error: fabric.width: missing key\n"
              "--set fabric: error: fabric.kind: unknown key\n"
              "--set typo: error: typo: unknown key\n"
              "--set b: error: b: unknown key");
}

TEST(Override, ThatDoesNotFitIsAProblem) {
    EXPECT_EQ(problems_of("a: 1\nlinks: [{b: 1}]\nm: {k: 1}\n", [](const Reader&) {},
                          {{"a.b", "1"},
                           {"links[1].b", "1"},
                           {"links.b", "1"},
                           {"m[0]", "1"},
                           {"new[0]", "1"},
                           {"", "1"},
                           {"a..b", "1"},
                           {".a", "1"},
                           {"a.", "1"},
                           {"a[x]", "1"},
                           {"a[1", "1"},
                           {"[0]", "1"},
                           {"a[0]b", "1"},
                           {"links[99999999999999999999]", "1"},
                           {"a[-1]", "1"}}),
              "--set a.b: error: a: expected a map with the key 'b', found '1'\n"
              "--set links[1].b: error: links[1]: index out of range; the list has 1 element\n"
              "--set links.b: error: links: expected a map with the key 'b', found a list\n"
              "--set m[0]: error: m: expected a list, found a map\n"
              "--set new[0]: error: new: expected a list, found nothing\n"
              "--set : error: '' is not a key path such as 'links[2].bandwidth'\n"
              "--set a..b: error: 'a..b' is not a key path such as 'links[2].bandwidth'\n"
              "--set .a: error: '.a' is not a key path such as 'links[2].bandwidth'\n"
              "--set a.: error: 'a.' is not a key path such as 'links[2].bandwidth'\n"
              "--set a[x]: error: 'a[x]' is not a key path such as 'links[2].bandwidth'\n"
              "--set a[1: error: 'a[1' is not a key path such as 'links[2].bandwidth'\n"
              "--set [0]: error: '[0]' is not a key path such as 'links[2].bandwidth'\n"
              "--set a[0]b: error: 'a[0]b' is not a key path such as 'links[2].bandwidth'\n"
              "--set links[99999999999999999999]: error: 'links[99999999999999999999]' is not a key path such as "
              "'links[2].bandwidth'\n"
              "--set a[-1]: error: 'a[-1]' is not a key path such as 'links[2].bandwidth'");
}

TEST(Override, OfWhichTheValueIsNoYamlIsAProblem) {
    EXPECT_EQ(
        problems_of("a: 1\n", [](const Reader&) {},
                    {{"a", "[1"}, {"a", "{x: 1, x: 2}"}, {"b", "&n 1"}, {"c", std::string("\0", 1)}, {"d", "\xff"}}),
        "--set a: error: a: not valid YAML: end of sequence flow not found\n"
        "--set a: error: a.x: duplicate key\n"
        "--set b: error: b: anchors (&name) are not supported\n"
        "--set c: error: c: not a text file: the control character 0x00\n"
        "--set d: error: d: not a text file: invalid UTF-8 at byte 0xFF");
}

TEST(Override, WithAnEndlessPathIsRefused) {
    std::string key = "a";
    for (int level = 0; level < 100'000; ++level)
        key += ".a";
    const std::string problem = problems_of("b: 1\n", [](const Reader&) {}, {{key, "1", "a.a..."}});
    EXPECT_TRUE(problem.starts_with("--set a.a...: error: 'a.a.a.")) << problem.substr(0, 100);
    EXPECT_TRUE(problem.ends_with("...' is not a key path such as 'links[2].bandwidth'"));
}

}  // namespace
}  // namespace plansim
