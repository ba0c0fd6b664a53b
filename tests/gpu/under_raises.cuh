// SPDX-License-Identifier: Apache-2.0
// Kernels as they are, under random raises: what port_test.cu and rtc_test.cu ask of them.
#pragma once

#include <support/gpu.hpp>

#include <chrono>
#include <cstddef>
#include <vector>

namespace test {

template <class T>
std::vector<T> random_values(std::size_t n) {
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<T>(mix(static_cast<unsigned>(i)) >> 8U);
  return v;
}

/// Launches a body over and over under random raises; its output must be what `expected` says each
/// time. `clear` empties the output.
template <class Body, class T>
void under_raises(const cede::shape& shape, const Body& body, cede::form how, buffer<T>& out,
                  const std::vector<T>& expected) {
  raw_stream s;
  CAPTURE(how == cede::form::gated ? "gated" : "persistent");
  int made = 0;
  int yields = 0;
  unsigned seed = 17;
  // The chunk is small, so that the gated form meets its edges often.
  cede::preemptible job{shape, body, {.form = how, .chunk = 700}};
  REQUIRE(job.how() == how);
  const auto until = std::chrono::steady_clock::now() + 2 * patience();
  while (made < raises(2000)) {
    REQUIRE_MESSAGE(std::chrono::steady_clock::now() < until, "too few raises in the time given");
    out.clear();
    random_raiser raiser([&] { job.yield(); }, raises(2000), 40, seed++);
    job.launch(s.s);
    for (;;) {
      REQUIRE_MESSAGE(job.wait_for(patience()), "the launch neither finished nor left in time");
      if (job.finished()) break;
      ++yields;
      job.launch(s.s);
    }
    made += raiser.stop();
    REQUIRE(out.read() == expected);
  }
  MESSAGE(made, " raises, ", yields, " yields");
  CHECK(yields > 0);
}

/// Gated as a kernel undeclared, gated and persistent as one declared safe.
template <class Undeclared, class Declared, class T>
void both_forms(const cede::shape& shape, const Undeclared& undeclared, const Declared& declared,
                buffer<T>& out, const std::vector<T>& expected) {
  under_raises(shape, undeclared, cede::form::gated, out, expected);
  under_raises(shape, declared, cede::form::gated, out, expected);
  under_raises(shape, declared, cede::form::persistent, out, expected);
}

}  // namespace test
