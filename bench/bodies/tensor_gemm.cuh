// SPDX-License-Identifier: Apache-2.0
// Product C = A B^T in bfloat16 on tensor cores, 128 x 256 tiles, several stages of asynchronous
// copies in shared memory. On sm_90a by warp-group instructions, elsewhere by warp instructions.
// Extents are multiples of 128, 256 and 64.
#pragma once

#include "common/problem.hpp"
#include "common/tensor.cuh"
#include "common/tile.cuh"
#include "common/warp_group.cuh"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct tensor_gemm {
  static constexpr unsigned max_threads = 256;
  static constexpr unsigned rows = 128;
  static constexpr unsigned columns = 256;
  static constexpr unsigned deep = 64;
  static constexpr unsigned group = 8;  // rows of tiles that are walked together, for the L2 cache
  std::uint32_t m, n, k;
  const std::uint16_t* a;  // [m][k]
  const std::uint16_t* b;  // [n][k]
  std::uint16_t* c;        // [m][n]

  static constexpr std::uint32_t a_bytes = rows * row_bytes;
  static constexpr std::uint32_t stage_bytes = a_bytes + columns * row_bytes;
  static constexpr std::uint32_t alignment = 1024;
  static constexpr std::size_t shared_bytes(unsigned stages) {
    return std::size_t{stages} * stage_bytes + alignment;
  }

  template <class Block>
  CEDE_BODY void operator()(Block block) const {
#if defined(__CUDA_ARCH__)
    run(block);
#else
    static_cast<void>(block);  // tensor cores only
#endif
  }

#if defined(__CUDA_ARCH__)
 private:
#if __CUDA_ARCH__ >= 900
  static constexpr unsigned stages = 4;
#else
  static constexpr unsigned stages = 3;
#endif
  /// A stage is filled again when nothing reads it any more: warp groups still read the one before.
  static constexpr unsigned ahead = BENCH_WARP_GROUPS ? stages - 2 : stages - 1;
  /// Of the tile of C on its way out: one chunk more than a row, so that rows start in other banks.
  static constexpr std::uint32_t c_row_bytes = columns * 2 + 16;
  static_assert(rows * c_row_bytes <= stages * stage_bytes);

  template <class Block>
  __device__ void run(const Block& block) const {
    using namespace tensor;
    const unsigned t = block.thread().x;
    const std::uint32_t dynamic = shared_address(block.template dynamic_shared<char>());
    const std::uint32_t base = (dynamic + alignment - 1) / alignment * alignment;
    std::uint32_t first_row;
    std::uint32_t first_column;
    locate(block.index().x, first_row, first_column);
    const std::uint16_t* a_from = a + std::size_t{first_row + t / 8} * k + t % 8 * 8;
    const std::uint16_t* b_from = b + std::size_t{first_column + t / 8} * k + t % 8 * 8;
    const std::uint32_t to = base + swizzled(t / 8, t % 8);

    const std::uint32_t steps = k / deep;
#pragma unroll
    for (unsigned s = 0; s < ahead; ++s) {
      if (s < steps) fetch(to + s * stage_bytes, a_from + s * deep, b_from + s * deep);
      commit_copies();
    }
    accumulators sum = {};
    std::uint32_t slot = 0;
    for (std::uint32_t s = 0; s < steps; ++s) {
      await_copies<static_cast<int>(ahead) - 1>();
#if BENCH_WARP_GROUPS
      show_to_tensor_cores();
#endif
      __syncthreads();
      multiply(sum, base + slot * stage_bytes, t);
      const std::uint32_t next = s + ahead;
      std::uint32_t free = slot + ahead;
      if (free >= stages) free -= stages;
      if (next < steps) fetch(to + free * stage_bytes, a_from + next * deep, b_from + next * deep);
      commit_copies();
#if BENCH_WARP_GROUPS
      await_groups<1>();  // the step before; the stage it read is filled after the next barrier
#endif
      slot = slot + 1 == stages ? 0 : slot + 1;
    }
#if BENCH_WARP_GROUPS
    await_groups<0>();
#endif
    __syncthreads();
    stage(sum, base, t);
    __syncthreads();
    store(base, first_row, first_column, t);
  }

  __device__ void locate(std::uint32_t tile, std::uint32_t& row, std::uint32_t& column) const {
    const std::uint32_t down = m / rows;
    const std::uint32_t across = n / columns;
    const std::uint32_t begin = tile / (group * across) * group;
    const std::uint32_t high = down - begin < group ? down - begin : group;
    const std::uint32_t within = tile % (group * across);
    row = (begin + within % high) * rows;
    column = within / high * columns;
  }

  /// One stage by all threads: 32 rows at a time, eight threads a row.
  __device__ void fetch(std::uint32_t to, const std::uint16_t* a_from,
                        const std::uint16_t* b_from) const {
#pragma unroll
    for (unsigned i = 0; i < rows / 32; ++i) {
      tensor::copy_16(to + i * 32 * row_bytes, a_from + std::size_t{i} * 32 * k);
    }
#pragma unroll
    for (unsigned i = 0; i < columns / 32; ++i) {
      tensor::copy_16(to + a_bytes + i * 32 * row_bytes, b_from + std::size_t{i} * 32 * k);
    }
  }

  __device__ static void put(std::uint32_t base, std::uint32_t row, std::uint32_t column, float low,
                             float high) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(base + row * c_row_bytes + column * 2),
                 "r"(tensor::pack(low, high))
                 : "memory");
  }

#if BENCH_WARP_GROUPS
  /// A warp group owns 64 rows.
  using accumulators = float[128];

  __device__ static void multiply(accumulators& sum, std::uint32_t at, unsigned t) {
    const std::uint64_t x = tensor::operand(at + t / 128 * 64 * row_bytes);
    const std::uint64_t y = tensor::operand(at + a_bytes);
    tensor::begin_group();
#pragma unroll
    for (unsigned i = 0; i < deep / 16; ++i) {
      tensor::multiply_64x256(sum, x + i * 2, y + i * 2);  // 32 bytes further along the row
    }
    tensor::end_group();
  }

  __device__ static void stage(const accumulators& sum, std::uint32_t base, unsigned t) {
    const std::uint32_t row = t / 32 * 16 + t % 32 / 4;
    const std::uint32_t column = t % 4 * 2;
#pragma unroll
    for (unsigned j = 0; j < columns / 8; ++j) {
      put(base, row, column + j * 8, sum[4 * j], sum[4 * j + 1]);
      put(base, row + 8, column + j * 8, sum[4 * j + 2], sum[4 * j + 3]);
    }
  }
#else
  /// A warp owns 64 x 64: four by eight products of 16 x 8.
  using accumulators = float[4][8][4];

  __device__ static void multiply(accumulators& sum, std::uint32_t at, unsigned t) {
    const unsigned lane = t % 32;
    const std::uint32_t x = t / 32 % 2 * 64;
    const std::uint32_t y = t / 64 * 64;
#pragma unroll
    for (unsigned i = 0; i < deep / 16; ++i) {
      std::uint32_t p[4][4];
#pragma unroll
      for (unsigned r = 0; r < 4; ++r) {
        tensor::load_matrices(p[r], at + swizzled(x + r * 16 + lane % 16, i * 2 + lane / 16));
      }
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        std::uint32_t q[4];
        tensor::load_matrices(
            q,
            at + a_bytes + swizzled(y + j * 16 + lane % 8 + lane / 16 * 8, i * 2 + lane / 8 % 2));
#pragma unroll
        for (unsigned r = 0; r < 4; ++r) {
          tensor::multiply(sum[r][2 * j], p[r], q[0], q[1]);
          tensor::multiply(sum[r][2 * j + 1], p[r], q[2], q[3]);
        }
      }
    }
  }

  __device__ static void stage(const accumulators& sum, std::uint32_t base, unsigned t) {
    const std::uint32_t row = t / 32 % 2 * 64 + t % 32 / 4;
    const std::uint32_t column = t / 64 * 64 + t % 4 * 2;
#pragma unroll
    for (unsigned r = 0; r < 4; ++r) {
#pragma unroll
      for (unsigned j = 0; j < 8; ++j) {
        put(base, row + r * 16, column + j * 8, sum[r][j][0], sum[r][j][1]);
        put(base, row + r * 16 + 8, column + j * 8, sum[r][j][2], sum[r][j][3]);
      }
    }
  }
#endif

  /// The staged tile to global memory, a row a warp.
  __device__ void store(std::uint32_t base, std::uint32_t first_row, std::uint32_t first_column,
                        unsigned t) const {
    std::uint16_t* to = c + std::size_t{first_row + t / 32} * n + first_column + t % 32 * 8;
    const std::uint32_t from = base + t / 32 * c_row_bytes + t % 32 * 16;
#pragma unroll 4
    for (unsigned i = 0; i < rows / 8; ++i) {
      uint_4 v;
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "r"(from + i * 8 * c_row_bytes)
                   : "memory");
      *reinterpret_cast<uint_4*>(to + std::size_t{i} * 8 * n) = v;
    }
  }
#endif
};

class tensor_gemm_problem : public problem {
 public:
  using body_type = tensor_gemm;
  static constexpr const char* name = "tensor_gemm";
  static constexpr double tolerance = 4e-3;  // a result has 8 bits of mantissa
  tensor_gemm body{};

  tensor_gemm_problem(memory& m, problem_size s)
      : tensor_gemm_problem(m, choose<std::uint32_t>(s, 256, 1024, 8192, 32768),
                            choose<std::uint32_t>(s, 768, 2048, 8192, 16384),
                            choose<std::uint32_t>(s, 192, 512, 512, 512)) {}
  tensor_gemm_problem(memory& memory, std::uint32_t m, std::uint32_t n, std::uint32_t k)
      : problem(memory) {
    body.m = m;
    body.n = n;
    body.k = k;
    auto* a = memory.array<std::uint16_t>(std::size_t{m} * k);
    auto* b = memory.array<std::uint16_t>(std::size_t{n} * k);
    memory.fill_bfloat16(a, std::size_t{m} * k, -1, 1, 34);
    memory.fill_bfloat16(b, std::size_t{n} * k, -1, 1, 35);
    body.a = a;
    body.b = b;
    body.c = output_array<std::uint16_t>(std::size_t{m} * n);
    const unsigned stages = memory.shared_limit() >= tensor_gemm::shared_bytes(4) ? 4 : 3;
    shape = {.grid = m / tensor_gemm::rows * (n / tensor_gemm::columns),
             .block = tensor_gemm::max_threads,
             .shared = tensor_gemm::shared_bytes(stages)};
  }
  double error() {
    const auto a = floats(body.a, std::size_t{body.m} * body.k);
    const auto b = floats(body.b, std::size_t{body.n} * body.k);
    std::vector<float> want(std::size_t{body.m} * body.n);
    for (std::size_t i = 0; i < body.m; ++i) {
      for (std::size_t j = 0; j < body.n; ++j) {
        const float* x = a.data() + i * body.k;
        const float* y = b.data() + j * body.k;
        float sum[8] = {};
        for (std::size_t l = 0; l < body.k; l += 8) {
          for (std::size_t o = 0; o < 8; ++o) sum[o] += x[l + o] * y[l + o];
        }
        want[i * body.n + j] =
            ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
      }
    }
    return largest_deviation(floats(body.c, want.size()), want);
  }

 private:
  std::vector<float> floats(const std::uint16_t* p, std::size_t n) {
    const auto raw = memory_.read(p, n);
    std::vector<float> f(n);
    for (std::size_t i = 0; i < n; ++i) f[i] = from_bfloat16(raw[i]);
    return f;
  }
};

}  // namespace bench
