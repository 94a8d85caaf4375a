// SPDX-License-Identifier: Apache-2.0
// How foreign text is shown in messages. nearest_name, which belongs to the same purpose, is declared in reader.hpp.
#pragma once

#include <string>
#include <string_view>

namespace plansim {

/// The text in single quotes, for a message of one line: cut after 60 bytes (at a character), line breaks and tabs
/// written as \n, \r and \t.
std::string in_quotes(std::string_view text);

}  // namespace plansim
