// SPDX-License-Identifier: Apache-2.0
// y += a x, four elements a thread: bound by memory.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct saxpy {
  static constexpr bool barrier_free = true;
  std::uint32_t fours;
  float a;
  const float_4* x;
  float_4* y;
  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const std::uint32_t i = b.index().x * b.dim().x + b.thread().x;
    if (i >= fours) return;
    const float_4 p = x[i];
    float_4 q = y[i];
    q.x += a * p.x;
    q.y += a * p.y;
    q.z += a * p.z;
    q.w += a * p.w;
    y[i] = q;
  }
};

class saxpy_problem : public problem {
 public:
  using body_type = saxpy;
  static constexpr const char* name = "saxpy";
  static constexpr double tolerance = 1e-6;  // a multiply-add may be contracted on one side
  saxpy body{};

  saxpy_problem(memory& m, problem_size s) : problem(m) {
    body.fours = choose<std::uint32_t>(s, 1000, 1U << 17U, 1U << 24U, 1U << 27U);
    body.a = 0.5F;
    x_ = m.array<float>(elements());
    y_ = output_array<float>(elements());
    m.fill_floats(x_, elements(), -1, 1, 1);
    body.x = reinterpret_cast<const float_4*>(x_);
    body.y = reinterpret_cast<float_4*>(y_);
    shape = {.grid = (body.fours + 255) / 256, .block = 256};
    saxpy_problem::reset();
  }
  void reset() override { memory_.fill_floats(y_, elements(), -1, 1, 2); }
  double error() {
    std::vector<float> want(elements());
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] = random_float(i, 2, -1, 1) + body.a * random_float(i, 1, -1, 1);
    }
    return largest_deviation(memory_.read(y_, elements()), want);
  }

 private:
  [[nodiscard]] std::size_t elements() const { return std::size_t{body.fours} * 4; }
  float* x_ = nullptr;
  float* y_ = nullptr;
};

}  // namespace bench
