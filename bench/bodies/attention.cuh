// SPDX-License-Identifier: Apache-2.0
// Attention forward in bfloat16 on tensor cores, heads of 64: a tile answers 64 queries, passes
// once over all keys and keeps a running maximum and sum. Keys and values arrive while the block
// before is being used.
#pragma once

#include "common/problem.hpp"
#include "common/tensor.cuh"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct attention {
  static constexpr unsigned max_threads = 128;
  static constexpr unsigned min_blocks = 3;
  static constexpr unsigned side = 64;  // queries of a tile, keys of a step, and the head
  std::uint32_t length;                 // keys of a head, a multiple of 64
  float scale;                          // log2(e) / sqrt(64)
  const std::uint16_t* query;           // [head][position][64], bfloat16
  const std::uint16_t* key;
  const std::uint16_t* value;
  std::uint16_t* out;

  static constexpr std::uint32_t block_bytes = side * row_bytes;
  /// Queries, two blocks of keys, two of values.
  static constexpr std::size_t shared_bytes = std::size_t{5} * block_bytes;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
#if defined(__CUDA_ARCH__)
    run(b);
#else
    static_cast<void>(b);  // tensor cores only
#endif
  }

#if defined(__CUDA_ARCH__)
 private:
  /// A block of 64 rows by all threads.
  __device__ static void fetch(std::uint32_t to, const std::uint16_t* from, unsigned t) {
#pragma unroll
    for (unsigned i = 0; i < side * 8 / max_threads; ++i) {
      const unsigned c = i * max_threads + t;
      tensor::copy_16(to + swizzled(c / 8, c % 8), from + c * 8);
    }
  }

  template <class Block>
  __device__ void run(const Block& b) const {
    using namespace tensor;
    const unsigned t = b.thread().x;
    const unsigned lane = t % 32;
    const unsigned warp = t / 32;
    const std::size_t head = std::size_t{b.index().y} * length * side;
    const std::size_t first = head + std::size_t{b.index().x} * side * side;
    const std::uint32_t queries = shared_address(b.template dynamic_shared<char>());
    const std::uint32_t keys = queries + block_bytes;
    const std::uint32_t values = keys + 2 * block_bytes;

    fetch(queries, query + first, t);
    fetch(keys, key + head, t);
    fetch(values, value + head, t);
    commit_copies();

    std::uint32_t q[4][4];
    float sum[8][4] = {};
    float peak[2] = {-INFINITY, -INFINITY};
    float total[2] = {0, 0};
    const std::uint32_t steps = length / side;
    for (std::uint32_t s = 0; s < steps; ++s) {
      await_copies<0>();
      __syncthreads();  // this step's block is there, and nobody reads the one before any more
      if (s + 1 < steps) {
        const std::uint32_t other = (s + 1) % 2 * block_bytes;
        const std::size_t next = head + std::size_t{s + 1} * side * side;
        fetch(keys + other, key + next, t);
        fetch(values + other, value + next, t);
        commit_copies();
      }
      if (s == 0) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
          load_matrices(q[i], queries + swizzled(warp * 16 + lane % 16, i * 2 + lane / 16));
        }
      }
      float score[8][4] = {};
      scores(score, q, keys + s % 2 * block_bytes, lane);
      soften(score, sum, peak, total);
      weigh(sum, score, values + s % 2 * block_bytes, lane);
    }
    store(sum, total, first, lane, warp);
  }

  /// 16 queries times 64 keys.
  __device__ static void scores(float (&score)[8][4], const std::uint32_t (&q)[4][4],
                                std::uint32_t keys, unsigned lane) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        std::uint32_t k[4];
        tensor::load_matrices(
            k, keys + swizzled(j * 16 + lane % 8 + lane / 16 * 8, i * 2 + lane / 8 % 2));
        tensor::multiply(score[2 * j], q[i], k[0], k[1]);
        tensor::multiply(score[2 * j + 1], q[i], k[2], k[3]);
      }
    }
  }

  /// Scores to weights against the new maximum; what was summed against the old one is scaled down.
  __device__ void soften(float (&score)[8][4], float (&sum)[8][4], float (&peak)[2],
                         float (&total)[2]) const {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {  // rows lane / 4 and lane / 4 + 8
      float most = peak[half];
#pragma unroll
      for (unsigned j = 0; j < 8; ++j) {
        most = fmaxf(most, fmaxf(score[j][2 * half], score[j][2 * half + 1]));
      }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, 2));
      const float shrink = exp2f((peak[half] - most) * scale);
      peak[half] = most;
      const float zero = most * scale;
      float here = 0;
#pragma unroll
      for (unsigned j = 0; j < 8; ++j) {
#pragma unroll
        for (unsigned i = 2 * half; i < 2 * half + 2; ++i) {
          score[j][i] = exp2f(score[j][i] * scale - zero);
          here += score[j][i];
          sum[j][i] *= shrink;
        }
      }
      total[half] = total[half] * shrink + here;  // of this lane's keys; folded at the end
    }
  }

  /// 16 x 64 weights times 64 values: the scores' layout is that of the left operand.
  __device__ static void weigh(float (&sum)[8][4], const float (&score)[8][4], std::uint32_t values,
                               unsigned lane) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint32_t p[4] = {tensor::pack(score[2 * i][0], score[2 * i][1]),
                                  tensor::pack(score[2 * i][2], score[2 * i][3]),
                                  tensor::pack(score[2 * i + 1][0], score[2 * i + 1][1]),
                                  tensor::pack(score[2 * i + 1][2], score[2 * i + 1][3])};
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        std::uint32_t v[4];
        tensor::load_transposed(v, values + swizzled(i * 16 + lane % 16, j * 2 + lane / 16));
        tensor::multiply(sum[2 * j], p, v[0], v[1]);
        tensor::multiply(sum[2 * j + 1], p, v[2], v[3]);
      }
    }
  }

  __device__ void store(const float (&sum)[8][4], const float (&total)[2], std::size_t first,
                        unsigned lane, unsigned warp) const {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float all = total[half];
      all += __shfl_xor_sync(0xffffffffU, all, 1);
      all += __shfl_xor_sync(0xffffffffU, all, 2);
      const float share = 1.0F / all;
      std::uint16_t* row = out + first + (warp * 16 + half * 8 + lane / 4) * side;
#pragma unroll
      for (unsigned j = 0; j < 8; ++j) {
        *reinterpret_cast<std::uint32_t*>(row + j * 8 + lane % 4 * 2) =
            tensor::pack(sum[j][2 * half] * share, sum[j][2 * half + 1] * share);
      }
    }
  }
#endif
};

class attention_problem : public problem {
 public:
  using body_type = attention;
  static constexpr const char* name = "attention";
  // Results are means over many keys, about 0.05; rounded to 8 bits of mantissa.
  static constexpr double tolerance = 2e-3;
  attention body{};

  attention_problem(memory& m, problem_size s) : problem(m) {
    heads_ = choose<std::uint32_t>(s, 2, 32, 640, 8192);
    body.length = choose<std::uint32_t>(s, 128, 512, 512, 512);
    body.scale = 1.44269504F / 8.0F;
    body.query = input(m, -3, 3, 31);
    body.key = input(m, -1, 1, 32);
    body.value = input(m, -1, 1, 33);
    body.out = output_array<std::uint16_t>(elements());
    shape = {.grid = {body.length / attention::side, heads_},
             .block = attention::max_threads,
             .shared = attention::shared_bytes};
  }
  double error() {
    constexpr std::size_t d = attention::side;
    const auto q = floats(body.query);
    const auto k = floats(body.key);
    const auto v = floats(body.value);
    std::vector<float> want(elements());
    std::vector<float> weight(body.length);
    for (std::size_t row = 0; row < elements() / d; ++row) {
      const std::size_t head = row / body.length * body.length;
      float total = 0;
      for (std::size_t j = 0; j < body.length; ++j) {
        float dot = 0;
        for (std::size_t c = 0; c < d; ++c) dot += q[row * d + c] * k[(head + j) * d + c];
        weight[j] = std::exp(dot / 8.0F);
        total += weight[j];
      }
      for (std::size_t j = 0; j < body.length; ++j) {
        const float w = weight[j] / total;
        for (std::size_t c = 0; c < d; ++c) want[row * d + c] += w * v[(head + j) * d + c];
      }
    }
    return largest_deviation(floats(body.out), want);
  }

 private:
  [[nodiscard]] std::size_t elements() const {
    return std::size_t{heads_} * body.length * attention::side;
  }
  const std::uint16_t* input(memory& m, float low, float high, std::uint32_t seed) {
    auto* p = m.array<std::uint16_t>(elements());
    m.fill_bfloat16(p, elements(), low, high, seed);
    return p;
  }
  std::vector<float> floats(const std::uint16_t* p) {
    const auto raw = memory_.read(p, elements());
    std::vector<float> f(raw.size());
    for (std::size_t i = 0; i < f.size(); ++i) f[i] = from_bfloat16(raw[i]);
    return f;
  }
  std::uint32_t heads_;
};

}  // namespace bench
