// SPDX-License-Identifier: Apache-2.0
// The transformer block: right against plain loops in double precision, in the cuts of both
// devices, and never right by accident.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "colocate_fixture.hpp"

#include "../examples/colocate/memory.cpp"
#include "../examples/colocate/transformer.hpp"

using namespace colocate;
using cede_test::noise;
using cede_test::on_device;
using cede_test::small_device;

namespace {

struct host_cut {
  using tile = product_tile<32, 32, 32, 32, 1>;
  static constexpr place where = place::host;
  static constexpr service_size size{.width = 32, .heads = 2, .inner = 96};
  static constexpr std::uint32_t threads = 1;
  static constexpr std::uint32_t per_tile = 512;
  static constexpr std::uint32_t tiles_wanted = 4;
};

// What the GPU runs, but small: tiles of 128 threads, products cut along k.
struct gpu_cut {
  using tile = product_tile<32, 64, 4, 4, 6>;
  static constexpr place where = place::host;
  static constexpr service_size size{.width = 64, .heads = 4, .inner = 256};
  static constexpr std::uint32_t threads = service_threads;
  static constexpr std::uint32_t per_tile = 4 * service_threads;
  static constexpr std::uint32_t tiles_wanted = 64;
};

using matrix = std::vector<double>;

matrix normed(const matrix& x, const layer_values& l, std::size_t width) {
  matrix out(x.size());
  for (std::size_t r = 0; r < x.size(); r += width) {
    double mean = 0.0;
    double variance = 0.0;
    for (std::size_t i = 0; i < width; ++i) mean += x[r + i] / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) {
      variance += (x[r + i] - mean) * (x[r + i] - mean) / static_cast<double>(width);
    }
    for (std::size_t i = 0; i < width; ++i) {
      out[r + i] = (x[r + i] - mean) / std::sqrt(variance + 1e-5) * l.gain[i] + l.shift[i];
    }
  }
  return out;
}

matrix times(const matrix& a, const std::vector<float>& w, const std::vector<float>& bias) {
  const std::size_t columns = bias.size();
  const std::size_t summed = w.size() / columns;
  matrix out(a.size() / summed * columns);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = bias[i % columns];
    for (std::size_t k = 0; k < summed; ++k) {
      out[i] += a[i / columns * summed + k] * w[k * columns + i % columns];
    }
  }
  return out;
}

matrix attended(const matrix& qkv, std::size_t width, std::size_t heads) {
  const std::size_t n = qkv.size() / (3 * width);
  const std::size_t channels = width / heads;
  matrix out(n * width);
  for (std::size_t h = 0; h < width; h += channels) {
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> weight(n);
      double total = 0.0;
      for (std::size_t k = 0; k < n; ++k) {
        double s = 0.0;
        for (std::size_t c = h; c < h + channels; ++c) {
          s += qkv[i * 3 * width + c] * qkv[k * 3 * width + width + c];
        }
        weight[k] = std::exp(s / std::sqrt(static_cast<double>(channels)));
        total += weight[k];
      }
      for (std::size_t k = 0; k < n; ++k) {
        for (std::size_t c = h; c < h + channels; ++c) {
          out[i * width + c] += weight[k] / total * qkv[k * 3 * width + 2 * width + c];
        }
      }
    }
  }
  return out;
}

// The whole block in double precision.
matrix block(const std::vector<float>& input, const transformer_values& v, std::size_t width,
             std::size_t heads) {
  const matrix x(input.begin(), input.end());
  matrix y = times(attended(times(normed(x, v.before_attention, width), v.qkv_weights, v.qkv_bias),
                            width, heads),
                   v.out_weights, v.out_bias);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
  matrix hidden = times(normed(y, v.before_mlp, width), v.up_weights, v.up_bias);
  for (double& u : hidden) {
    u *= 0.5 * (1.0 + std::tanh(0.7978845608028654 * (u + 0.044715 * u * u * u)));
  }
  matrix out = times(hidden, v.down_weights, v.down_bias);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += y[i];
  return out;
}

template <class Cut>
void check_answers(const std::vector<std::uint32_t>& lengths) {
  small_device d;
  transformer<Cut> t(lengths, 3);
  t.make_references(d.queue);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    CAPTURE(lengths[i]);
    t.answer(d.queue, i);
    d.queue.wait();
    CHECK(t.error() < 1e-5F);
    const matrix expected = block(t.input(i), t.values(), Cut::size.width, Cut::size.heads);
    const std::vector<float> answer = t.last_answer();
    REQUIRE(answer.size() == expected.size());
    double most = 0.0;
    double magnitude = 0.0;
    for (std::size_t e = 0; e < expected.size(); ++e) {
      most = std::max(most, std::fabs(answer[e] - expected[e]));
      magnitude = std::max(magnitude, std::fabs(expected[e]));
    }
    CHECK(most < 2e-5);
    // The tolerance is for answers of the order of 1.
    CHECK(magnitude > 0.5);
    CHECK(magnitude < 50.0);
  }
}

float checked(const std::vector<float>& product, const std::vector<float>& reference) {
  small_device d;
  const std::uint32_t width = 8;
  const auto zeros = on_device(std::vector<float>(width, 0.0F));
  const auto values = on_device(product);
  const auto right = on_device(reference);
  const array<float> out(place::host, width);
  const array<float> error(place::host, 1);
  d.queue.launch({.grid = 1, .block = 1}, answer_and_check{zeros.data(),
                                                           {values.data(), 1, width},
                                                           zeros.data(),
                                                           right.data(),
                                                           out.data(),
                                                           error.data(),
                                                           width});
  d.queue.wait();
  return *error.data();
}

}  // namespace

TEST_CASE("colocate service: answers in the host's cut are right") {
  check_answers<host_cut>({8, 9, 31, 40});
}

TEST_CASE("colocate service: answers in the GPU's cut are right") {
  check_answers<gpu_cut>({8, 17, 33});
}

TEST_CASE("colocate service: an answer depends on its input") {
  small_device d;
  transformer<host_cut> t({8, 8}, 3);
  t.make_references(d.queue);
  t.answer(d.queue, 0);
  d.queue.wait();
  const auto first = t.last_answer();
  t.answer(d.queue, 1);
  d.queue.wait();
  CHECK(t.last_answer() != first);
  CHECK(t.error() < 1e-5F);
}

TEST_CASE("colocate service: nothing is right before it was computed") {
  small_device d;
  transformer<host_cut> t({8}, 3);
  t.make_references(d.queue);
  t.answer(d.queue, 0);
  d.queue.wait();
  REQUIRE(t.error() < 1e-5F);
  d.work.suspend();
  t.answer(d.queue, 0);
  CHECK(t.error() == std::numeric_limits<float>::infinity());
  d.work.resume();
  d.queue.wait();
  CHECK(t.error() < 1e-5F);
}

TEST_CASE("colocate service: without references nothing is right") {
  small_device d;
  transformer<host_cut> t({8}, 3);
  t.answer(d.queue, 0);
  d.queue.wait();
  CHECK(t.error() > answer_tolerance);
}

TEST_CASE("colocate service: the check finds differences and values that are no numbers") {
  const std::vector<float> right = noise(8, 5);
  CHECK(checked(right, right) == 0.0F);
  auto off = right;
  off[7] += 0.25F;
  off[2] -= 0.125F;
  CHECK(checked(off, right) == doctest::Approx(0.25));
  for (const std::size_t i : {0U, 3U, 7U}) {
    auto bad = off;
    bad[i] = std::numeric_limits<float>::quiet_NaN();
    CHECK(checked(bad, right) == std::numeric_limits<float>::infinity());
    bad[i] = std::numeric_limits<float>::infinity();
    CHECK(checked(bad, right) == std::numeric_limits<float>::infinity());
  }
}

TEST_CASE("colocate service: GELU") {
  for (int i = -80; i <= 80; ++i) {
    const double x = i / 10.0;
    const double expected =
        0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    CHECK(std::fabs(gelu(static_cast<float>(x)) - expected) < 2e-6);
  }
}
