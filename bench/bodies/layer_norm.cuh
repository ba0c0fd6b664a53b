// SPDX-License-Identifier: Apache-2.0
// Layer normalisation of rows of 1024, a row a tile: mean, then variance, both in registers.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct layer_norm {
  static constexpr unsigned threads = 256;
  static constexpr unsigned max_threads = threads;
  static constexpr unsigned min_blocks = 8;  // as many as it has natively
  static constexpr float epsilon = 1e-5F;
  const float_4* in;
  const float_4* gain;
  const float_4* bias;
  float_4* out;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    constexpr float share = 1.0F / (4 * threads);
    const unsigned t = b.thread().x;
    const std::size_t i = std::size_t{b.index().x} * threads + t;
    float_4 v = in[i];
    const float_4 g = gain[t];
    const float_4 c = bias[t];
    const float mean = reduce<0>(b, (v.x + v.y) + (v.z + v.w), add{}) * share;
    v = {v.x - mean, v.y - mean, v.z - mean, v.w - mean};
    const float squares = (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    const float scale = 1.0F / sqrtf(reduce<1>(b, squares, add{}) * share + epsilon);
    out[i] = {v.x * scale * g.x + c.x, v.y * scale * g.y + c.y, v.z * scale * g.z + c.z,
              v.w * scale * g.w + c.w};
  }
};

class layer_norm_problem : public problem {
 public:
  using body_type = layer_norm;
  static constexpr const char* name = "layer_norm";
  static constexpr double tolerance = 1e-5;
  layer_norm body{};

  layer_norm_problem(memory& m, problem_size s) : problem(m) {
    rows_ = choose<std::uint32_t>(s, 5, 500, 49152, 1U << 20U);
    float* in = m.array<float>(rows_ * width);
    float* gain = m.array<float>(width);
    float* bias = m.array<float>(width);
    m.fill_floats(in, rows_ * width, -3, 5, 20);
    m.fill_floats(gain, width, 0.5F, 1.5F, 21);
    m.fill_floats(bias, width, -1, 1, 22);
    out_ = output_array<float>(rows_ * width);
    body.in = reinterpret_cast<const float_4*>(in);
    body.gain = reinterpret_cast<const float_4*>(gain);
    body.bias = reinterpret_cast<const float_4*>(bias);
    body.out = reinterpret_cast<float_4*>(out_);
    shape = {.grid = rows_, .block = layer_norm::threads};
  }
  double error() {
    std::vector<double> want(rows_ * width);
    for (std::size_t r = 0; r < rows_; ++r) {
      double mean = 0;
      double square = 0;
      for (std::size_t i = r * width; i < (r + 1) * width; ++i) {
        want[i] = random_float(i, 20, -3, 5);
        mean += want[i] / width;
      }
      for (std::size_t i = r * width; i < (r + 1) * width; ++i) {
        want[i] -= mean;
        square += want[i] * want[i] / width;
      }
      const double scale = 1 / std::sqrt(square + static_cast<double>(layer_norm::epsilon));
      for (std::size_t c = 0; c < width; ++c) {
        double& w = want[r * width + c];
        w = w * scale * random_float(c, 21, 0.5F, 1.5F) + random_float(c, 22, -1, 1);
      }
    }
    return largest_deviation(memory_.read(out_, want.size()), want);
  }

 private:
  static constexpr std::size_t width = std::size_t{4} * layer_norm::threads;
  std::uint32_t rows_;
  float* out_ = nullptr;
};

}  // namespace bench
