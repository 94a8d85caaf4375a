// SPDX-License-Identifier: Apache-2.0
// fork and a pipe. The child sends one byte with its exit code, eight bytes with the length, then the text; anything
// shorter means that it died on the way. The child leaves with _exit, so that nothing of the parent runs twice.
#include "sim/replay/isolate.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>

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

struct Child {
    pid_t process = 0;
    int pipe_end = -1;
    std::string message;

    /// Reads what there is, blocking until there is something; false at the end.
    bool read_some() {
        char buffer[65536];
        while (true) {
            const ssize_t count = ::read(pipe_end, buffer, sizeof buffer);
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) return false;
            message.append(buffer, static_cast<std::size_t>(count));
            return true;
        }
    }
};

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

Child start(const std::function<std::string()>& work) {
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
    return {child, ends[0], ""};
}

/// Waits for a child whose pipe has ended; returns its exit status.
int finish(Child& child) {
    ::close(child.pipe_end);
    return wait_for(child.process);
}

/// What the child returned, or throws what it threw.
std::string result_of(const std::string& message, int status) {
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

}  // namespace

std::string run_isolated(const std::function<std::string()>& work) {
    return run_isolated_all({work}, 1).front();
}

std::vector<std::string> run_isolated_all(const std::vector<std::function<std::string()>>& works, int at_once) {
    struct Ended {
        std::string message;
        int status = 0;
    };
    std::vector<Ended> ended(works.size());
    std::map<std::size_t, Child> running;  // by index of the work
    std::size_t next = 0;
    while (next < works.size() || !running.empty()) {
        for (; next < works.size() && running.size() < static_cast<std::size_t>(at_once); ++next)
            running.emplace(next, start(works[next]));
        std::vector<pollfd> waiting;
        for (const auto& [work, child] : running)
            waiting.push_back({child.pipe_end, POLLIN, 0});
        ::poll(waiting.data(), waiting.size(), -1);
        auto place = waiting.begin();
        for (auto child = running.begin(); child != running.end();) {
            const bool ready = (place++)->revents != 0;
            if (!ready || child->second.read_some()) {
                ++child;
                continue;
            }
            const int status = finish(child->second);
            ended[child->first] = {std::move(child->second.message), status};
            child = running.erase(child);
        }
    }
    std::vector<std::string> results;
    for (const Ended& one : ended)
        results.push_back(result_of(one.message, one.status));
    return results;
}

}  // namespace plansim
