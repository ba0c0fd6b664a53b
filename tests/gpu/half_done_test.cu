// SPDX-License-Identifier: Apache-2.0
// Independent bodies on a GPU: batches given back, tiles left half done and re-entered, under
// random raises; the worked example is a tall matrix product whose accumulators are the state.
#include <support/gpu.hpp>

using namespace test;

namespace {

constexpr unsigned side = 16;  // of a tile of the product

/// C = A B with few columns and a long inner dimension: each tile runs for as long as `inner` says.
/// Every `slab` columns of A it asks whether to give way, and keeps its accumulators if so.
struct tall_product {
  struct state {
    unsigned next;
    float sums[side * side];
  };
  static constexpr bool independent = true;

  const float* a;
  const float* b;
  float* c;
  unsigned inner;
  unsigned columns;
  unsigned* begun;

  CEDE_BODY void operator()(cede::block t) const {
    constexpr unsigned slab = side;
    float (&left)[side][side] = t.shared<float[side][side], 0>();
    float (&right)[side][side] = t.shared<float[side][side], 1>();
    const unsigned row = t.index().y * side + t.thread().y;
    const unsigned column = t.index().x * side + t.thread().x;
    const unsigned me = t.thread_rank();
    unsigned k = 0;
    float sum = 0;
    if (t.resumed()) {
      const state& kept = t.state<state>();
      k = kept.next;
      sum = kept.sums[me];
    } else if (me == 0) {
      t.atomic_add(begun, 1U);
    }
    for (; k < inner; k += slab) {
      if (t.should_yield()) {
        state& keep = t.state<state>();
        if (me == 0) keep.next = k;
        keep.sums[me] = sum;
        return;
      }
      left[t.thread().y][t.thread().x] = a[std::size_t{row} * inner + k + t.thread().x];
      right[t.thread().y][t.thread().x] = b[std::size_t{k + t.thread().y} * columns + column];
      t.sync();
      for (unsigned i = 0; i < slab; ++i) sum += left[t.thread().y][i] * right[i][t.thread().x];
      t.sync();
    }
    c[std::size_t{row} * columns + column] = sum;
  }
};

struct independent_tile {
  static constexpr bool independent = true;
  count_tiles count;
  CEDE_BODY void operator()(cede::block b) const { count(b); }
};

}  // namespace

TEST_CASE("independent: the rest of a batch is given back, every tile exactly once, bit-equal") {
  raw_stream s;
  const unsigned tiles = sized(60000);
  constexpr unsigned threads = 128;
  buffer<unsigned> once(tiles), reference(tiles * threads);
  cede::preemptible calm{{.grid = tiles, .block = threads},
                         count_tiles{once.get(), reference.get(), 200}};
  calm.launch(s.s);
  REQUIRE(calm.wait_for(patience()));
  const auto expected = reference.read();
  for (const unsigned batch : {2U, 16U}) {
    CAPTURE(batch);
    int made = 0;
    int yields = 0;
    unsigned seed = 1;
    while (made < raises(10000)) {
      buffer<unsigned> hits(tiles), out(tiles * threads);
      cede::preemptible job{{.grid = tiles, .block = threads},
                            independent_tile{{hits.get(), out.get(), 200}},
                            {.tiles_per_claim = batch}};
      random_raiser raiser([&] { job.yield(); }, raises(10000), 60, seed++);
      yields += run_preempted(job, s.s);
      made += raiser.stop();
      REQUIRE(hits.read() == std::vector<unsigned>(tiles, 1));
      REQUIRE(out.read() == expected);
    }
    MESSAGE("batch ", batch, ": ", made, " raises, ", yields, " yields");
    CHECK(yields > 0);
  }
}

TEST_CASE("independent: long tiles are left half done, re-entered, and end bit-equal") {
  raw_stream s;
  constexpr unsigned rows = 16 * side, columns = 32 * side;
  const unsigned inner = sized(16384) / side * side;
  std::vector<float> left(std::size_t{rows} * inner), right(std::size_t{inner} * columns);
  for (std::size_t i = 0; i < left.size(); ++i)
    left[i] = static_cast<float>(mix(static_cast<unsigned>(i)) % 1000) / 1000.0F;
  for (std::size_t i = 0; i < right.size(); ++i)
    right[i] = static_cast<float>(mix(static_cast<unsigned>(i) + 7) % 1000) / 1000.0F;
  buffer<float> a(left), b(right), c(std::size_t{rows} * columns);
  buffer<unsigned> begun(1);
  const cede::shape shape{.grid = {columns / side, rows / side}, .block = {side, side}};
  const tall_product body{a.get(), b.get(), c.get(), inner, columns, begun.get()};
  cede::preemptible job{shape, body};
  job.launch(s.s);
  REQUIRE(job.wait_for(patience()));
  REQUIRE(job.finished());
  const auto expected = c.read();
  for (const unsigned at : {0U, 5000U, rows * columns - 1}) {
    double sum = 0;
    for (unsigned k = 0; k < inner; ++k)
      sum += double{left[std::size_t{at / columns} * inner + k]} *
             right[std::size_t{k} * columns + at % columns];
    CHECK(expected[at] == doctest::Approx(sum).epsilon(1e-4));
  }
  const unsigned tiles = static_cast<unsigned>(shape.tiles());
  int made = 0;
  int yields = 0;
  unsigned seed = 1;
  const int wanted = raises(2000);
  while (made < wanted) {
    c.clear();
    begun.clear();
    random_raiser raiser([&] { job.yield(); }, wanted, 300, seed++);
    yields += run_preempted(job, s.s);
    made += raiser.stop();
    REQUIRE(c.read() == expected);
    // Re-entered is not begun anew.
    REQUIRE(begun.read()[0] == tiles);
  }
  MESSAGE(made, " raises, ", yields, " yields");
  CHECK(yields > 0);
}

TEST_CASE("independent: in other forms a tile is never left half done") {
  raw_stream s;
  constexpr unsigned rows = 4 * side, columns = 4 * side, inner = 64 * side;
  buffer<float> a(std::vector<float>(std::size_t{rows} * inner, 1.0F));
  buffer<float> b(std::vector<float>(std::size_t{inner} * columns, 2.0F));
  buffer<float> c(std::size_t{rows} * columns);
  buffer<unsigned> begun(1);
  const cede::shape shape{.grid = {columns / side, rows / side}, .block = {side, side}};
  const tall_product body{a.get(), b.get(), c.get(), inner, columns, begun.get()};
  const std::vector<float> expected(std::size_t{rows} * columns, 2.0F * inner);
  cede::preemptible gated{shape, body, {.form = cede::form::gated}};
  gated.launch(s.s);
  gated.yield();
  REQUIRE(gated.wait_for(patience()));
  if (!gated.finished()) run_preempted(gated, s.s);
  CHECK(c.read() == expected);
  c.clear();
  cede::sliceable parts{shape, body};
  parts.launch(s.s);
  CUDA_OK(cudaStreamSynchronize(s.s));
  CHECK(c.read() == expected);
}

TEST_CASE("scheduler: long tiles make way for requests and lose nothing") {
  cede::scheduler gpu;
  auto serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
  auto train = gpu.workload({.name = "train", .priority = cede::best_effort});
  auto s = serve.stream();
  auto t = train.stream();
  constexpr unsigned rows = 16 * side, columns = 32 * side;
  const unsigned inner = sized(16384) / side * side;
  buffer<float> a(std::vector<float>(std::size_t{rows} * inner, 1.0F));
  buffer<float> b(std::vector<float>(std::size_t{inner} * columns, 0.5F));
  buffer<float> c(std::size_t{rows} * columns);
  buffer<unsigned> begun(1), hits(64), out(64 * 128);
  const cede::shape shape{.grid = {columns / side, rows / side}, .block = {side, side}};
  constexpr unsigned launches = 20;
  for (unsigned i = 0; i < launches; ++i)
    t.launch(shape, tall_product{a.get(), b.get(), c.get(), inner, columns, begun.get()});
  for (int i = 0; i < 200; ++i) {
    s.launch({.grid = 64, .block = 128}, count_tiles{hits.get(), out.get(), 10});
    REQUIRE(s.synchronize_for(patience()));
  }
  REQUIRE(t.synchronize_for(patience()));
  CHECK(begun.read()[0] == launches * static_cast<unsigned>(shape.tiles()));
  CHECK(c.read() == std::vector<float>(std::size_t{rows} * columns, 0.5F * inner));
  CHECK(hits.read() == std::vector<unsigned>(64, 200));
}
