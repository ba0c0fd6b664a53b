// SPDX-License-Identifier: Apache-2.0
// Softmax of rows of 1024, a row a tile.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct softmax {
  static constexpr unsigned threads = 256;  // four elements each
  static constexpr unsigned max_threads = threads;
  static constexpr unsigned min_blocks = 8;  // as many as it has natively
  const float_4* in;
  float_4* out;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const std::size_t i = std::size_t{b.index().x} * threads + b.thread().x;
    float_4 v = in[i];
    const larger most{};
    const float peak = reduce<0>(b, most(most(v.x, v.y), most(v.z, v.w)), most);
    v = {expf(v.x - peak), expf(v.y - peak), expf(v.z - peak), expf(v.w - peak)};
    const float scale = 1.0F / reduce<1>(b, (v.x + v.y) + (v.z + v.w), add{});
    out[i] = {v.x * scale, v.y * scale, v.z * scale, v.w * scale};
  }
};

class softmax_problem : public problem {
 public:
  using body_type = softmax;
  static constexpr const char* name = "softmax";
  static constexpr double tolerance = 1e-5;  // relative to 1/1024, the mean of a row
  softmax body{};

  softmax_problem(memory& m, problem_size s) : problem(m) {
    rows_ = choose<std::uint32_t>(s, 5, 500, 49152, 1U << 20U);
    float* in = m.array<float>(rows_ * width);
    m.fill_floats(in, rows_ * width, -4, 4, 19);
    out_ = output_array<float>(rows_ * width);
    body.in = reinterpret_cast<const float_4*>(in);
    body.out = reinterpret_cast<float_4*>(out_);
    shape = {.grid = rows_, .block = softmax::threads};
  }
  double error() {
    std::vector<double> want(rows_ * width);
    for (std::size_t r = 0; r < rows_; ++r) {
      double sum = 0;
      for (std::size_t i = r * width; i < (r + 1) * width; ++i) {
        want[i] = std::exp(static_cast<double>(random_float(i, 19, -4, 4)));
        sum += want[i];
      }
      for (std::size_t i = r * width; i < (r + 1) * width; ++i) want[i] /= sum;
    }
    return largest_deviation(memory_.read(out_, want.size()), want, 1.0 / width);
  }

 private:
  static constexpr std::size_t width = std::size_t{4} * softmax::threads;
  std::uint32_t rows_;
  float* out_ = nullptr;
};

}  // namespace bench
