// SPDX-License-Identifier: Apache-2.0
// Atomic replacement of files by rename(2). Safe against errors, exceptions and a killed process; not against a power
// failure, since nothing is forced to the disk.
#include "sim/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "sim/base/error.hpp"

namespace plansim {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const char* action, const fs::path& path, const std::string& reason) {
    throw InputError(fmt::format("cannot {} {}: {}", action, path.string(), reason));
}

/// The reason of the last failed call; streams do not always leave one.
std::string reason_of(int error) {
    return error == 0 ? "input/output error" : std::generic_category().message(error);
}

/// A new, empty file beside its target, removed again unless it took the target's place.
class TemporaryFile {
  public:
    explicit TemporaryFile(const fs::path& target) : target_(target) {
        static std::atomic<unsigned> count{0};
        for (int attempt = 0; attempt < 100; ++attempt) {
            path_ = target.parent_path() / fmt::format(".plansim-{}-{}.tmp", getpid(), count++);
            const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            if (file >= 0) {
                ::close(file);
                return;
            }
            if (errno != EEXIST) break;
        }
        fail("write", target, reason_of(errno));
    }
    ~TemporaryFile() {
        if (!kept_) ::unlink(path_.c_str());
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    [[nodiscard]] const fs::path& path() const { return path_; }

    void replace_target() {
        std::error_code ignored;
        const fs::file_status old = fs::status(target_, ignored);
        if (fs::exists(old)) fs::permissions(path_, old.permissions(), ignored);
        if (::rename(path_.c_str(), target_.c_str()) != 0) fail("write", target_, reason_of(errno));
        kept_ = true;
    }

  private:
    fs::path target_;
    fs::path path_;
    bool kept_ = false;
};

void write_stream(const fs::path& file, const fs::path& shown, const std::function<void(std::ostream&)>& produce) {
    errno = 0;
    std::ofstream stream(file, std::ios::binary | std::ios::trunc);
    if (!stream) fail("write", shown, reason_of(errno));
    errno = 0;
    produce(stream);
    stream.close();
    if (!stream) fail("write", shown, reason_of(errno));
}

}  // namespace

void write_file(const fs::path& path, const std::function<void(std::ostream&)>& produce) {
    std::error_code ignored;
    const fs::file_status status = fs::status(path, ignored);
    if (fs::is_directory(status)) fail("write", path, "is a directory");
    if (fs::exists(status) && !fs::is_regular_file(status)) return write_stream(path, path, produce);
    // Renaming needs no right to write the old file, but whoever took that right away meant it.
    if (fs::exists(status) && ::access(path.c_str(), W_OK) != 0) fail("write", path, reason_of(errno));

    fs::path target = path;
    if (fs::exists(status) && fs::is_symlink(fs::symlink_status(path, ignored))) target = fs::canonical(path, ignored);
    const fs::path folder = target.parent_path();
    if (!folder.empty() && !fs::is_directory(folder, ignored))
        fail("write", path, fmt::format("no such folder: {}", folder.string()));
    TemporaryFile temporary(target);
    write_stream(temporary.path(), path, produce);
    temporary.replace_target();
}

void write_file(const fs::path& path, std::string_view content) {
    write_file(path, [content](std::ostream& stream) {
        stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    });
}

std::string read_file(const fs::path& path, std::size_t most_bytes) {
    std::error_code ignored;
    const fs::file_status status = fs::status(path, ignored);
    if (fs::is_directory(status)) fail("read", path, "is a directory");
    if (status.type() == fs::file_type::not_found) fail("read", path, "no such file");
    errno = 0;
    std::ifstream stream(path, std::ios::binary);
    if (!stream) fail("read", path, reason_of(errno));
    std::string content;
    char block[1 << 16];
    while (stream.read(block, sizeof block), stream.gcount() > 0) {
        content.append(block, static_cast<std::size_t>(stream.gcount()));
        // Checked while reading: the size of a pipe or a device is not known before.
        if (content.size() > most_bytes) fail("read", path, fmt::format("longer than {} bytes", most_bytes));
    }
    if (stream.bad()) fail("read", path, reason_of(errno));
    return content;
}

}  // namespace plansim
