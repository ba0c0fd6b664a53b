// SPDX-License-Identifier: Apache-2.0
// The whole tool: from the command line to the exit status.
#pragma once

#include <string>
#include <vector>

namespace plan {

/// Runs the tool. 0: done; 1: it failed; 2: bad input, said in a sentence on standard error, and no
/// output file is left behind.
int program(const std::vector<std::string>& arguments);

}  // namespace plan
