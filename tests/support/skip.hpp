// SPDX-License-Identifier: Apache-2.0
// Skipping a test case from inside, with a reason that the summary shows.
#pragma once

#include <string>

namespace cede_test {

/// Counts the running test case as skipped (unless a check in it has failed) and prints why.
void note_skip(const std::string& reason);

/// Why no case of this program can run on this machine; empty if they can.
std::string missing();

}  // namespace cede_test

/// Ends the running test case as skipped. Use in the body of a TEST_CASE.
#define CEDE_SKIP_CASE(reason)      \
  do {                              \
    ::cede_test::note_skip(reason); \
    return;                         \
  } while (false)
