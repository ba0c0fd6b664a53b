// SPDX-License-Identifier: Apache-2.0
// Embedding look-up: rows of 1 KiB copied from random places of a table.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct gather {
  static constexpr bool barrier_free = true;
  static constexpr unsigned fours = 64;  // of a row
  static constexpr unsigned rows = 8;    // of a tile of 256 threads
  std::uint32_t count;
  const std::uint32_t* ids;
  const float_4* table;
  float_4* out;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const unsigned column = b.thread().x % fours;
    const unsigned step = b.dim().x / fours;
    const std::uint32_t first = b.index().x * rows + b.thread().x / fours;
    for (unsigned r = 0; r < rows; r += step) {
      const std::uint32_t row = first + r;
      if (row >= count) return;
      out[std::size_t{row} * fours + column] = table[std::size_t{ids[row]} * fours + column];
    }
  }
};

class gather_problem : public problem {
 public:
  using body_type = gather;
  static constexpr const char* name = "gather";
  static constexpr double tolerance = 0;
  gather body{};

  gather_problem(memory& m, problem_size s) : problem(m) {
    body.count = choose<std::uint32_t>(s, 45, 4000, 11U << 15U, 1U << 22U);
    table_rows_ = choose<std::uint32_t>(s, 100, 5000, 1U << 20U, 1U << 20U);
    auto* ids = m.array<std::uint32_t>(body.count);
    m.fill_integers(ids, body.count, table_rows_, 12);
    float* table = m.array<float>(std::size_t{table_rows_} * width);
    m.fill_floats(table, std::size_t{table_rows_} * width, -1, 1, 13);
    out_ = output_array<float>(std::size_t{body.count} * width);
    body.ids = ids;
    body.table = reinterpret_cast<const float_4*>(table);
    body.out = reinterpret_cast<float_4*>(out_);
    shape = {.grid = (body.count + gather::rows - 1) / gather::rows, .block = 256};
  }
  double error() {
    std::vector<float> want(std::size_t{body.count} * width);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::uint64_t id = random_bits(i / width, 12) % table_rows_;
      want[i] = random_float(id * width + i % width, 13, -1, 1);
    }
    return largest_deviation(memory_.read(out_, want.size()), want);
  }

 private:
  static constexpr std::size_t width = std::size_t{4} * gather::fours;
  std::uint32_t table_rows_;
  float* out_ = nullptr;
};

}  // namespace bench
