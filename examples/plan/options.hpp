// SPDX-License-Identifier: Apache-2.0
// The command line of the tool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plan {

enum class model_kind : std::uint8_t { ols, ridge };

struct options {
  bool help = false;
  std::vector<std::string> features;
  std::string target;
  std::string train;
  std::string test;  ///< empty = none
  model_kind model = model_kind::ols;
  double penalty = 1;  ///< of ridge
  std::string json;    ///< empty = none
};

/// Reads the arguments (without the program's name), the first of which is the command. Throws
/// `input_error` for anything unknown, missing or out of range. Files are not touched here.
options parse(const std::vector<std::string>& arguments);

/// What `--help` prints.
std::string help_text();

}  // namespace plan
