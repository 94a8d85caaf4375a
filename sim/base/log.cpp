// SPDX-License-Identifier: Apache-2.0
// Messages through spdlog, without timestamps, so that two runs print the same. Messages and the progress line share
// stderr: a message first wipes the line, which is drawn again by the next step.
#include "sim/base/log.hpp"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

namespace plansim {

namespace {

constexpr double kRedrawInterval_s = 0.1;
constexpr std::size_t kBarWidth = 10;

std::atomic<Verbosity> verbosity_now{Verbosity::normal};
std::atomic<bool> line_on_screen{false};

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void clear_line() {
    if (line_on_screen.exchange(false)) std::fputs("\r\033[K", stderr);
}

spdlog::logger& logger() {
    // Not in spdlog's registry: programs that use this library keep their own loggers and levels.
    static const auto instance = [] {
        auto result = std::make_shared<spdlog::logger>("plansim", std::make_shared<spdlog::sinks::stderr_sink_mt>());
        result->set_pattern("%v");
        result->set_level(spdlog::level::info);
        result->flush_on(spdlog::level::info);
        return result;
    }();
    return *instance;
}

/// "3 s", "4 min", "2.5 h": the time left needs no more precision.
std::string rough_time(double time_s) {
    if (time_s < 120) return fmt::format("{:.0f} s", std::ceil(time_s));
    if (time_s < 7200) return fmt::format("{:.0f} min", time_s / 60);
    return fmt::format("{:.1f} h", time_s / 3600);
}

}  // namespace

void set_verbosity(Verbosity verbosity) {
    verbosity_now = verbosity;
}

void log_info(const std::string& text) {
    if (verbosity_now != Verbosity::verbose) return;
    clear_line();
    logger().info("{}", text);
}

void log_warning(const std::string& text) {
    if (verbosity_now == Verbosity::quiet) return;
    clear_line();
    logger().warn("warning: {}", text);
}

void log_error(const std::string& text) {
    clear_line();
    logger().error("error: {}", text);
}

std::string progress_text(std::string_view label, std::size_t done, std::size_t total, double elapsed_s) {
    const std::size_t filled = total == 0 ? kBarWidth : std::min(done, total) * kBarWidth / total;
    std::string line = fmt::format("{}  [{}{}]  {}/{}", label, std::string(filled, '#'),
                                   std::string(kBarWidth - filled, '.'), done, total);
    if (done > 0 && done < total)
        line += "  ETA " + rough_time(elapsed_s / static_cast<double>(done) * static_cast<double>(total - done));
    return line;
}

Progress::Progress(std::string label, std::size_t total)
    : label_(std::move(label)),
      total_(total),
      start_s_(now_s()),
      drawn_s_(start_s_),
      shown_(verbosity_now != Verbosity::quiet && isatty(STDERR_FILENO) == 1) {
    if (shown_) draw(start_s_);
}

Progress::~Progress() {
    if (shown_) clear_line();
}

void Progress::advance(std::size_t done) {
    done_ += done;
    if (!shown_) return;
    const double now = now_s();
    if (now - drawn_s_ >= kRedrawInterval_s || done_ >= total_) draw(now);
}

void Progress::draw(double now) {
    drawn_s_ = now;
    std::fputs(("\r" + progress_text(label_, done_, total_, now - start_s_) + "\033[K").c_str(), stderr);
    line_on_screen = true;
}

}  // namespace plansim
