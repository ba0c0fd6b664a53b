// SPDX-License-Identifier: Apache-2.0
// One AdamW step on single-precision parameters: four streams read, three written.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct adamw {
  static constexpr bool barrier_free = true;
  std::uint32_t fours;
  float rate, beta1, beta2, epsilon, decay;
  float correction1, correction2;  ///< 1 / (1 - beta^step)
  const float_4* gradient;
  float_4* parameter;
  float_4* first;
  float_4* second;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const std::uint32_t i = b.index().x * b.dim().x + b.thread().x;
    if (i >= fours) return;
    const float_4 g = gradient[i];
    float_4 p = parameter[i];
    float_4 m = first[i];
    float_4 v = second[i];
    step(g.x, p.x, m.x, v.x);
    step(g.y, p.y, m.y, v.y);
    step(g.z, p.z, m.z, v.z);
    step(g.w, p.w, m.w, v.w);
    parameter[i] = p;
    first[i] = m;
    second[i] = v;
  }

  CEDE_BODY void step(float g, float& p, float& m, float& v) const {
    m = beta1 * m + (1.0F - beta1) * g;
    v = beta2 * v + (1.0F - beta2) * g * g;
    const float denominator = sqrtf(v * correction2) + epsilon;
    p -= rate * (m * correction1 / denominator + decay * p);
  }
};

class adamw_problem : public problem {
 public:
  using body_type = adamw;
  static constexpr const char* name = "adamw";
  static constexpr double tolerance = 1e-5;
  adamw body{};

  adamw_problem(memory& m, problem_size s) : problem(m) {
    body.fours = choose<std::uint32_t>(s, 777, 1U << 17U, 13U << 19U, 1U << 26U);
    body.rate = 1e-3F;
    body.beta1 = 0.9F;
    body.beta2 = 0.999F;
    body.epsilon = 1e-8F;
    body.decay = 0.01F;
    body.correction1 = 1.0F / (1.0F - std::pow(0.9F, 10.0F));
    body.correction2 = 1.0F / (1.0F - std::pow(0.999F, 10.0F));
    float* g = m.array<float>(n());
    m.fill_floats(g, n(), -0.1F, 0.1F, 8);
    p_ = output_array<float>(n());
    m_ = output_array<float>(n());
    v_ = output_array<float>(n());
    body.gradient = reinterpret_cast<const float_4*>(g);
    body.parameter = reinterpret_cast<float_4*>(p_);
    body.first = reinterpret_cast<float_4*>(m_);
    body.second = reinterpret_cast<float_4*>(v_);
    shape = {.grid = (body.fours + 255) / 256, .block = 256};
    adamw_problem::reset();
  }
  void reset() override {
    memory_.fill_floats(p_, n(), -1, 1, 9);
    memory_.fill_floats(m_, n(), -0.01F, 0.01F, 10);
    memory_.fill_floats(v_, n(), 0.0001F, 0.001F, 11);
  }
  double error() {
    std::vector<float> p(n()), m(n()), v(n());
    for (std::size_t i = 0; i < n(); ++i) {
      p[i] = random_float(i, 9, -1, 1);
      m[i] = random_float(i, 10, -0.01F, 0.01F);
      v[i] = random_float(i, 11, 0.0001F, 0.001F);
      body.step(random_float(i, 8, -0.1F, 0.1F), p[i], m[i], v[i]);
    }
    return std::fmax(largest_deviation(memory_.read(p_, n()), p),
                     std::fmax(largest_deviation(memory_.read(m_, n()), m),
                               largest_deviation(memory_.read(v_, n()), v)));
  }

 private:
  [[nodiscard]] std::size_t n() const { return std::size_t{body.fours} * 4; }
  float* p_ = nullptr;
  float* m_ = nullptr;
  float* v_ = nullptr;
};

}  // namespace bench
