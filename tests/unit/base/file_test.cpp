// SPDX-License-Identifier: Apache-2.0
// Files appear complete or not at all, and every failure says which file and why.
#include "sim/base/file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

#include "sim/base/error.hpp"

namespace plansim {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "plansim-file-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::size_t entries() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
    }

    fs::path folder_;
};

template <class Action>
std::string problem(const Action& action) {
    try {
        action();
    } catch (const InputError& error) {
        return error.what();
    }
    return "no problem";
}

TEST_F(File, ReadsBackWhatWasWritten) {
    const fs::path path = folder_ / "a.bin";
    const std::string content("a\0b\r\n\xff", 6);
    write_file(path, content);
    EXPECT_EQ(read_file(path), content);
    write_file(path, [](std::ostream& stream) { stream << "second"; });
    EXPECT_EQ(read_file(path), "second");
    EXPECT_EQ(entries(), 1U);
}

TEST_F(File, AnExceptionLeavesTheOldFileAndNoTrace) {
    const fs::path path = folder_ / "a.txt";
    write_file(path, "old");
    const auto produce = [](std::ostream& stream) {
        stream << "half";
        throw std::runtime_error("stop");
    };
    EXPECT_THROW(write_file(path, produce), std::runtime_error);
    EXPECT_THROW(write_file(folder_ / "new.txt", produce), std::runtime_error);
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(entries(), 1U);
}

TEST_F(File, AFailedStreamLeavesTheOldFileAndNoTrace) {
    const fs::path path = folder_ / "a.txt";
    write_file(path, "old");
    const auto produce = [](std::ostream& stream) { stream.setstate(std::ios::badbit); };
    EXPECT_EQ(problem([&] { write_file(path, produce); }), "cannot write " + path.string() + ": input/output error");
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(entries(), 1U);
}

TEST_F(File, SaysWhyItCannotWrite) {
    const std::string missing = (folder_ / "no" / "a.txt").string();
    EXPECT_EQ(problem([&] { write_file(missing, "x"); }),
              "cannot write " + missing + ": no such folder: " + (folder_ / "no").string());
    EXPECT_EQ(problem([&] { write_file(folder_, "x"); }), "cannot write " + folder_.string() + ": is a directory");
    if (fs::exists("/dev/full")) {
        EXPECT_EQ(problem([] { write_file("/dev/full", "x"); }), "cannot write /dev/full: No space left on device");
    }
}

TEST_F(File, SaysWhyItCannotRead) {
    const std::string missing = (folder_ / "no.txt").string();
    EXPECT_EQ(problem([&] { read_file(missing); }), "cannot read " + missing + ": no such file");
    EXPECT_EQ(problem([&] { read_file(folder_); }), "cannot read " + folder_.string() + ": is a directory");
    const fs::path path = folder_ / "a.txt";
    write_file(path, "12345");
    EXPECT_EQ(problem([&] { read_file(path, 4); }), "cannot read " + path.string() + ": longer than 4 bytes");
    EXPECT_EQ(read_file(path, 5), "12345");
    if (geteuid() != 0) {  // root reads everything
        fs::permissions(path, fs::perms::none);
        EXPECT_EQ(problem([&] { read_file(path); }), "cannot read " + path.string() + ": Permission denied");
        EXPECT_EQ(problem([&] { write_file(path, "x"); }), "cannot write " + path.string() + ": Permission denied");
    }
}

TEST_F(File, FollowsALinkAndKeepsPermissions) {
    const fs::path path = folder_ / "a.txt";
    const fs::path link = folder_ / "link";
    write_file(path, "old");
    fs::permissions(path, fs::perms::owner_all);
    fs::create_symlink("a.txt", link);
    write_file(link, "new");
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(read_file(path), "new");
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
}

TEST_F(File, WritesToDevicesDirectly) {
    write_file("/dev/null", "x");
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace plansim
