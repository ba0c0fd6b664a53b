// SPDX-License-Identifier: Apache-2.0
// Prices of European calls and puts in closed form: three streams in, two out, and arithmetic.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

/// One price, in the precision of the caller.
template <class T>
CEDE_BODY void price_options(T spot, T strike, T years, T rate, T volatility, T& call, T& put) {
  using std::erfc;
  using std::exp;
  using std::log;
  using std::sqrt;
  const T root = volatility * sqrt(years);
  const T d1 = (log(spot / strike) + (rate + T(0.5) * volatility * volatility) * years) / root;
  const T d2 = d1 - root;
  const T half_root = T(0.70710678118654752);
  const T n1 = T(0.5) * erfc(-d1 * half_root);
  const T n2 = T(0.5) * erfc(-d2 * half_root);
  const T discounted = strike * exp(-rate * years);
  call = spot * n1 - discounted * n2;
  put = discounted * (T(1) - n2) - spot * (T(1) - n1);
}

struct black_scholes {
  static constexpr bool barrier_free = true;
  std::uint32_t fours;
  float rate, volatility;
  const float_4* spot;
  const float_4* strike;
  const float_4* years;
  float_4* call;
  float_4* put;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const std::uint32_t i = b.index().x * b.dim().x + b.thread().x;
    if (i >= fours) return;
    const float_4 s = spot[i];
    const float_4 k = strike[i];
    const float_4 t = years[i];
    float_4 c;
    float_4 p;
    price_options(s.x, k.x, t.x, rate, volatility, c.x, p.x);
    price_options(s.y, k.y, t.y, rate, volatility, c.y, p.y);
    price_options(s.z, k.z, t.z, rate, volatility, c.z, p.z);
    price_options(s.w, k.w, t.w, rate, volatility, c.w, p.w);
    call[i] = c;
    put[i] = p;
  }
};

class black_scholes_problem : public problem {
 public:
  using body_type = black_scholes;
  static constexpr const char* name = "black_scholes";
  static constexpr double tolerance = 2e-4;  // of prices up to 30, differences of larger numbers
  black_scholes body{};

  black_scholes_problem(memory& m, problem_size s) : problem(m) {
    body.fours = choose<std::uint32_t>(s, 777, 1U << 17U, 6U << 20U, 1U << 26U);
    body.rate = 0.02F;
    body.volatility = 0.3F;
    body.spot = input(m, 5, 30, 14);
    body.strike = input(m, 1, 100, 15);
    body.years = input(m, 0.25F, 10, 16);
    call_ = output_array<float>(n());
    put_ = output_array<float>(n());
    body.call = reinterpret_cast<float_4*>(call_);
    body.put = reinterpret_cast<float_4*>(put_);
    shape = {.grid = (body.fours + 255) / 256, .block = 256};
  }
  double error() {
    std::vector<double> call(n()), put(n());
    for (std::size_t i = 0; i < n(); ++i) {
      price_options<double>(random_float(i, 14, 5, 30), random_float(i, 15, 1, 100),
                            random_float(i, 16, 0.25F, 10), body.rate, body.volatility, call[i],
                            put[i]);
    }
    return std::fmax(largest_deviation(memory_.read(call_, n()), call),
                     largest_deviation(memory_.read(put_, n()), put));
  }

 private:
  [[nodiscard]] std::size_t n() const { return std::size_t{body.fours} * 4; }
  const float_4* input(memory& m, float low, float high, std::uint32_t seed) {
    float* p = m.array<float>(n());
    m.fill_floats(p, n(), low, high, seed);
    return reinterpret_cast<const float_4*>(p);
  }
  float* call_ = nullptr;
  float* put_ = nullptr;
};

}  // namespace bench
