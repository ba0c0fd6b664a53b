// SPDX-License-Identifier: Apache-2.0
// The program, from its arguments to its exit status.
#pragma once

#include <string>
#include <vector>

namespace colocate {

/// Runs the main job. Results go to stdout and to the files asked for, everything else to stderr.
/// Returns 0 if all was verified, 1 if not or if the run failed, 2 for bad input: then with one
/// sentence on stderr and no file written.
int program(const std::vector<std::string>& arguments);

}  // namespace colocate
