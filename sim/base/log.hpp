// SPDX-License-Identifier: Apache-2.0
// Messages for people, on stderr; results never go here. Progress is one line that rewrites itself on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plansim {

enum class Verbosity { quiet, normal, verbose };

void set_verbosity(Verbosity verbosity);
void log_info(const std::string& text);     // -v only
void log_warning(const std::string& text);  // "warning: ..." unless -q
void log_error(const std::string& text);    // always

/// The text of a progress line: label, bar, count and, once anything is done, the time left at the pace so far.
std::string progress_text(std::string_view label, std::size_t done, std::size_t total, double elapsed_s);

/// "simulating  [#####.....]  12/32  ETA 3 s" on stderr if it is a terminal and not -q; silent otherwise.
class Progress {
  public:
    Progress(std::string label, std::size_t total);
    ~Progress();  // clears the line
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void advance(std::size_t done = 1);

  private:
    void draw(double now);
    std::string label_;
    std::size_t total_;
    std::size_t done_ = 0;
    double start_s_;
    double drawn_s_;
    bool shown_;
};

}  // namespace plansim
