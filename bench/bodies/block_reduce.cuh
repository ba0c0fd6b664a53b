// SPDX-License-Identifier: Apache-2.0
// One sum a tile, by CUB's block reduction.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>
#include <cede/config.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#if CEDE_NVCC
#include <cub/block/block_reduce.cuh>
#endif

namespace bench {

struct block_reduce {
  static constexpr unsigned threads = 256;
  static constexpr unsigned vectors = 4;  // for each thread, of four values
  const float_4* in;
  float* out;
  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const float_4* mine_in = in + std::size_t{b.index().x} * threads * vectors + b.thread().x;
    float_4 v[vectors];
    BENCH_UNROLL
    for (unsigned i = 0; i < vectors; ++i) v[i] = mine_in[i * threads];
    float mine = 0;
    BENCH_UNROLL
    for (const float_4& f : v) mine += (f.x + f.y) + (f.z + f.w);
#if defined(__CUDA_ARCH__)
    using reduction = cub::BlockReduce<float, threads>;
    const float sum = reduction(b.template shared<typename reduction::TempStorage>()).Sum(mine);
#else
    const float sum = reduce<0>(b, mine, add{});
#endif
    if (b.thread().x == 0) out[b.index().x] = sum;
  }
};

class block_reduce_problem : public problem {
 public:
  using body_type = block_reduce;
  static constexpr const char* name = "block_reduce";
  static constexpr double tolerance = 1e-5;  // of a sum of 4096 values of at most 1
  block_reduce body{};

  block_reduce_problem(memory& m, problem_size s) : problem(m) {
    tiles_ = choose<std::uint32_t>(s, 5, 500, 42U << 10U, 1U << 19U);
    float* in = m.array<float>(elements());
    m.fill_floats(in, elements(), -1, 1, 4);
    body.in = reinterpret_cast<const float_4*>(in);
    body.out = output_array<float>(tiles_);
    shape = {.grid = tiles_, .block = block_reduce::threads};
  }
  double error() {
    std::vector<double> want(tiles_);
    for (std::size_t i = 0; i < elements(); ++i) want[i / per_tile] += random_float(i, 4, -1, 1);
    return largest_deviation(memory_.read(body.out, tiles_), want, 20);
  }

 private:
  static constexpr std::size_t per_tile =
      std::size_t{4} * block_reduce::vectors * block_reduce::threads;
  [[nodiscard]] std::size_t elements() const { return tiles_ * per_tile; }
  std::uint32_t tiles_;
};

}  // namespace bench
