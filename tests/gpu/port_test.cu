// SPDX-License-Identifier: Apache-2.0
// Kernels as they are, on a GPU: the same text, launched plainly and through cede under random
// raises, gives the same bits.
#include <support/gpu.hpp>

#include <cede/cuda_usage.hpp>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>

#include "under_raises.cuh"

using namespace test;
using namespace std::chrono_literals;

namespace {

namespace plain {
#include "port_kernels.hpp"
}
namespace ported {
// clang-format off: the order is the point
#include <cede/port/begin.hpp>
#include "port_kernels.hpp"
#include <cede/port/end.hpp>
// clang-format on
}  // namespace ported

constexpr cede::kernel_traits safe{.persistent_safe = true};
constexpr cede::kernel_traits bounded{.max_threads = 256, .min_blocks = 2, .persistent_safe = true};

}  // namespace

TEST_CASE("ported: a templated tiled transpose, 2-D") {
  const int width = 3001;
  const int height = static_cast<int>(sized(2000)) + 7;
  const dim3 grid((width + 15) / 16, (height + 15) / 16);
  const dim3 block(16, 16);
  const cede::shape shape{.grid = grid, .block = block};
  const auto n = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  buffer<float> in(random_values<float>(n)), out(n);
  plain::transpose<float><<<grid, block>>>(out.get(), in.get(), width, height);
  const auto expected = out.read();
  both_forms(
      shape, cede::bind(cede::body<ported::transpose<float>>, out.get(), in.get(), width, height),
      cede::bind(cede::body<ported::transpose<float>, bounded>, out.get(), in.get(), width, height),
      out, expected);
}

TEST_CASE("ported: early returns before barriers, dynamic shared memory") {
  for (const unsigned n : {1U, 1000U, sized(3000037U)}) {
    const unsigned threads = 96;
    const unsigned tiles = (n + threads - 1) / threads;
    const cede::shape shape{.grid = tiles, .block = threads, .shared = threads * sizeof(unsigned)};
    buffer<unsigned> in(random_values<unsigned>(n)), out(n);
    plain::mirror<<<tiles, threads, shape.shared>>>(out.get(), in.get(), n);
    const auto expected = out.read();
    const auto undeclared = cede::bind(cede::body<ported::mirror>, out.get(), in.get(), n);
    const auto declared = cede::bind(cede::body<ported::mirror, safe>, out.get(), in.get(), n);
    if (n > 1000) {
      both_forms(shape, undeclared, declared, out, expected);
      continue;
    }
    for (const cede::form how : {cede::form::gated, cede::form::persistent}) {
      out.clear();
      cede::preemptible job{shape, declared, {.form = how}};
      job.launch();
      REQUIRE(job.wait_for(patience()));
      CHECK(job.finished());
      CHECK(out.read() == expected);
    }
  }
}

TEST_CASE("ported: a CUB block reduction") {
  const unsigned tiles = sized(40000);
  const cede::shape shape{.grid = tiles, .block = 128};
  buffer<float> in(random_values<float>(tiles * 128UL)), out(tiles);
  plain::block_sums<<<tiles, 128>>>(out.get(), in.get());
  const auto expected = out.read();
  both_forms(shape, cede::bind(cede::body<ported::block_sums>, out.get(), in.get()),
             cede::bind(cede::body<ported::block_sums, safe>, out.get(), in.get()), out, expected);
}

TEST_CASE("ported: reductions over tiles of cooperative groups") {
  const unsigned tiles = sized(40000);
  const cede::shape shape{.grid = tiles, .block = 256};
  buffer<unsigned> in(random_values<unsigned>(tiles * 256UL)), out(tiles * 16UL);
  plain::tile_sums<<<tiles, 256>>>(out.get(), in.get());
  const auto expected = out.read();
  both_forms(shape, cede::bind(cede::body<ported::tile_sums>, out.get(), in.get()),
             cede::bind(cede::body<ported::tile_sums, safe>, out.get(), in.get()), out, expected);
}

TEST_CASE("ported: a 3-D stencil through shared memory") {
  const int nx = 264;
  const int ny = 132;
  const int nz = static_cast<int>(sized(160)) / 4 * 4;
  const dim3 grid(nx / 8, ny / 4, nz / 4);
  const dim3 block(8, 4, 4);
  const cede::shape shape{.grid = grid, .block = block};
  const auto n = static_cast<std::size_t>(nx) * ny * static_cast<std::size_t>(nz);
  buffer<unsigned> in(random_values<unsigned>(n)), out(n);
  plain::stencil<<<grid, block>>>(out.get(), in.get(), nx, ny, nz);
  const auto expected = out.read();
  both_forms(shape, cede::bind(cede::body<ported::stencil>, out.get(), in.get(), nx, ny, nz),
             cede::bind(cede::body<ported::stencil, safe>, out.get(), in.get(), nx, ny, nz), out,
             expected);
}

TEST_CASE("ported: barriers with results, in native blocks") {
  const unsigned tiles = sized(40000);
  buffer<unsigned> in(random_values<unsigned>(tiles * 256UL)), out(tiles);
  plain::votes<<<tiles, 256>>>(out.get(), in.get());
  const auto expected = out.read();
  under_raises({.grid = tiles, .block = 256},
               cede::bind(cede::body<ported::votes>, out.get(), in.get()), cede::form::gated, out,
               expected);
}

TEST_CASE("ported: a large argument, arguments converted, and no copy of them in gated code") {
  const unsigned tiles = sized(40000);
  plain::weights theirs;
  ported::weights ours;
  for (unsigned i = 0; i < 200; ++i) theirs.of[i] = ours.of[i] = mix(i);
  buffer<unsigned> out(tiles * 256UL);
  plain::weigh<<<tiles, 256>>>(out.get(), theirs, 7);
  const auto expected = out.read();
  const cede::shape shape{.grid = tiles, .block = 256};
  const auto body = cede::bind(cede::body<ported::weigh>, out.get(), ours, 7LL);
  under_raises(shape, body, cede::form::gated, out, expected);
  CHECK(cede::usage_of(body, shape, cede::form::gated).local_bytes == 0);
  CHECK(cede::usage_of(body, shape, cede::form::whole).local_bytes == 0);
}

TEST_CASE(
    "ported: overloads by signature, launched whole, in slices and on streams of both sides") {
  const unsigned tiles = sized(20000);
  buffer<unsigned> narrow(tiles);
  buffer<unsigned long long> wide(tiles);
  std::vector<unsigned> once(tiles);
  std::vector<unsigned long long> twice(tiles);
  for (unsigned i = 0; i < tiles; ++i) {
    once[i] = 1 + i;
    twice[i] = 2ULL * (2 + i);
  }
  const cede::shape shape{.grid = tiles, .block = 1};
  cede::sliceable parts{shape, cede::bind(cede::body<void(unsigned*), ported::mark>, narrow.get())};
  raw_stream s;
  for (auto p : parts.slices({.count = 7})) parts.launch(s.s, p);
  CUDA_OK(cudaStreamSynchronize(s.s));
  CHECK(narrow.read() == once);

  cede::scheduler gpu;
  auto serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
  auto train = gpu.workload({.name = "train", .priority = cede::best_effort});
  cede::stream front = serve.stream();
  cede::stream back = train.stream();
  back.launch(shape, cede::body<void(unsigned long long*), ported::mark>, wide.get());
  back.launch(shape, {.form = cede::form::gated},
              cede::body<void(unsigned long long*), ported::mark>, wide.get());
  narrow.clear();
  front.launch(shape, cede::body<void(unsigned*), ported::mark>, narrow.get());
  REQUIRE(front.synchronize_for(patience()));
  REQUIRE(back.synchronize_for(patience()));
  CHECK(narrow.read() == once);
  CHECK(wide.read() == twice);
}

TEST_CASE("ported: dynamic shared memory up to the device's limit") {
  int most = 0;
  CUDA_OK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  const unsigned n = 96 * 700;
  buffer<unsigned> in(random_values<unsigned>(n)), out(n);
  plain::mirror<<<700, 96, 96 * sizeof(unsigned)>>>(out.get(), in.get(), n);
  const auto expected = out.read();
  for (const cede::form how : {cede::form::gated, cede::form::persistent}) {
    for (const int less : {0, 16, 40}) {
      out.clear();
      cede::preemptible job{
          {.grid = 700, .block = 96, .shared = static_cast<std::size_t>(most - less)},
          cede::bind(cede::body<ported::mirror, safe>, out.get(), in.get(), n),
          {.form = how}};
      job.launch();
      REQUIRE(job.wait_for(patience()));
      CHECK(out.read() == expected);
    }
  }
}

TEST_CASE("ported: launch bounds, stated or chosen by the shape, and what the code needs") {
  buffer<unsigned> out(8);
  const auto free = cede::bind(cede::body<void(unsigned*), ported::mark>, out.get());
  for (const unsigned threads : {1U, 256U, 257U, 512U, 513U, 1024U}) {
    const unsigned bound = threads <= 256 ? 256 : threads <= 512 ? 512 : 1024;
    const auto u = cede::usage_of(free, {.grid = 8, .block = threads}, cede::form::gated);
    CHECK(u.max_threads == bound);
    CHECK(u.registers * bound <= 65536);
    CHECK(u.registers > 0);
    CHECK(u.local_bytes == 0);
  }
  const auto tight = cede::bind(
      cede::body<void(unsigned*), ported::mark, cede::kernel_traits{.max_threads = 64}>, out.get());
  CHECK(cede::usage_of(tight, {.grid = 8, .block = 64}, cede::form::whole).max_threads == 64);
  CHECK_THROWS_AS((cede::preemptible{{.grid = 8, .block = 65}, tight}), cede::invalid_argument);
  CHECK_THROWS_AS((cede::preemptible{{.grid = 8, .block = 2000}, free}), cede::invalid_argument);
  // Not declared safe in persistent workers.
  CHECK_THROWS_AS(
      (cede::preemptible{{.grid = 8, .block = 64}, free, {.form = cede::form::persistent}}),
      cede::not_supported);
  CHECK_THROWS_AS(static_cast<void>(cede::usage_of(free, {.grid = 8}, cede::form::persistent)),
                  cede::not_supported);
  CHECK_THROWS_AS(static_cast<void>(cede::usage_of(free, {.grid = 8}, cede::form::automatic)),
                  cede::invalid_argument);
}
