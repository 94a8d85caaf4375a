// SPDX-License-Identifier: Apache-2.0
// fork and a pipe. The child sends one byte with its exit code, eight bytes with the length, then the text; anything
// shorter means that it died on the way. The child leaves with _exit, so that nothing of the parent runs twice.
#include "sim/replay/isolate.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>

#include "sim/base/error.hpp"

namespace plansim {
namespace {

constexpr std::size_t kHeaderBytes = 1 + sizeof(std::uint64_t);

bool write_all(int pipe_end, const char* data, std::size_t size) {
    while (size > 0) {
        const ssize_t written = ::write(pipe_end, data, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        data += written;
        size -= static_cast<std::size_t>(written);
    }
    return true;
}

std::string read_all(int pipe_end) {
    std::string text;
    char buffer[65536];
    while (true) {
        const ssize_t count = ::read(pipe_end, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return text;
        text.append(buffer, static_cast<std::size_t>(count));
    }
}

[[noreturn]] void run_child(const std::function<std::string()>& work, int pipe_end) {
    ExitCode code = ExitCode::ok;
    std::string text;
    try {
        text = work();
    } catch (const Error& error) {
        code = error.code();
        text = error.what();
    } catch (const std::exception& error) {
        code = ExitCode::bug;
        text = error.what();
    } catch (...) {
        code = ExitCode::bug;
        text = "unknown exception";
    }
    std::string message(kHeaderBytes, '\0');
    message[0] = static_cast<char>(code);
    const std::uint64_t size = text.size();
    std::memcpy(message.data() + 1, &size, sizeof size);
    message += text;
    const bool sent = write_all(pipe_end, message.data(), message.size());
    std::fflush(nullptr);
    ::_exit(sent ? 0 : 1);
}

[[noreturn]] void rethrow(ExitCode code, const std::string& text) {
    switch (code) {
        case ExitCode::usage:
            throw UsageError(text);
        case ExitCode::input:
            throw InputError(text);
        case ExitCode::infeasible:
            throw InfeasibleError(text);
        case ExitCode::simulation:
            throw SimulationError(text);
        default:
            throw Error(code, text);
    }
}

int wait_for(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

}  // namespace

std::string run_isolated(const std::function<std::string()>& work) {
    int ends[2];
    if (::pipe(ends) != 0) throw SimulationError(std::string("cannot open a pipe: ") + std::strerror(errno));
    std::fflush(nullptr);  // or the child would write the parent's pending output again
    const pid_t child = ::fork();
    if (child < 0) {
        const int reason = errno;
        ::close(ends[0]);
        ::close(ends[1]);
        throw SimulationError(std::string("cannot start a process: ") + std::strerror(reason));
    }
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a replay does not outlive the command that asked for it
        ::close(ends[0]);
        run_child(work, ends[1]);
    }
    ::close(ends[1]);
    const std::string message = read_all(ends[0]);
    ::close(ends[0]);
    const int status = wait_for(child);
    if (WIFSIGNALED(status)) {
        const int number = WTERMSIG(status);
        throw SimulationError("simulation ended by signal " + std::to_string(number) + " (" + ::strsignal(number) +
                              ")");
    }
    std::uint64_t size = 0;
    if (message.size() >= kHeaderBytes) std::memcpy(&size, message.data() + 1, sizeof size);
    if (message.size() < kHeaderBytes || message.size() - kHeaderBytes != size)
        throw SimulationError("simulation ended early with exit code " + std::to_string(WEXITSTATUS(status)));
    const auto code = static_cast<ExitCode>(message[0]);
    if (code != ExitCode::ok) rethrow(code, message.substr(kHeaderBytes));
    return message.substr(kHeaderBytes);
}

}  // namespace plansim
