// SPDX-License-Identifier: Apache-2.0
// Transposition in 64 x 64 tiles through padded shared memory.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct transpose {
  static constexpr unsigned side = 64;
  static constexpr unsigned rows = 4;  // threads along y
  std::uint32_t width, height;         // of the input
  const float* in;
  float* out;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    auto& tile = b.template shared<array_of<array_of<float, side + 1>, side>>().at;
    const unsigned tx = b.thread().x;
    const unsigned ty = b.thread().y;
    std::uint32_t x = b.index().x * side + tx;
    std::uint32_t y = b.index().y * side + ty;
    BENCH_UNROLL
    for (unsigned j = 0; j < side; j += rows) {
      if (x < width && y + j < height) tile[ty + j].at[tx] = in[std::size_t{y + j} * width + x];
    }
    barrier(b);
    x = b.index().y * side + tx;
    y = b.index().x * side + ty;
    BENCH_UNROLL
    for (unsigned j = 0; j < side; j += rows) {
      if (x < height && y + j < width) out[std::size_t{y + j} * height + x] = tile[tx].at[ty + j];
    }
  }
};

class transpose_problem : public problem {
 public:
  using body_type = transpose;
  static constexpr const char* name = "transpose";
  static constexpr double tolerance = 0;
  transpose body{};

  transpose_problem(memory& m, problem_size s) : problem(m) {
    body.width = choose<std::uint32_t>(s, 100, 1000, 8192, 32768);
    body.height = choose<std::uint32_t>(s, 70, 990, 7680, 32768);
    float* in = m.array<float>(elements());
    m.fill_floats(in, elements(), -1, 1, 6);
    body.in = in;
    body.out = output_array<float>(elements());
    shape = {.grid = {tiles(body.width), tiles(body.height)},
             .block = {transpose::side, transpose::rows}};
  }
  double error() {
    std::vector<float> want(elements());
    for (std::size_t x = 0; x < body.width; ++x) {
      for (std::size_t y = 0; y < body.height; ++y) {
        want[x * body.height + y] = random_float(y * body.width + x, 6, -1, 1);
      }
    }
    return largest_deviation(memory_.read(body.out, elements()), want);
  }

 private:
  static std::uint32_t tiles(std::uint32_t n) {
    return (n + transpose::side - 1) / transpose::side;
  }
  [[nodiscard]] std::size_t elements() const { return std::size_t{body.width} * body.height; }
};

}  // namespace bench
