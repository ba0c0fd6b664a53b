// SPDX-License-Identifier: Apache-2.0
// Counts of 256 keys: atomics in shared memory, then one addition a bin and tile to global memory.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct histogram {
  static constexpr unsigned bins = 256;  // as many as threads
  static constexpr unsigned fours = 4;   // vectors of four keys a thread
  const uint_4* keys;
  std::uint32_t* counts;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    std::uint32_t* here = b.template shared<array_of<std::uint32_t, bins>>().at;
    const unsigned t = b.thread().x;
    here[t] = 0;
    const uint_4* mine = keys + std::size_t{b.index().x} * bins * fours + t;
    uint_4 k[fours];
    for (unsigned i = 0; i < fours; ++i) k[i] = mine[i * bins];
    barrier(b);
    for (unsigned i = 0; i < fours; ++i) {
      count(here, k[i].x);
      count(here, k[i].y);
      count(here, k[i].z);
      count(here, k[i].w);
    }
    barrier(b);
    if (here[t] != 0) b.atomic_add(counts + t, here[t]);
  }

 private:
  CEDE_BODY static void count(std::uint32_t* here, std::uint32_t key) {
#if defined(__CUDA_ARCH__)
    atomicAdd(here + key % bins, 1U);
#else
    ++here[key % bins];  // the threads of a tile take turns on a host
#endif
  }
};

class histogram_problem : public problem {
 public:
  using body_type = histogram;
  static constexpr const char* name = "histogram";
  static constexpr double tolerance = 0;
  histogram body{};

  histogram_problem(memory& m, problem_size s) : problem(m) {
    tiles_ = choose<std::uint32_t>(s, 7, 500, 26624, 1U << 19U);
    auto* keys = m.array<std::uint32_t>(elements());
    m.fill_integers(keys, elements(), 0, 5);
    body.keys = reinterpret_cast<const uint_4*>(keys);
    body.counts = output_array<std::uint32_t>(histogram::bins);
    shape = {.grid = tiles_, .block = histogram::bins};
  }
  double error() {
    std::vector<std::uint32_t> want(histogram::bins);
    for (std::size_t i = 0; i < elements(); ++i) ++want[random_bits(i, 5) % histogram::bins];
    return largest_deviation(memory_.read(body.counts, histogram::bins), want);
  }

 private:
  [[nodiscard]] std::size_t elements() const {
    return std::size_t{tiles_} * histogram::bins * histogram::fours * 4;
  }
  std::uint32_t tiles_;
};

}  // namespace bench
