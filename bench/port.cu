// SPDX-License-Identifier: Apache-2.0
// What it costs to leave a kernel's text as it is: five ported kernels, each against a body written
// by hand for cede, in the same form and shape.
#include "common/cuda_memory.cuh"
#include "measure/preemptible.cuh"
#include "measure/program.cuh"
#include "measure/timing.cuh"

#include <cede/cede.hpp>
#include <cede/cuda_usage.hpp>

#include <benchmark/benchmark.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

// The text that the tests hold against plain launches.
// clang-format off: the order is the point
#include <cede/port/begin.hpp>
#include <gpu/port_kernels.hpp>
#include <cede/port/end.hpp>
// clang-format on

namespace {

/// A kernel that may run in persistent workers, too.
constexpr cede::kernel_traits safe{.persistent_safe = true};
constexpr cede::kernel_traits bounded{.max_threads = 256, .min_blocks = 1, .persistent_safe = true};

namespace by_hand {

struct transpose {
  static constexpr unsigned max_threads = 256;
  float* out;
  const float* in;
  int width;
  int height;
  __device__ void operator()(cede::block b) const {
    __shared__ float tile[16][17];
    const auto at = b.index();
    const auto t = b.thread();
    int x = static_cast<int>(at.x * 16 + t.x);
    int y = static_cast<int>(at.y * 16 + t.y);
    if (x < width && y < height) tile[t.y][t.x] = in[y * width + x];
    b.sync();
    x = static_cast<int>(at.y * 16 + t.x);
    y = static_cast<int>(at.x * 16 + t.y);
    if (x < height && y < width) out[y * height + x] += tile[t.x][t.y];
  }
};

struct mirror {
  unsigned* out;
  const unsigned* in;
  unsigned n;
  __device__ void operator()(cede::block b) const {
    unsigned* row = b.dynamic_shared<unsigned>();
    const unsigned size = b.dim().x;
    const unsigned base = b.index().x * size;
    const unsigned t = b.thread().x;
    if (base + t >= n) return;
    const unsigned here = n - base < size ? n - base : size;
    row[t] = in[base + t];
    b.sync();
    const unsigned other = row[here - 1 - t];
    b.sync();
    row[t] = other + b.grid().x;
    b.sync();
    out[base + t] += row[here - 1 - t] + 3 * other;
  }
};

struct block_sums {
  float* sums;
  const float* in;
  __device__ void operator()(cede::block b) const {
    using reduce = cub::BlockReduce<float, 128>;
    __shared__ typename reduce::TempStorage storage;
    const float sum = reduce(storage).Sum(in[b.index().x * 128 + b.thread().x]);
    if (b.thread().x == 0) sums[b.index().x] += sum;
  }
};

struct tile_sums {
  unsigned* sums;
  const unsigned* in;
  __device__ void operator()(cede::block b) const {
    const auto tile =
        cooperative_groups::tiled_partition<16>(cooperative_groups::this_thread_block());
    __shared__ unsigned part[16];
    const unsigned t = b.thread_rank();
    const unsigned v = in[b.index().x * b.size() + t];
    const unsigned sum = cooperative_groups::reduce(tile, v, cooperative_groups::plus<unsigned>());
    if (t % 16 == 0) part[t / 16] = sum;
    b.sync();
    const unsigned tiles = b.size() / 16;
    if (t < tiles) sums[b.index().x * tiles + t] += part[t];
  }
};

struct stencil {
  unsigned* out;
  const unsigned* in;
  int nx, ny, nz;
  __device__ void operator()(cede::block b) const {
    __shared__ unsigned box[6][6][10];
    const auto at = b.index();
    const auto t = b.thread();
    const auto d = b.dim();
    const int x0 = static_cast<int>(at.x) * 8;
    const int y0 = static_cast<int>(at.y) * 4;
    const int z0 = static_cast<int>(at.z) * 4;
    const int threads = static_cast<int>(b.size());
    const int rank = static_cast<int>(t.x + 8 * (t.y + 4 * t.z));
    for (int i = rank; i < 6 * 6 * 10; i += threads) {
      const int x = (x0 + i % 10 - 1 + nx) % nx;
      const int y = (y0 + i / 10 % 6 - 1 + ny) % ny;
      const int z = (z0 + i / 60 - 1 + nz) % nz;
      box[i / 60][i / 10 % 6][i % 10] = in[(z * ny + y) * nx + x];
    }
    b.sync();
    const unsigned x = t.x + 1;
    const unsigned y = t.y + 1;
    const unsigned z = t.z + 1;
    const unsigned sum = box[z][y][x - 1] + 3 * box[z][y][x + 1] + 5 * box[z][y - 1][x] +
                         7 * box[z][y + 1][x] + 11 * box[z - 1][y][x] + 13 * box[z + 1][y][x];
    const auto g = b.grid();
    const unsigned gx = g.x * d.x;
    const unsigned gy = g.y * d.y;
    out[((static_cast<unsigned>(z0) + t.z) * gy + static_cast<unsigned>(y0) + t.y) * gx +
        static_cast<unsigned>(x0) + t.x] += sum + g.z;
  }
};

}  // namespace by_hand

constexpr int launches = 8;

template <class Body>
std::deque<cede::preemptible<Body>> jobs(const cede::shape& s, const Body& body,
                                         const cede::launch_options& o) {
  std::deque<cede::preemptible<Body>> made;
  for (int i = 0; i < launches; ++i) made.emplace_back(s, body, o);
  return made;
}

/// `text`: the ported kernel bound to its arguments; `hand`: the body. Both forms, one row.
template <class Text, class Hand>
void compare(benchmark::State& state, const cede::shape& shape, const Text& text,
             const Hand& hand) {
  for (const cede::form how : {cede::form::gated, cede::form::persistent}) {
    const cede::launch_options o{
        .form = how, .workers_per_sm = 8, .tiles_per_claim = 4, .chunk = 1U << 20U};
    bench::timer clock;
    auto theirs = jobs(shape, hand, o);
    auto ours = jobs(shape, text, o);
    const auto time_theirs = [&] { return bench::time_launches(clock, theirs, true); };
    const auto time_ours = [&] { return bench::time_launches(clock, ours, true); };
    time_theirs();
    time_ours();
    const bench::pair_times t = bench::time_pairs(time_theirs, time_ours, bench::pairs);
    const bool gated = how == cede::form::gated;
    const auto usage = cede::usage_of(text, shape, how);
    const auto hand_usage = cede::usage_of(hand, shape, how);
    const std::string of = gated ? "" : "persistent_";
    state.counters[of + "ratio_to_handwritten"] = t.ratio();
    state.counters[of + "registers"] = usage.registers;
    state.counters[of + "registers_handwritten"] = hand_usage.registers;
    state.counters[of + "local_bytes"] = static_cast<double>(usage.local_bytes);
    if (gated) state.SetIterationTime(t.second_us * 1e-6);
  }
}

void transpose_row(benchmark::State& state) {
  bench::cuda_memory m;
  const int width = 6000;
  const int height = 4000;
  const auto n = static_cast<std::size_t>(width) * height;
  float* in = m.array<float>(n);
  float* out = m.array<float>(n);
  m.fill_floats(in, n, -1, 1, 1);
  const cede::shape shape{.grid = dim3(375, 250), .block = dim3(16, 16)};
  compare(state, shape, cede::bind(cede::body<transpose<float>, bounded>, out, in, width, height),
          by_hand::transpose{out, in, width, height});
}
void mirror_row(benchmark::State& state) {
  bench::cuda_memory m;
  const unsigned n = 20'000'037;
  auto* in = m.array<unsigned>(n);
  auto* out = m.array<unsigned>(n);
  m.fill_integers(in, n, 0, 2);
  const cede::shape shape{.grid = (n + 255) / 256, .block = 256, .shared = 1024};
  compare(state, shape, cede::bind(cede::body<mirror, safe>, out, in, n),
          by_hand::mirror{out, in, n});
}
void block_sums_row(benchmark::State& state) {
  bench::cuda_memory m;
  const unsigned tiles = 200'000;
  auto* in = m.array<float>(std::size_t{tiles} * 128);
  auto* out = m.array<float>(tiles);
  m.fill_floats(in, std::size_t{tiles} * 128, -1, 1, 3);
  compare(state, {.grid = tiles, .block = 128}, cede::bind(cede::body<block_sums, safe>, out, in),
          by_hand::block_sums{out, in});
}
void tile_sums_row(benchmark::State& state) {
  bench::cuda_memory m;
  const unsigned tiles = 100'000;
  auto* in = m.array<unsigned>(std::size_t{tiles} * 256);
  auto* out = m.array<unsigned>(std::size_t{tiles} * 16);
  m.fill_integers(in, std::size_t{tiles} * 256, 0, 4);
  compare(state, {.grid = tiles, .block = 256}, cede::bind(cede::body<tile_sums, safe>, out, in),
          by_hand::tile_sums{out, in});
}
void stencil_row(benchmark::State& state) {
  bench::cuda_memory m;
  const int side = 256;
  const std::size_t n = std::size_t{side} * side * side;
  auto* in = m.array<unsigned>(n);
  auto* out = m.array<unsigned>(n);
  m.fill_integers(in, n, 0, 5);
  const cede::shape shape{.grid = dim3(side / 8, side / 4, side / 4), .block = dim3(8, 4, 4)};
  compare(state, shape, cede::bind(cede::body<stencil, safe>, out, in, side, side, side),
          by_hand::stencil{out, in, side, side, side});
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::have_device()) return 1;
  const std::pair<const char*, void (*)(benchmark::State&)> rows[] = {
      {"port/transpose", transpose_row},
      {"port/mirror", mirror_row},
      {"port/block_sums", block_sums_row},
      {"port/tile_sums", tile_sums_row},
      {"port/stencil", stencil_row}};
  for (const auto& [name, row] : rows) bench::add_row(name, row);
  return bench::run_benchmarks(argc, argv);
}
