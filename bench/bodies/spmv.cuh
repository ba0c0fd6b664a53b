// SPDX-License-Identifier: Apache-2.0
// Sparse matrix times vector in CSR, a warp a row, on a skewed matrix: nine rows of ten are short,
// a few are a hundred times as long.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct spmv {
  static constexpr bool barrier_free = true;
  static constexpr unsigned threads = 256;
  static constexpr unsigned max_threads = threads;
  static constexpr unsigned min_blocks = 8;  // as many as it has natively
  static constexpr unsigned rows = 16;       // of a tile: two for each warp
  std::uint32_t count;
  const std::uint32_t* starts;
  const std::uint32_t* columns;
  const float* values;
  const float* x;
  float* y;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    constexpr unsigned warps = threads / 32;
    const unsigned lane = b.thread().x % 32;
    for (unsigned r = b.thread().x / 32; r < rows; r += warps) {
      const std::uint32_t row = b.index().x * rows + r;
      if (row >= count) return;  // the whole warp
      const std::uint32_t end = starts[row + 1];
      float sum = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 4
      for (std::uint32_t i = starts[row] + lane; i < end; i += 32) sum += values[i] * x[columns[i]];
      for (unsigned offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, offset);
      }
#else
      if (lane == 0) {  // a host has no warps
        for (std::uint32_t i = starts[row]; i < end; ++i) sum += values[i] * x[columns[i]];
      }
#endif
      if (lane == 0) y[row] = sum;
    }
  }
};

class spmv_problem : public problem {
 public:
  using body_type = spmv;
  static constexpr const char* name = "spmv";
  static constexpr double tolerance = 1e-4;
  spmv body{};

  spmv_problem(memory& m, problem_size s) : problem(m) {
    body.count = choose<std::uint32_t>(s, 77, 16000, 5U << 17U, 12U << 20U);
    width_ = choose<std::uint32_t>(s, 100, 20000, 1U << 20U, 1U << 20U);
    starts_.resize(body.count + 1);
    for (std::uint32_t r = 0; r < body.count; ++r) starts_[r + 1] = starts_[r] + length(r);
    body.starts = m.array(starts_);
    auto* columns = m.array<std::uint32_t>(starts_.back());
    auto* values = m.array<float>(starts_.back());
    auto* x = m.array<float>(width_);
    m.fill_integers(columns, starts_.back(), width_, 23);
    m.fill_floats(values, starts_.back(), -1, 1, 24);
    m.fill_floats(x, width_, -1, 1, 25);
    body.columns = columns;
    body.values = values;
    body.x = x;
    body.y = output_array<float>(body.count);
    shape = {.grid = (body.count + spmv::rows - 1) / spmv::rows, .block = spmv::threads};
  }
  double error() {
    std::vector<double> want(body.count);
    for (std::uint32_t r = 0; r < body.count; ++r) {
      for (std::uint32_t i = starts_[r]; i < starts_[r + 1]; ++i) {
        want[r] += static_cast<double>(random_float(i, 24, -1, 1)) *
                   random_float(random_bits(i, 23) % width_, 25, -1, 1);
      }
    }
    return largest_deviation(memory_.read(body.y, body.count), want);
  }

 private:
  static std::uint32_t length(std::uint32_t row) {
    const float kind = unit_interval(random_bits(row, 26));
    const std::uint32_t more = random_bits(row, 27);
    if (kind < 0.9F) return 8 + more % 17;
    if (kind < 0.99F) return 64 + more % 129;
    if (kind < 0.9995F) return 256 + more % 513;
    return 1024 + more % 1025;
  }
  std::uint32_t width_;
  std::vector<std::uint32_t> starts_;
};

}  // namespace bench
