// SPDX-License-Identifier: Apache-2.0
// The matrix product of the main job against plain loops in double precision, in the tiles of both
// devices, and the arithmetic below it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "colocate_fixture.hpp"

#include "../examples/colocate/memory.cpp"
#include "../examples/colocate/product.hpp"
#include "../examples/colocate/tile_reduce.hpp"

using namespace colocate;
using cede_test::noise;
using cede_test::on_device;
using cede_test::small_device;

namespace {

using host_tile = product_tile<32, 32, 32, 32, 1>;
using training_tile = product_tile<64, 64, 8, 4, 4>;
using service_tile = product_tile<32, 64, 4, 4, 6>;

// Largest difference between C = A B by the body and by plain loops.
template <class Tile, contiguous A, contiguous B>
double worst(std::uint32_t rows, std::uint32_t columns, std::uint32_t summed, std::uint32_t chunk) {
  small_device d;
  const std::vector<float> a = noise(std::size_t{rows} * summed, 1);
  const std::vector<float> b = noise(std::size_t{summed} * columns, 2);
  const auto at_a = [&](std::size_t i, std::size_t k) {
    return a[A == contiguous::summed ? i * summed + k : k * rows + i];
  };
  const auto at_b = [&](std::size_t k, std::size_t j) {
    return b[B == contiguous::summed ? j * summed + k : k * columns + j];
  };
  const std::uint32_t chunks = (summed + chunk - 1) / chunk;
  const auto device_a = on_device(a);
  const auto device_b = on_device(b);
  const std::vector<float> unwritten(std::size_t{chunks} * rows * columns,
                                     std::numeric_limits<float>::quiet_NaN());
  const auto out = on_device(unwritten);
  const slabs to{out.data(), chunks, rows * columns};
  const product<Tile, A, B, store_to_slabs> body{
      {device_a.data(), A == contiguous::summed ? summed : rows},
      {device_b.data(), B == contiguous::summed ? summed : columns},
      {to, columns},
      rows,
      columns,
      summed,
      chunk};
  d.queue.launch(body.shape(), body);
  d.queue.wait();
  double most = 0.0;
  for (std::uint32_t i = 0; i < rows; ++i) {
    for (std::uint32_t j = 0; j < columns; ++j) {
      double expected = 0.0;
      for (std::uint32_t k = 0; k < summed; ++k) {
        expected += static_cast<double>(at_a(i, k)) * at_b(k, j);
      }
      const std::uint32_t element = i * columns + j;
      const double difference =
          std::fabs(static_cast<double>(to.sum(element - element % 4).v[element % 4]) - expected);
      if (!(difference <= most)) most = difference;  // also if it is no number
    }
  }
  return most;
}

constexpr double rounding = 2e-5;
constexpr auto by_sum = contiguous::summed;
constexpr auto by_rest = contiguous::kept;

struct sum_of_ranks {
  int* out;
  CEDE_BODY void operator()(cede::block t) const {
    const int sum = tile_sum<128>(t, static_cast<int>(t.thread_rank()) + 1);
    const int again = tile_sum<128>(t, 1);
    t.atomic_add(out, sum == static_cast<int>(t.size() * (t.size() + 1) / 2) &&
                              again == static_cast<int>(t.size())
                          ? 1
                          : 0);
  }
};

}  // namespace

TEST_CASE("colocate product: the host's tile, all four layouts") {
  CHECK(worst<host_tile, by_sum, by_rest>(64, 64, 48, 48) < rounding);
  CHECK(worst<host_tile, by_rest, by_rest>(64, 32, 64, 16) < rounding);
  CHECK(worst<host_tile, by_sum, by_sum>(32, 64, 32, 32) < rounding);
  CHECK(worst<host_tile, by_rest, by_sum>(32, 32, 96, 32) < rounding);
}

TEST_CASE("colocate product: rows need not fill their tiles") {
  for (const std::uint32_t rows : {1U, 8U, 31U, 33U, 45U}) {
    CAPTURE(rows);
    CHECK(worst<host_tile, by_sum, by_rest>(rows, 64, 64, 64) < rounding);
  }
}

TEST_CASE("colocate product: the last chunk may be shorter") {
  CHECK(worst<host_tile, by_sum, by_rest>(32, 32, 80, 48) < rounding);
  CHECK(worst<host_tile, by_sum, by_rest>(32, 32, 80, 128) < rounding);
}

TEST_CASE("colocate product: the GPU's tiles of 128 threads, on fibers") {
  CHECK(worst<training_tile, by_sum, by_rest>(64, 128, 48, 32) < rounding);
  CHECK(worst<training_tile, by_rest, by_rest>(64, 64, 32, 16) < rounding);
  CHECK(worst<training_tile, by_sum, by_sum>(128, 64, 16, 16) < rounding);
  CHECK(worst<service_tile, by_sum, by_rest>(45, 64, 64, 32) < rounding);
  CHECK(worst<service_tile, by_sum, by_rest>(9, 128, 48, 48) < rounding);
}

TEST_CASE("colocate product: slabs add up in groups") {
  std::vector<float> values;
  for (int s = 0; s < 5; ++s) {
    for (int i = 0; i < 8; ++i) values.push_back(static_cast<float>(100 * s + i));
  }
  const slabs s{values.data(), 5, 8};
  CHECK(s.sum(0).v[0] == 1000);
  CHECK(s.sum(4).v[3] == 1000 + 5 * 7);
  CHECK(s.sum(4, 1, 2).v[0] == 100 + 200 + 2 * 4);
  CHECK(s.sum(0, 0, 0).v[2] == 0);
}

TEST_CASE("colocate product: values of a tile's threads are combined") {
  for (const unsigned threads : {1U, 2U, 64U, 128U}) {
    CAPTURE(threads);
    small_device d;
    const array<int> good(place::host, 1);
    d.queue.launch({.grid = 3, .block = threads}, sum_of_ranks{good.data()});
    d.queue.wait();
    CHECK(*good.data() == static_cast<int>(3 * threads));
  }
}

TEST_CASE("colocate math: the exponential, over its whole range") {
  double most = 0.0;
  for (int i = -87000; i <= 88000; i += 7) {
    const float x = static_cast<float>(i) / 1000.0F;
    const double expected = std::exp(static_cast<double>(x));
    most = std::max(most, std::fabs(exponential(x) - expected) / expected);
  }
  CHECK(most < 3e-7);
  CHECK(exponential(0.0F) == 1.0F);
  CHECK(exponential(-88.0F) == 0.0F);
  CHECK(exponential(-std::numeric_limits<float>::infinity()) == 0.0F);
  CHECK(exponential(1000.0F) == exponential(88.0F));
  CHECK(std::isfinite(exponential(1000.0F)));
}
