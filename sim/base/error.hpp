// SPDX-License-Identifier: Apache-2.0
// Every way in which a command ends early, and the exit code that belongs to it.
//   UsageError 2, InputError 3, Infeasible 4, SimulationError 5, a failed PLANSIM_CHECK (our bug) 1.
// Expected outcomes (a plan that does not fit, a search without a result) are values, not exceptions; Infeasible is
// thrown only by the command that has nothing left to show.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace plansim {

enum class ExitCode { ok = 0, bug = 1, usage = 2, input = 3, infeasible = 4, simulation = 5 };

/// Base of all errors that a command reports to its user; what() is the complete text, without a trailing newline.
class Error : public std::runtime_error {
  public:
    Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
    [[nodiscard]] ExitCode code() const { return code_; }

  private:
    ExitCode code_;
};

/// The command line itself is wrong.
class UsageError : public Error {
  public:
    explicit UsageError(const std::string& text) : Error(ExitCode::usage, text) {}
};

/// A document is malformed or contradicts itself or another document. One line per problem found.
class InputError : public Error {
  public:
    explicit InputError(const std::string& text) : Error(ExitCode::input, text) {}
};

/// Nothing fits: the text says which constraint and by how much.
class InfeasibleError : public Error {
  public:
    explicit InfeasibleError(const std::string& text) : Error(ExitCode::infeasible, text) {}
};

/// The replay could not finish (deadlock, unmatched message).
class SimulationError : public Error {
  public:
    explicit SimulationError(const std::string& text) : Error(ExitCode::simulation, text) {}
};

/// A failed PLANSIM_CHECK: our own bug, so it is not an Error that a command would catch and explain.
class InternalError : public std::logic_error {
  public:
    explicit InternalError(const std::string& text) : std::logic_error(text) {}
    [[nodiscard]] static ExitCode code() { return ExitCode::bug; }
};

/// Throws InternalError: "internal error: <condition> (<file>:<line>): <detail>; please report this".
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& detail);

}  // namespace plansim

/// An invariant of our own code; always on, never reachable from input. The detail is evaluated only on failure.
#define PLANSIM_CHECK(condition, detail)                                                     \
    do {                                                                                     \
        if (!(condition)) ::plansim::check_failed(#condition, __FILE__, __LINE__, (detail)); \
    } while (false)
