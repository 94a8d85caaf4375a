// SPDX-License-Identifier: Apache-2.0
// Layout of tables; CSV that reads back to what was written.
#include "sim/base/table.hpp"

#include <gtest/gtest.h>

#include "sim/base/error.hpp"

namespace plansim {
namespace {

std::string csv_problem(const std::string& text) {
    try {
        parse_csv(text);
    } catch (const InputError& error) {
        return error.what();
    }
    return "no problem";
}

TEST(Table, PadsTextLeftAndNumbersRight) {
    Table table({"name", ">time", "note"});
    table.add({"forward", "12", "x"});
    table.add({"b", "3", ""});
    EXPECT_EQ(table.str(),
              "name     time  note\n"
              "-------  ----  ----\n"
              "forward    12  x\n"
              "b           3\n");
}

TEST(Table, CountsCharactersRatherThanBytes) {
    Table table({">a", "b"});
    table.add({"5 \u00b5s", "x"});
    table.add({"15 ms", "y"});
    EXPECT_EQ(table.str(), "    a  b\n-----  -\n 5 \u00b5s  x\n15 ms  y\n");
}

TEST(Table, WithoutRowsIsOnlyItsHeader) {
    EXPECT_EQ(Table({"a"}).str(), "a\n-\n");
}

TEST(Table, RefusesARowOfAnotherLength) {
    Table table({"a", "b"});
    EXPECT_THROW(table.add({"1"}), InternalError);
}

TEST(Csv, QuotesOnlyWhatNeedsIt) {
    EXPECT_EQ(csv_line({"a", "b c", "1.5"}), "a,b c,1.5");
    EXPECT_EQ(csv_line({"a,b", "say \"x\"", "two\nlines"}), "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\"");
    EXPECT_EQ(csv_line({"", ""}), ",");
    EXPECT_EQ(csv_line({""}), "\"\"");
}

TEST(Csv, ReadsBackWhatWasWritten) {
    const std::vector<std::vector<std::string>> rows = {
        {"a", "", "c"}, {""}, {"x,y", "\"", "\r\n"}, {" blank ", "\u00e9", "\"\""}};
    std::string text;
    for (const auto& row : rows)
        text += csv_line(row) + "\n";
    EXPECT_EQ(parse_csv(text), rows);
}

TEST(Csv, AcceptsCrLfBlankLinesAndAMissingLastNewline) {
    const std::vector<std::vector<std::string>> rows = {{"a", "b"}, {"1", ""}};
    EXPECT_EQ(parse_csv("a,b\r\n\r\n1,"), rows);
    EXPECT_TRUE(parse_csv("").empty());
}

TEST(Csv, RefusesMisplacedQuotes) {
    EXPECT_EQ(csv_problem("a\n\"b"), "CSV line 2: a quote is never closed");
    EXPECT_EQ(csv_problem("\"a\"b"), "CSV line 1: text after a closing quote");
    EXPECT_EQ(csv_problem("a\"b"), "CSV line 1: a quote within a cell that does not start with one");
}

}  // namespace
}  // namespace plansim
