// SPDX-License-Identifier: Apache-2.0
// A European call by simulation: two normal variates from two counter-based random numbers, sixteen
// pairs of paths a thread, one sum a tile.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct monte_carlo {
  static constexpr unsigned pairs = 16;
  static constexpr unsigned threads = 256;
  static constexpr unsigned max_threads = threads;
  static constexpr unsigned min_blocks = 8;  // as many as it has natively
  std::uint32_t seed;
  float spot, strike, drift, spread;  ///< of the logarithm at expiry
  float* sums;

  /// Payoffs of the two paths of one pair of random numbers.
  CEDE_BODY float payoff(std::uint64_t pair) const {
    // In (0, 1]: the logarithm needs it.
    const float u = 1.0F - unit_interval(random_bits(2 * pair, seed));
    const float v = unit_interval(random_bits(2 * pair + 1, seed));
    const float radius = sqrtf(-2.0F * logf(u));
    float sine;
    float cosine;
#if defined(__CUDA_ARCH__)
    sincospif(2.0F * v, &sine, &cosine);
#else
    sine = std::sin(6.283185307F * v);
    cosine = std::cos(6.283185307F * v);
#endif
    const float a = spot * expf(drift + spread * radius * sine) - strike;
    const float b = spot * expf(drift + spread * radius * cosine) - strike;
    return (a > 0 ? a : 0) + (b > 0 ? b : 0);
  }

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const std::uint64_t first =
        (std::uint64_t{b.index().x} * threads + b.thread().x) * std::uint64_t{pairs};
    float sum = 0;
    for (unsigned i = 0; i < pairs; ++i) sum += payoff(first + i);
    sum = reduce<0>(b, sum, add{});
    if (b.thread().x == 0) sums[b.index().x] = sum;
  }
};

class monte_carlo_problem : public problem {
 public:
  using body_type = monte_carlo;
  static constexpr const char* name = "monte_carlo";
  static constexpr double tolerance = 1e-4;
  monte_carlo body{};

  monte_carlo_problem(memory& m, problem_size s) : problem(m) {
    tiles_ = choose<std::uint32_t>(s, 5, 500, 12000, 240000);
    body.seed = 17;
    body.spot = 100;
    body.strike = 105;
    body.drift = 0.01F;
    body.spread = 0.2F;
    body.sums = output_array<float>(tiles_);
    shape = {.grid = tiles_, .block = monte_carlo::threads};
  }
  double error() {
    std::vector<double> want(tiles_);
    constexpr std::size_t per_tile = std::size_t{monte_carlo::pairs} * monte_carlo::threads;
    for (std::size_t i = 0; i < tiles_ * per_tile; ++i) want[i / per_tile] += body.payoff(i);
    return largest_deviation(memory_.read(body.sums, tiles_), want);
  }

 private:
  std::uint32_t tiles_;
};

}  // namespace bench
