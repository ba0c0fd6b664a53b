// SPDX-License-Identifier: Apache-2.0
// Softmax of rows of 1024, a row for each warp, in registers.
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

struct softmax {
  static constexpr bool barrier_free = true;
  static constexpr unsigned threads = 256;
  static constexpr unsigned max_threads = threads;
  static constexpr unsigned min_blocks = 4;  // as many as it has natively
  std::uint32_t rows;
  const float_4* in;
  float_4* out;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const warp_row<float_4> row(b, rows);
    if (row.none()) return;  // the whole warp
    float_4 v[row.each];
    row.load(v, in);
    const larger most{};
    float peak = v[0].x;
    BENCH_UNROLL
    for (const float_4& f : v) peak = most(peak, most(most(f.x, f.y), most(f.z, f.w)));
    peak = row.fold(peak, most);
    float sum = 0;
    BENCH_UNROLL
    for (float_4& f : v) {
      f = {expf(f.x - peak), expf(f.y - peak), expf(f.z - peak), expf(f.w - peak)};
      sum += (f.x + f.y) + (f.z + f.w);
    }
    const float scale = 1.0F / row.fold(sum, add{});
    BENCH_UNROLL
    for (float_4& f : v) f = {f.x * scale, f.y * scale, f.z * scale, f.w * scale};
    row.store(out, v);
  }
};

class softmax_problem : public problem {
 public:
  using body_type = softmax;
  static constexpr const char* name = "softmax";
  static constexpr double tolerance = 1e-5;  // relative to 1/1024, the mean of a row
  softmax body{};

  softmax_problem(memory& m, problem_size s) : problem(m) {
    rows_ = choose<std::uint32_t>(s, 13, 3000, 81920, 1U << 20U);
    body.rows = rows_;
    float* in = m.array<float>(rows_ * width);
    m.fill_floats(in, rows_ * width, -4, 4, 19);
    out_ = output_array<float>(rows_ * width);
    body.in = reinterpret_cast<const float_4*>(in);
    body.out = reinterpret_cast<float_4*>(out_);
    shape = {.grid = rows_tiles(rows_, softmax::threads), .block = softmax::threads};
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
  static constexpr std::size_t width = std::size_t{4} * warp_row<float_4>::width;
  std::uint32_t rows_;
  float* out_ = nullptr;
};

}  // namespace bench
