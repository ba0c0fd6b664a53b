// SPDX-License-Identifier: Apache-2.0
// Gravity of 128 sources on 256 bodies a tile: all pairs, cut along both axes so that a tile is
// short. A tile writes a partial acceleration; whoever integrates adds them up in order.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct n_body {
  static constexpr unsigned targets = 256;
  static constexpr unsigned max_threads = targets;
  static constexpr unsigned min_blocks = 8;  // as many as it has natively
  static constexpr unsigned sources = 128;
  std::uint32_t n;
  float softening;
  const float_4* bodies;  // x, y, z, mass
  float_4* partial;       // [source block][body]

  template <class T>
  CEDE_BODY static void pull(const float_4& on, const float_4& by, T softening, T& ax, T& ay,
                             T& az) {
    const T dx = T(by.x) - T(on.x);
    const T dy = T(by.y) - T(on.y);
    const T dz = T(by.z) - T(on.z);
    const T square = dx * dx + dy * dy + dz * dz + softening;
#if defined(__CUDA_ARCH__)
    const T inverse = rsqrtf(square);
#else
    const T inverse = T(1) / std::sqrt(square);
#endif
    const T strength = T(by.w) * inverse * inverse * inverse;
    ax += dx * strength;
    ay += dy * strength;
    az += dz * strength;
  }

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    float_4* near = b.template shared<array_of<float_4, sources>>().at;
    const unsigned t = b.thread().x;
    if (t < sources) near[t] = bodies[b.index().y * sources + t];
    const std::uint32_t i = b.index().x * targets + t;
    const float_4 me = bodies[i];
    barrier(b);
    float ax = 0;
    float ay = 0;
    float az = 0;
    BENCH_UNROLL
    for (unsigned j = 0; j < sources; ++j) pull(me, near[j], softening, ax, ay, az);
    partial[std::size_t{b.index().y} * n + i] = {ax, ay, az, 0};
  }
};

class n_body_problem : public problem {
 public:
  using body_type = n_body;
  static constexpr const char* name = "n_body";
  static constexpr double tolerance = 1e-4;
  n_body body{};

  n_body_problem(memory& m, problem_size s) : problem(m) {
    body.n = choose<std::uint32_t>(s, 512, 3840, 16896, 57344);
    body.softening = 0.01F;
    place_ = m.array<float>(std::size_t{4} * body.n);
    m.fill_floats(place_, std::size_t{4} * body.n, 0.1F, 1, 18);
    body.bodies = reinterpret_cast<const float_4*>(place_);
    out_ = output_array<float>(4 * blocks() * body.n);
    body.partial = reinterpret_cast<float_4*>(out_);
    shape = {.grid = {body.n / n_body::targets, blocks()}, .block = n_body::targets};
  }
  double error() {
    const auto flat = memory_.read(place_, std::size_t{4} * body.n);
    std::vector<float_4> at(body.n);
    for (std::size_t i = 0; i < body.n; ++i) {
      at[i] = {flat[4 * i], flat[4 * i + 1], flat[4 * i + 2], flat[4 * i + 3]};
    }
    const auto parts = memory_.read(out_, 4 * blocks() * body.n);
    std::vector<double> got(std::size_t{3} * body.n);
    std::vector<double> want(std::size_t{3} * body.n);
    for (std::size_t i = 0; i < body.n; ++i) {
      for (std::size_t p = 0; p < blocks(); ++p) {
        for (std::size_t c = 0; c < 3; ++c) got[3 * i + c] += parts[4 * (p * body.n + i) + c];
      }
      for (std::size_t j = 0; j < body.n; ++j) {
        n_body::pull<double>(at[i], at[j], body.softening, want[3 * i], want[3 * i + 1],
                             want[3 * i + 2]);
      }
    }
    return largest_deviation(got, want, body.n);  // pulls cancel: scaled by their number
  }

 private:
  [[nodiscard]] std::size_t blocks() const { return body.n / n_body::sources; }
  float* place_ = nullptr;
  float* out_ = nullptr;
};

}  // namespace bench
