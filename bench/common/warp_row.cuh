// SPDX-License-Identifier: Apache-2.0
// A row for each warp of a tile, in its lanes' registers. On a host, which has no warps, one thread
// holds all of it.
#pragma once

#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>

namespace bench {

/// Rows of 256 values of `T`.
template <class T>
class warp_row {
 public:
  static constexpr unsigned width = 256;
#if defined(__CUDA_ARCH__)
  static constexpr unsigned lanes = 32;
#else
  static constexpr unsigned lanes = 1;
#endif
  static constexpr unsigned each = width / lanes;  // values a thread holds

  /// The row of this thread's warp, of `rows`.
  template <class Block>
  CEDE_BODY warp_row(const Block& b, std::uint32_t rows)
      : lane_(b.thread().x % 32),
        row_(std::size_t{b.index().x} * (b.size() / 32) + b.thread().x / 32),
        none_(row_ >= rows || lane_ >= lanes) {}

  /// Whether this thread has nothing to do.
  CEDE_BODY bool none() const { return none_; }
  /// Where in the row value `i` of this thread lies.
  CEDE_BODY unsigned column(unsigned i) const { return i * lanes + lane_; }

  CEDE_BODY void load(T (&v)[each], const T* in) const {
    BENCH_UNROLL
    for (unsigned i = 0; i < each; ++i) v[i] = in[row_ * width + column(i)];
  }
  CEDE_BODY void store(T* out, const T (&v)[each]) const {
    BENCH_UNROLL
    for (unsigned i = 0; i < each; ++i) out[row_ * width + column(i)] = v[i];
  }
  /// Folds one value of every lane; all get the result.
  template <class U, class Op>
  CEDE_BODY U fold(U v, Op op) const {
#if defined(__CUDA_ARCH__)
    for (unsigned offset = 16; offset > 0; offset /= 2) {
      v = op(v, __shfl_xor_sync(0xffffffffU, v, offset));
    }
#else
    static_cast<void>(op);
#endif
    return v;
  }

 private:
  unsigned lane_;
  std::size_t row_;
  bool none_;
};

/// Tiles for so many rows.
inline std::uint32_t rows_tiles(std::uint32_t rows, unsigned threads) {
  return (rows + threads / 32 - 1) / (threads / 32);
}

}  // namespace bench
