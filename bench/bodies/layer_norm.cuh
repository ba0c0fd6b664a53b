// SPDX-License-Identifier: Apache-2.0
// Layer normalisation of rows of 1024, a row for each warp: mean, then variance, in registers.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"
#include "common/warp_row.cuh"

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct layer_norm {
  static constexpr bool barrier_free = true;
  static constexpr unsigned threads = 256;
  static constexpr unsigned max_threads = threads;
  static constexpr unsigned min_blocks = 3;  // as many as it has natively
  static constexpr float epsilon = 1e-5F;
  std::uint32_t rows;
  const float_4* in;
  const float_4* gain;
  const float_4* bias;
  float_4* out;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const warp_row<float_4> row(b, rows);
    if (row.none()) return;  // the whole warp
    constexpr float share = 1.0F / (4 * warp_row<float_4>::width);
    float_4 v[row.each];
    row.load(v, in);
    float sum = 0;
    BENCH_UNROLL
    for (const float_4& f : v) sum += (f.x + f.y) + (f.z + f.w);
    const float mean = row.fold(sum, add{}) * share;
    float squares = 0;
    BENCH_UNROLL
    for (float_4& f : v) {
      f = {f.x - mean, f.y - mean, f.z - mean, f.w - mean};
      squares += (f.x * f.x + f.y * f.y) + (f.z * f.z + f.w * f.w);
    }
    const float scale = 1.0F / sqrtf(row.fold(squares, add{}) * share + epsilon);
    BENCH_UNROLL
    for (unsigned i = 0; i < row.each; ++i) {
      const float_4 g = gain[row.column(i)];
      const float_4 c = bias[row.column(i)];
      float_4& f = v[i];
      f = {f.x * scale * g.x + c.x, f.y * scale * g.y + c.y, f.z * scale * g.z + c.z,
           f.w * scale * g.w + c.w};
    }
    row.store(out, v);
  }
};

class layer_norm_problem : public problem {
 public:
  using body_type = layer_norm;
  static constexpr const char* name = "layer_norm";
  static constexpr double tolerance = 1e-5;
  layer_norm body{};

  layer_norm_problem(memory& m, problem_size s) : problem(m) {
    rows_ = choose<std::uint32_t>(s, 13, 3000, 81920, 1U << 20U);
    body.rows = rows_;
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
    shape = {.grid = rows_tiles(rows_, layer_norm::threads), .block = layer_norm::threads};
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
  static constexpr std::size_t width = std::size_t{4} * warp_row<float_4>::width;
  std::uint32_t rows_;
  float* out_ = nullptr;
};

}  // namespace bench
