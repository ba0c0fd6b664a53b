// SPDX-License-Identifier: Apache-2.0
// The matrix product of both models: C = A B, tile by tile, the sum over k cut into chunks.
#pragma once

#include <cede/block.hpp>
#include <cede/shape.hpp>

#include <cstddef>
#include <cstdint>

#include "math.hpp"

namespace colocate {

/// Which index of a factor is contiguous in memory: the one summed over, or the other one.
enum class contiguous : std::uint8_t { summed, kept };

/// A factor of a product: element (i, k), k being summed over.
template <contiguous C>
struct factor {
  const float* data;
  std::uint32_t stride;  ///< floats from one line to the next

  [[nodiscard]] CEDE_BODY const quad& at(std::uint32_t i, std::uint32_t k) const {
    const std::size_t offset =
        C == contiguous::summed ? std::size_t{i} * stride + k : std::size_t{k} * stride + i;
    return *reinterpret_cast<const quad*>(data + offset);
  }
};

/// Extents of a tile of C and of the part each thread computes in registers.
template <unsigned Rows, unsigned Columns, unsigned ThreadRows, unsigned ThreadColumns,
          unsigned BlocksPerSm>
struct product_tile {
  static constexpr unsigned rows = Rows;
  static constexpr unsigned columns = Columns;
  static constexpr unsigned thread_rows = ThreadRows;
  static constexpr unsigned thread_columns = ThreadColumns;
  static constexpr unsigned depth = 16;  ///< k per stage in shared memory
  static constexpr unsigned threads = (Rows / ThreadRows) * (Columns / ThreadColumns);
  static constexpr unsigned blocks_per_sm = BlocksPerSm;
};

/// Two stages of both factors in shared memory, k-major: one is filled while the other is used.
/// Lines are padded by four floats, which keeps them aligned and spreads their banks.
template <class Tile>
struct product_stages {
  float a[2][Tile::depth][Tile::rows + 4];
  float b[2][Tile::depth][Tile::columns + 4];
};

/// Carries `Extent` x depth elements of one factor from memory to shared memory: `fetch` into
/// registers, then `put`, so that the memory's latency passes while the tile computes.
template <class Tile, contiguous C, unsigned Extent>
struct product_carrier {
  static constexpr unsigned per_line = (C == contiguous::summed ? Tile::depth : Extent) / 4;
  static constexpr unsigned quads = Extent * Tile::depth / 4 / Tile::threads;
  static_assert(quads * 4 * Tile::threads == Extent * Tile::depth, "threads must share evenly");

  quad held[quads];

  CEDE_BODY void fetch(const factor<C>& from, std::uint32_t first, std::uint32_t k,
                       std::uint32_t limit, std::uint32_t thread) {
    COLOCATE_UNROLL
    for (unsigned q = 0; q < quads; ++q) {
      const unsigned item = thread + q * Tile::threads;
      const unsigned across = item % per_line * 4;
      const unsigned line = item / per_line;
      const std::uint32_t i = first + (C == contiguous::summed ? line : across);
      const std::uint32_t at_k = k + (C == contiguous::summed ? across : line);
      held[q] = i < limit ? from.at(i, at_k) : quad{};
    }
  }

  CEDE_BODY void put(float (&stage)[Tile::depth][Extent + 4], std::uint32_t thread) const {
    COLOCATE_UNROLL
    for (unsigned q = 0; q < quads; ++q) {
      const unsigned item = thread + q * Tile::threads;
      const unsigned across = item % per_line * 4;
      const unsigned line = item / per_line;
      if constexpr (C == contiguous::summed) {
        COLOCATE_UNROLL
        for (unsigned j = 0; j < 4; ++j) stage[across + j][line] = held[q].v[j];
      } else {
        *reinterpret_cast<quad*>(&stage[line][across]) = held[q];
      }
    }
  }
};

/// One tile computes rows x columns of C over one chunk of k and hands every four columns to
/// `store(row, column, chunk, values)`; a `Store` whose `chunks` is false must get the whole sum at
/// once, as one chunk. Grid: {column tiles, row tiles, chunks}. The order of every sum is fixed.
/// Extents of k and of the columns must be multiples of the tile's; rows may not be.
template <class Tile, contiguous A, contiguous B, class Store>
struct product {
  static constexpr unsigned max_threads = Tile::threads;
  static constexpr unsigned min_blocks = Tile::blocks_per_sm;

  factor<A> a;
  factor<B> b;
  Store store;
  std::uint32_t rows;
  std::uint32_t columns;
  std::uint32_t summed;
  std::uint32_t chunk;  ///< k per tile; a multiple of the tile's depth

  [[nodiscard]] cede::shape shape() const {
    return {.grid = {columns / Tile::columns, (rows + Tile::rows - 1) / Tile::rows,
                     (summed + chunk - 1) / chunk},
            .block = Tile::threads};
  }

  CEDE_BODY void operator()(cede::block t) const {
    constexpr unsigned across = Tile::columns / Tile::thread_columns;
    const std::uint32_t thread = t.thread_rank();
    const std::uint32_t row = t.index().y * Tile::rows;
    const std::uint32_t column = t.index().x * Tile::columns;
    const std::uint32_t begin = t.index().z * chunk;
    const std::uint32_t end = begin + chunk < summed ? begin + chunk : summed;
    const std::uint32_t thread_row = thread / across * Tile::thread_rows;
    const std::uint32_t thread_column = thread % across * Tile::thread_columns;

    auto& stages = t.shared<product_stages<Tile>>();
    product_carrier<Tile, A, Tile::rows> from_a;
    product_carrier<Tile, B, Tile::columns> from_b;
    float sums[Tile::thread_rows][Tile::thread_columns] = {};

    from_a.fetch(a, row, begin, rows, thread);
    from_b.fetch(b, column, begin, columns, thread);
    from_a.put(stages.a[0], thread);
    from_b.put(stages.b[0], thread);
    t.sync();
    unsigned stage = 0;
    for (std::uint32_t k = begin; k < end; k += Tile::depth, stage ^= 1U) {
      const std::uint32_t next = k + Tile::depth;
      if (next < end) {
        from_a.fetch(a, row, next, rows, thread);
        from_b.fetch(b, column, next, columns, thread);
      }
      accumulate(stages.a[stage], stages.b[stage], thread_row, thread_column, sums);
      if (next < end) {
        from_a.put(stages.a[stage ^ 1U], thread);
        from_b.put(stages.b[stage ^ 1U], thread);
        t.sync();
      }
    }

    COLOCATE_UNROLL
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      COLOCATE_UNROLL
      for (unsigned j = 0; j < Tile::thread_columns; j += 4) {
        if (row + thread_row + i < rows) {
          store(row + thread_row + i, column + thread_column + j, t.index().z,
                quad{{sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]}});
        }
      }
    }
  }

 private:
  CEDE_BODY static void accumulate(const float (&stage_a)[Tile::depth][Tile::rows + 4],
                                   const float (&stage_b)[Tile::depth][Tile::columns + 4],
                                   std::uint32_t row, std::uint32_t column,
                                   float (&sums)[Tile::thread_rows][Tile::thread_columns]) {
    COLOCATE_UNROLL
    for (unsigned k = 0; k < Tile::depth; ++k) {
      alignas(16) float left[Tile::thread_rows];
      alignas(16) float right[Tile::thread_columns];
      load(left, &stage_a[k][row]);
      load(right, &stage_b[k][column]);
      COLOCATE_UNROLL
      for (unsigned i = 0; i < Tile::thread_rows; ++i) {
        COLOCATE_UNROLL
        for (unsigned j = 0; j < Tile::thread_columns; ++j) {
          sums[i][j] = multiply_add(left[i], right[j], sums[i][j]);
        }
      }
    }
  }

  template <unsigned Size>
  CEDE_BODY static void load(float (&to)[Size], const float* from) {
    COLOCATE_UNROLL
    for (unsigned i = 0; i < Size; i += 4) {
      *reinterpret_cast<quad*>(&to[i]) = *reinterpret_cast<const quad*>(from + i);
    }
  }
};

/// Where the chunks of a product lie until they are added: slab after slab, a slab per chunk.
struct slabs {
  float* data;
  std::uint32_t count;
  std::uint32_t size;  ///< floats of one slab

  /// Elements i to i + 3, added over `number` slabs from `first` on, always in the same order.
  [[nodiscard]] CEDE_BODY quad sum(std::uint32_t i, std::uint32_t first,
                                   std::uint32_t number) const {
    quad total = {};
    const float* at = data + std::size_t{first} * size + i;
    COLOCATE_UNROLL_BY_8
    for (std::uint32_t s = 0; s < number; ++s, at += size) {
      const quad part = *reinterpret_cast<const quad*>(at);
      COLOCATE_UNROLL
      for (unsigned j = 0; j < 4; ++j) total.v[j] += part.v[j];
    }
    return total;
  }
  [[nodiscard]] CEDE_BODY quad sum(std::uint32_t i) const { return sum(i, 0, count); }
};

/// Stores a product's chunks into slabs.
struct store_to_slabs {
  static constexpr bool chunks = true;

  slabs to;
  std::uint32_t columns;

  CEDE_BODY void operator()(std::uint32_t row, std::uint32_t column, std::uint32_t chunk,
                            const quad& value) const {
    *reinterpret_cast<quad*>(to.data + std::size_t{chunk} * to.size + std::size_t{row} * columns +
                             column) = value;
  }
};

}  // namespace colocate
