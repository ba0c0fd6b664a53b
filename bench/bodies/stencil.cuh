// SPDX-License-Identifier: Apache-2.0
// A seven-point stencil on a grid of three axes; a thread walks up eight planes. Values outside are
// those of the border.
#pragma once

#include "common/problem.hpp"

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

struct stencil {
  static constexpr bool barrier_free = true;
  static constexpr unsigned across = 32, along = 8, up = 8;
  std::uint32_t nx, ny, nz;
  float centre, side;
  const float* in;
  float* out;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const std::uint32_t x = b.index().x * across + b.thread().x;
    const std::uint32_t y = b.index().y * along + b.thread().y;
    if (x >= nx || y >= ny) return;
    const std::uint32_t first = b.index().z * up;
    const std::uint32_t end = first + up < nz ? first + up : nz;
    const std::size_t plane = std::size_t{nx} * ny;
    const std::size_t west = x > 0 ? 1 : 0;
    const std::size_t east = x + 1 < nx ? 1 : 0;
    const std::size_t south = y > 0 ? nx : 0;
    const std::size_t north = y + 1 < ny ? nx : 0;
    const float* p = in + first * plane + std::size_t{y} * nx + x;
    float* q = out + (p - in);
    float below = first > 0 ? *(p - plane) : *p;
    float here = *p;
    for (std::uint32_t z = first; z < end; ++z) {
      const float above = z + 1 < nz ? p[plane] : here;
      *q = centre * here +
           side * (((*(p - west) + p[east]) + (*(p - south) + p[north])) + (below + above));
      below = here;
      here = above;
      p += plane;
      q += plane;
    }
  }
};

class stencil_problem : public problem {
 public:
  using body_type = stencil;
  static constexpr const char* name = "stencil";
  static constexpr double tolerance = 1e-6;
  stencil body{};

  stencil_problem(memory& m, problem_size s) : problem(m) {
    body.nx = choose<std::uint32_t>(s, 45, 96, 384, 1024);
    body.ny = choose<std::uint32_t>(s, 19, 70, 384, 1024);
    body.nz = choose<std::uint32_t>(s, 11, 61, 384, 1024);
    body.centre = 0.4F;
    body.side = 0.1F;
    float* in = m.array<float>(elements());
    m.fill_floats(in, elements(), -1, 1, 7);
    body.in = in;
    body.out = output_array<float>(elements());
    shape = {.grid = {parts(body.nx, stencil::across), parts(body.ny, stencil::along),
                      parts(body.nz, stencil::up)},
             .block = {stencil::across, stencil::along}};
  }
  double error() {
    const auto nx = static_cast<std::int64_t>(body.nx);
    const auto ny = static_cast<std::int64_t>(body.ny);
    const auto nz = static_cast<std::int64_t>(body.nz);
    auto within = [](std::int64_t v, std::int64_t n) { return v < 0 ? 0 : v >= n ? n - 1 : v; };
    auto at = [&](std::int64_t x, std::int64_t y, std::int64_t z) {
      const std::int64_t i = (within(z, nz) * ny + within(y, ny)) * nx + within(x, nx);
      return static_cast<double>(random_float(static_cast<std::uint64_t>(i), 7, -1, 1));
    };
    std::vector<double> want(elements());
    std::size_t i = 0;
    for (std::int64_t z = 0; z < nz; ++z) {
      for (std::int64_t y = 0; y < ny; ++y) {
        for (std::int64_t x = 0; x < nx; ++x, ++i) {
          want[i] = 0.4 * at(x, y, z) + 0.1 * (at(x - 1, y, z) + at(x + 1, y, z) + at(x, y - 1, z) +
                                               at(x, y + 1, z) + at(x, y, z - 1) + at(x, y, z + 1));
        }
      }
    }
    return largest_deviation(memory_.read(body.out, elements()), want);
  }

 private:
  static std::uint32_t parts(std::uint32_t n, std::uint32_t of) { return (n + of - 1) / of; }
  [[nodiscard]] std::size_t elements() const { return std::size_t{body.nx} * body.ny * body.nz; }
};

}  // namespace bench
