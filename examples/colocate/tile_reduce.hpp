// SPDX-License-Identifier: Apache-2.0
// Combining one value per thread of a tile, always in the same order.
#pragma once

#include <cede/block.hpp>

#include <cstdint>

namespace colocate {

template <class T, unsigned Most>
struct tile_values {
  T v[Most];
};

/// Combines the values of all threads of the tile pairwise and returns the result to every thread.
/// The tile has a power of two of threads, at most `Most`. Every thread must call it.
template <unsigned Most, class T, class Combine>
CEDE_BODY T tile_reduce(cede::block t, T value, Combine combine) {
  auto& values = t.shared<tile_values<T, Most>>();
  const std::uint32_t thread = t.thread_rank();
  values.v[thread] = value;
  t.sync();
  for (std::uint32_t width = t.size() / 2; width > 0; width /= 2) {
    if (thread < width) values.v[thread] = combine(values.v[thread], values.v[thread + width]);
    t.sync();
  }
  const T result = values.v[0];
  t.sync();  // before the values are used again
  return result;
}

struct plus {
  template <class T>
  CEDE_BODY T operator()(T a, T b) const {
    return a + b;
  }
};

template <unsigned Most, class T>
CEDE_BODY T tile_sum(cede::block t, T value) {
  return tile_reduce<Most>(t, value, plus{});
}

}  // namespace colocate
