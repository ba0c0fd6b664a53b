// SPDX-License-Identifier: Apache-2.0
// Every wait of the programs ends: a GPU that hangs must not hold a machine.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace bench {

using wall = std::chrono::steady_clock;

inline constexpr std::chrono::seconds patience{20};

inline double microseconds(wall::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

/// Ends the program at once: what hangs would keep every destructor waiting.
[[noreturn]] inline void give_up(const char* what) {
  std::fflush(stdout);
  std::fprintf(stderr, "Gave up: %s did not happen within %lld s.\n", what,
               static_cast<long long>(patience.count()));
  std::_Exit(3);
}

/// Polls without pause until `done()`, which sees the result as soon as it is there.
template <class Done>
void await(Done&& done, const char* what) {
  const auto deadline = wall::now() + patience;
  for (unsigned turn = 0; !done(); ++turn) {
    if (turn % 1024 == 1023 && wall::now() > deadline) give_up(what);
  }
}

/// Does nothing for a while without giving up the processor.
inline void spin_until(wall::time_point until) {
  while (wall::now() < until) {
  }
}

}  // namespace bench
