// SPDX-License-Identifier: Apache-2.0
// The adapters on a GPU: every form, grids with partial warps and tiles, random raises; the result
// of a preempted launch is bit-equal to an unpreempted one.
#include <support/gpu.hpp>

using namespace test;
using namespace std::chrono_literals;

namespace {

constexpr cede::form forms[] = {cede::form::persistent, cede::form::gated};

const char* name_of(cede::form f) { return f == cede::form::gated ? "gated" : "persistent"; }

}  // namespace

TEST_CASE("sliceable: any cut gives the whole launch's result, every tile once") {
  raw_stream s;
  for (cede::extent grid :
       {cede::extent(1), cede::extent(1000), cede::extent(37, 5), cede::extent(7, 5, 3)}) {
    const auto tiles = static_cast<unsigned>(grid.count());
    buffer<unsigned> hits(tiles), out(tiles * 96), whole(tiles * 96), once(tiles);
    cede::sliceable reference{{.grid = grid, .block = 96}, count_tiles{once.get(), whole.get(), 3}};
    reference.launch(s.s);
    for (std::uint64_t n : {1, 2, 3, 7, 16}) {
      hits.clear();
      out.clear();
      cede::sliceable parts{{.grid = grid, .block = 96}, count_tiles{hits.get(), out.get(), 3}};
      for (auto p : parts.slices({.count = n})) parts.launch(s.s, p);
      CUDA_OK(cudaStreamSynchronize(s.s));
      CHECK(hits.read() == std::vector<unsigned>(tiles, 1));
      CHECK(out.read() == whole.read());
    }
  }
}

TEST_CASE("preemptible: unpreempted launches over 1- to 3-D grids and block shapes") {
  raw_stream s;
  for (cede::form f : forms) {
    for (cede::extent grid : {cede::extent(1), cede::extent(5), cede::extent(20000),
                              cede::extent(33, 17), cede::extent(9, 8, 7)}) {
      for (cede::extent block : {cede::extent(1), cede::extent(33), cede::extent(16, 8),
                                 cede::extent(8, 4, 4), cede::extent(1024)}) {
        CAPTURE(name_of(f));
        CAPTURE(grid.text());
        CAPTURE(block.text());
        const auto tiles = static_cast<unsigned>(grid.count());
        const auto threads = static_cast<unsigned>(block.count());
        buffer<unsigned> hits(tiles), out(std::size_t{tiles} * threads);
        cede::preemptible job{
            {.grid = grid, .block = block}, count_tiles{hits.get(), out.get(), 1}, {.form = f}};
        job.launch(s.s);
        REQUIRE(job.wait_for(patience()));
        CHECK(job.finished());
        CHECK(job.cursor() == tiles);
        CHECK(hits.read() == std::vector<unsigned>(tiles, 1));
      }
    }
  }
}

TEST_CASE("preemptible: random raises, no barrier: bit-equal, every tile exactly once") {
  raw_stream s;
  const unsigned tiles = sized(60000);
  constexpr unsigned threads = 128;
  buffer<unsigned> once(tiles), reference(tiles * threads);
  cede::preemptible calm{{.grid = tiles, .block = threads},
                         count_tiles{once.get(), reference.get(), 200}};
  calm.launch(s.s);
  REQUIRE(calm.wait_for(patience()));
  const auto expected = reference.read();
  for (cede::form f : forms) {
    for (unsigned batch : {1U, 4U}) {
      if (f == cede::form::gated && batch != 1) continue;
      CAPTURE(name_of(f));
      CAPTURE(batch);
      int made = 0;
      int yields = 0;
      unsigned seed = 1;
      while (made < raises(10000)) {
        buffer<unsigned> hits(tiles), out(tiles * threads);
        cede::preemptible job{{.grid = tiles, .block = threads},
                              count_tiles{hits.get(), out.get(), 200},
                              {.form = f, .tiles_per_claim = batch}};
        random_raiser raiser([&] { job.yield(); }, raises(10000), 60, seed++);
        yields += run_preempted(job, s.s);
        made += raiser.stop();
        REQUIRE(hits.read() == std::vector<unsigned>(tiles, 1));
        REQUIRE(out.read() == expected);
      }
      MESSAGE(name_of(f), " batch ", batch, ": ", made, " raises, ", yields, " yields");
      CHECK(yields > 0);
    }
  }
}

TEST_CASE("preemptible: random raises, barriers and shared memory") {
  raw_stream s;
  const unsigned tiles = sized(40000);
  constexpr unsigned threads = 256;
  std::vector<unsigned> input(tiles * threads);
  for (unsigned i = 0; i < input.size(); ++i) input[i] = mix(i);
  std::vector<unsigned> expected(tiles);
  for (unsigned t = 0; t < tiles; ++t) {
    for (unsigned i = 0; i < threads; ++i) expected[t] += input[t * threads + i];
  }
  buffer<unsigned> in(input);
  for (cede::form f : forms) {
    CAPTURE(name_of(f));
    int made = 0;
    int yields = 0;
    unsigned seed = 100;
    while (made < raises(10000)) {
      buffer<unsigned> out(tiles), hits(tiles);
      cede::preemptible job{{.grid = tiles, .block = threads, .shared = threads * sizeof(unsigned)},
                            reduce_tile{in.get(), out.get(), hits.get()},
                            {.form = f}};
      random_raiser raiser([&] { job.yield(); }, raises(10000), 40, seed++);
      yields += run_preempted(job, s.s);
      made += raiser.stop();
      REQUIRE(hits.read() == std::vector<unsigned>(tiles, 1));
      REQUIRE(out.read() == expected);
    }
    MESSAGE(name_of(f), ": ", made, " raises, ", yields, " yields");
    CHECK(yields > 0);
  }
}

TEST_CASE("preemptible: early returns before later barriers, partial warps, random raises") {
  raw_stream s;
  for (cede::form f : forms) {
    for (unsigned n : {1U, 31U, 33U, 1000U, sized(999999U), sized(1000001U), sized(2000003U)}) {
      CAPTURE(name_of(f));
      CAPTURE(n);
      const unsigned threads = 96;
      const unsigned tiles = (n + threads - 1) / threads;
      std::vector<unsigned> input(n);
      for (unsigned i = 0; i < n; ++i) input[i] = mix(i);
      std::vector<unsigned> expected(n);
      for (unsigned base = 0; base < n; base += threads) {
        const unsigned here = std::min(threads, n - base);
        for (unsigned t = 0; t < here; ++t)
          expected[base + t] = input[base + t] + 1 + input[base + here - 1 - t];
      }
      buffer<unsigned> in(input), out(n);
      cede::preemptible job{{.grid = tiles, .block = threads, .shared = threads * sizeof(unsigned)},
                            early_return{n, in.get(), out.get()},
                            {.form = f}};
      int made = 0;
      const int wanted = n <= 1000 ? 0 : raises(4000);
      unsigned seed = 7;
      do {
        out.clear();
        random_raiser raiser([&] { job.yield(); }, wanted, 20, seed++);
        run_preempted(job, s.s);
        made += raiser.stop();
        REQUIRE(out.read() == expected);
      } while (made < wanted);
    }
  }
}

TEST_CASE("preemptible: look-back bodies never hang and stay in order") {
  raw_stream s;
  const unsigned tiles = sized(20000);
  for (cede::form f : forms) {
    CAPTURE(name_of(f));
    int made = 0;
    unsigned seed = 55;
    while (made < raises(5000)) {
      buffer<unsigned long long> sums(tiles);
      buffer<unsigned> violations(1);
      cede::preemptible job{
          {.grid = tiles, .block = 32}, look_back{sums.get(), violations.get()}, {.form = f}};
      random_raiser raiser([&] { job.yield(); }, raises(5000), 50, seed++);
      run_preempted(job, s.s);
      made += raiser.stop();
      CHECK(violations.read()[0] == 0);
      REQUIRE(sums.read()[tiles - 1] == 1 + std::uint64_t{tiles} * (tiles - 1) / 2);
    }
  }
}

namespace {

/// Notes the coordinates of the tiles it was given.
struct note_tiles {
  unsigned* count;
  cede::index3* seen;
  unsigned room;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() != 0) return;
    const unsigned at = b.atomic_add(count, 1U);
    if (at < room) seen[at] = b.index();
  }
};

/// Uses every byte of dynamic shared memory.
struct fill_shared {
  unsigned words;
  unsigned* sums;
  CEDE_BODY void operator()(cede::block b) const {
    unsigned* w = b.dynamic_shared<unsigned>();
    for (unsigned i = b.thread_rank(); i < words; i += b.size()) w[i] = b.index().x + i;
    b.sync();
    unsigned sum = 0;
    for (unsigned i = b.thread_rank(); i < words; i += b.size()) sum += w[words - 1 - i];
    b.atomic_add(sums + b.index().x, sum);
  }
};

struct bounded {
  static constexpr unsigned max_threads = 128;
  unsigned* hits;
  CEDE_BODY void operator()(cede::block b) const { b.atomic_add(hits + b.index().x, 1U); }
};

struct native_only {
  static constexpr bool native = true;
  unsigned* out;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() >= 40) return;  // exited lanes, then a warp-wide operation over the rest
#if defined(__CUDA_ARCH__)
    const unsigned mask = __activemask();
    unsigned v = b.thread_rank();
    for (int o = 4; o > 0; o /= 2) v += __shfl_xor_sync(mask, v, o);
    if (b.thread_rank() == 32) out[b.index().x] = v;
#endif
  }
};

}  // namespace

TEST_CASE("grids at CUDA's limit: starting near the end of 2147483647 x 65535 x 65535") {
  raw_stream s;
  const cede::extent grid(2147483647, 65535, 65535);
  const std::uint64_t total = grid.count();
  constexpr unsigned last = 5000;
  for (cede::form f : forms) {
    CAPTURE(name_of(f));
    buffer<unsigned> count(1);
    buffer<cede::index3> seen(last);
    cede::preemptible job{
        {.grid = grid, .block = 32}, note_tiles{count.get(), seen.get(), last}, {.form = f}};
    job.seek(total - last);
    random_raiser raiser([&] { job.yield(); }, 50, 20, 3);
    run_preempted(job, s.s);
    raiser.stop();
    CHECK(job.cursor() == total);
    CHECK(count.read()[0] == last);
    std::vector<unsigned> x;
    for (const auto& i : seen.read()) {
      CHECK(i.y == 65534);
      CHECK(i.z == 65534);
      x.push_back(i.x);
    }
    std::sort(x.begin(), x.end());
    for (unsigned i = 0; i < last; ++i) REQUIRE(x[i] == 2147483647U - last + i);
  }
  buffer<unsigned> count(1);
  buffer<cede::index3> seen(last);
  cede::sliceable parts{{.grid = grid, .block = 32}, note_tiles{count.get(), seen.get(), last}};
  parts.launch(s.s, {total - last, last});
  CUDA_OK(cudaStreamSynchronize(s.s));
  CHECK(count.read()[0] == last);
  for (const auto& i : seen.read()) CHECK(i.z == 65534);
}

TEST_CASE("dynamic shared memory up to the device's limit, without attributes set by the user") {
  raw_stream s;
  int most = 0;
  CUDA_OK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  for (cede::form f : forms) {
    for (int less : {0, 16, 32, 112, 128, 4096}) {
      CAPTURE(name_of(f));
      CAPTURE(less);
      const unsigned words = static_cast<unsigned>(most - less) / 4;
      constexpr unsigned tiles = 700;
      buffer<unsigned> sums(tiles);
      cede::preemptible job{{.grid = tiles, .block = 64, .shared = words * 4UL},
                            fill_shared{words, sums.get()},
                            {.form = f}};
      random_raiser raiser([&] { job.yield(); }, 200, 60, 9);
      run_preempted(job, s.s);
      raiser.stop();
      const auto got = sums.read();
      for (unsigned t = 0; t < tiles; ++t)
        REQUIRE(got[t] ==
                t * words + static_cast<unsigned>(std::uint64_t{words} * (words - 1) / 2));
    }
  }
  CHECK_THROWS_AS(
      (cede::preemptible{{.grid = 1, .block = 32, .shared = static_cast<std::size_t>(most) + 1},
                         fill_shared{1, nullptr}}),
      cede::invalid_argument);
}

TEST_CASE("launch bounds and native bodies") {
  raw_stream s;
  buffer<unsigned> hits(1000);
  cede::preemptible ok{{.grid = 1000, .block = 128}, bounded{hits.get()}};
  ok.launch(s.s);
  REQUIRE(ok.wait_for(patience()));
  CHECK(hits.read() == std::vector<unsigned>(1000, 128));
  CHECK_THROWS_WITH_AS((cede::preemptible{{.grid = 1000, .block = 256}, bounded{hits.get()}}),
                       doctest::Contains("max_threads"), cede::invalid_argument);

  buffer<unsigned> out(5000);
  cede::preemptible native{{.grid = 5000, .block = 64}, native_only{out.get()}};
  CHECK(native.how() == cede::form::gated);
  random_raiser raiser([&] { native.yield(); }, 200, 20, 5);
  run_preempted(native, s.s);
  raiser.stop();
  CHECK(out.read() == std::vector<unsigned>(5000, 8 * 32 + 28));
  CHECK_THROWS_AS(
      (cede::preemptible{
          {.grid = 5000, .block = 64}, native_only{out.get()}, {.form = cede::form::persistent}}),
      cede::not_supported);
}

TEST_CASE("misuse of a preemptible launch") {
  raw_stream s;
  buffer<unsigned> hits(10000);
  cede::preemptible job{{.grid = 10000, .block = 32}, spin_cycles{100000, hits.get()}};
  CHECK_FALSE(job.finished());
  job.launch(s.s);
  CHECK_THROWS_AS(job.launch(s.s), cede::contract_error);
  CHECK_FALSE(job.wait_for(0ns));
  job.yield();
  job.wait();
  CHECK_FALSE(job.finished());
  const auto at = job.cursor();
  CHECK(at < 10000);
  auto moved = std::move(job);
  CHECK_THROWS_AS(job.launch(s.s), cede::contract_error);
  run_preempted(moved, s.s);
  CHECK(hits.read() == std::vector<unsigned>(10000, 1));
  CHECK(moved.longest_tile() > 10us);
  moved.launch(s.s);  // after finished(): anew
  moved.wait();
  CHECK(hits.read() == std::vector<unsigned>(10000, 2));
}
