// SPDX-License-Identifier: Apache-2.0
// One element a thread: the shortest tiles there are, where every instruction around them shows.
#pragma once

#include "common/problem.hpp"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct one_element {
  static constexpr bool barrier_free = true;
  std::uint32_t n;
  const float* x;
  float* y;
  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const std::uint32_t i = b.index().x * b.dim().x + b.thread().x;
    if (i < n) y[i] = x[i] * x[i] + 1.0F;
  }
};

class one_element_problem : public problem {
 public:
  using body_type = one_element;
  static constexpr const char* name = "one_element";
  static constexpr double tolerance = 1e-6;
  one_element body{};

  one_element_problem(memory& m, problem_size s) : problem(m) {
    body.n = choose<std::uint32_t>(s, 4001, 1U << 17U, 15U << 22U, 1U << 30U);
    float* x = m.array<float>(body.n);
    m.fill_floats(x, body.n, -2, 2, 3);
    body.x = x;
    body.y = output_array<float>(body.n);
    shape = {.grid = (body.n + 255) / 256, .block = 256};
  }
  double error() {
    std::vector<float> want(body.n);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const float x = random_float(i, 3, -2, 2);
      want[i] = x * x + 1.0F;
    }
    return largest_deviation(memory_.read(body.y, body.n), want);
  }
};

}  // namespace bench
