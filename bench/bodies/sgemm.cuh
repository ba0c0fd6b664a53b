// SPDX-License-Identifier: Apache-2.0
// Single-precision product C = A B in 64 x 64 tiles through shared memory: rank-128 updates, as
// blocked factorisations make them, so that a tile is short. Extents are multiples of 64.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct sgemm {
  static constexpr unsigned max_threads = 64;
  static constexpr unsigned side = 64;  // of a tile of C
  static constexpr unsigned deep = 16;  // of the piece of A and B in shared memory
  static constexpr unsigned pad = 4;
  std::uint32_t m, n, k;
  const float* a;
  const float* b;
  float* c;

  struct piece {
    float a[deep][side + pad];  // transposed
    float b[deep][side];
  };
  struct registers {
    float_4 a[4];
    float_4 b[4];
  };

  /// Thread (tx, ty) of 8 x 8 owns rows 4 ty + {0..3} and 32 + 4 ty + {0..3}, columns alike.
  template <class Block>
  CEDE_BODY void operator()(Block block) const {
    auto& pieces = block.template shared<array_of<piece, 2>>().at;
    const unsigned t = block.thread().x;
    const unsigned tx = t % 8;
    const unsigned ty = t / 8;
    const float* a_tile = a + std::size_t{block.index().y} * side * k;
    const float* b_tile = b + block.index().x * side;
    float sum[8][8] = {};
    registers next;
    load(next, a_tile, b_tile, t);
    store(pieces[0], next, t);
    barrier(block);
    const std::uint32_t steps = k / deep;
    for (std::uint32_t s = 0; s < steps; ++s) {
      a_tile += deep;
      b_tile += std::size_t{deep} * n;
      if (s + 1 < steps) load(next, a_tile, b_tile, t);
      const piece& now = pieces[s % 2];
      BENCH_UNROLL
      for (unsigned i = 0; i < deep; ++i) multiply(sum, now, i, tx, ty);
      if (s + 1 < steps) store(pieces[(s + 1) % 2], next, t);
      barrier(block);
    }
    float* c_tile = c + std::size_t{block.index().y} * side * n + block.index().x * side;
    BENCH_UNROLL
    for (unsigned r = 0; r < 8; ++r) {
      float* row = c_tile + std::size_t{(r / 4) * 32 + ty * 4 + r % 4} * n + tx * 4;
      *reinterpret_cast<float_4*>(row) = {sum[r][0], sum[r][1], sum[r][2], sum[r][3]};
      *reinterpret_cast<float_4*>(row + 32) = {sum[r][4], sum[r][5], sum[r][6], sum[r][7]};
    }
  }

 private:
  /// Four threads read the 16 values of a row of A, sixteen the 64 of a row of B.
  CEDE_BODY void load(registers& r, const float* a_tile, const float* b_tile, unsigned t) const {
    BENCH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      r.a[i] =
          *reinterpret_cast<const float_4*>(a_tile + std::size_t{i * 16 + t / 4} * k + t % 4 * 4);
      r.b[i] =
          *reinterpret_cast<const float_4*>(b_tile + std::size_t{i * 4 + t / 16} * n + t % 16 * 4);
    }
  }
  CEDE_BODY static void store(piece& p, const registers& r, unsigned t) {
    BENCH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = i * 16 + t / 4;
      p.a[t % 4 * 4 + 0][row] = r.a[i].x;
      p.a[t % 4 * 4 + 1][row] = r.a[i].y;
      p.a[t % 4 * 4 + 2][row] = r.a[i].z;
      p.a[t % 4 * 4 + 3][row] = r.a[i].w;
      *reinterpret_cast<float_4*>(&p.b[i * 4 + t / 16][t % 16 * 4]) = r.b[i];
    }
  }
  CEDE_BODY static void multiply(float (&sum)[8][8], const piece& p, unsigned i, unsigned tx,
                                 unsigned ty) {
    const float_4 a0 = *reinterpret_cast<const float_4*>(&p.a[i][ty * 4]);
    const float_4 a1 = *reinterpret_cast<const float_4*>(&p.a[i][32 + ty * 4]);
    const float_4 b0 = *reinterpret_cast<const float_4*>(&p.b[i][tx * 4]);
    const float_4 b1 = *reinterpret_cast<const float_4*>(&p.b[i][32 + tx * 4]);
    const float x[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
    const float y[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
    BENCH_UNROLL
    for (unsigned r = 0; r < 8; ++r) {
      BENCH_UNROLL
      for (unsigned q = 0; q < 8; ++q) sum[r][q] += x[r] * y[q];
    }
  }
};

class sgemm_problem : public problem {
 public:
  using body_type = sgemm;
  static constexpr const char* name = "sgemm";
  static constexpr double tolerance = 1e-4;  // sums of 128 products of at most 1
  sgemm body{};

  sgemm_problem(memory& m, problem_size s) : problem(m) {
    body.m = choose<std::uint32_t>(s, 128, 1024, 6144, 16384);
    body.n = choose<std::uint32_t>(s, 192, 1024, 4096, 16384);
    body.k = choose<std::uint32_t>(s, 48, 128, 128, 128);
    float* a = m.array<float>(std::size_t{body.m} * body.k);
    float* b = m.array<float>(std::size_t{body.k} * body.n);
    m.fill_floats(a, std::size_t{body.m} * body.k, -1, 1, 29);
    m.fill_floats(b, std::size_t{body.k} * body.n, -1, 1, 30);
    body.a = a;
    body.b = b;
    body.c = output_array<float>(std::size_t{body.m} * body.n);
    shape = {.grid = {body.n / sgemm::side, body.m / sgemm::side}, .block = sgemm::max_threads};
  }
  double error() {
    std::vector<double> want(std::size_t{body.m} * body.n);
    const auto a = memory_.read(body.a, std::size_t{body.m} * body.k);
    const auto b = memory_.read(body.b, std::size_t{body.k} * body.n);
    for (std::size_t i = 0; i < body.m; ++i) {
      for (std::size_t l = 0; l < body.k; ++l) {
        const double x = a[i * body.k + l];
        for (std::size_t j = 0; j < body.n; ++j) want[i * body.n + j] += x * b[l * body.n + j];
      }
    }
    return largest_deviation(memory_.read(body.c, want.size()), want);
  }
};

}  // namespace bench
