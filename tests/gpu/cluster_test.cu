// SPDX-License-Identifier: Apache-2.0
// Persistent workers that are thread-block clusters: they claim, yield and count as one.
#include <support/gpu.hpp>

#include <cooperative_groups.h>

using namespace test;

namespace {

/// Each block of a cluster puts a number in its shared memory; each adds up those of all.
struct cluster_sum {
  static constexpr bool clustered = true;
  unsigned* sums;  ///< by tile
  unsigned* hits;  ///< by tile
  CEDE_BODY void operator()([[maybe_unused]] cede::block b) const {
#if __CUDA_ARCH__ >= 900
    namespace cg = cooperative_groups;
    unsigned& mine = b.shared<unsigned>();
    const cede::index3 at = b.index();
    const cede::index3 grid = b.grid();
    const unsigned tile = at.x + grid.x * (at.y + grid.y * at.z);
    if (b.thread_rank() == 0) mine = mix(tile);
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
    if (b.thread_rank() == 0) {
      unsigned sum = 0;
      for (unsigned r = 0; r < cluster.num_blocks(); ++r) sum += *cluster.map_shared_rank(&mine, r);
      sums[tile] = sum;
      b.atomic_add(hits + tile, 1U);
    }
    cluster.sync();  // nobody's shared memory goes while another reads it
#endif
  }
};

bool has_clusters() {
  int major = 0;
  CUDA_OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  return major >= 9;
}

std::vector<unsigned> expected(cede::extent grid, cede::extent cluster) {
  std::vector<unsigned> sums(grid.count());
  const auto number = [&](std::uint64_t x, std::uint64_t y, std::uint64_t z) {
    return x + grid.x * (y + grid.y * z);
  };
  for (std::uint64_t z = 0; z < grid.z; ++z) {
    for (std::uint64_t y = 0; y < grid.y; ++y) {
      for (std::uint64_t x = 0; x < grid.x; ++x) {
        unsigned sum = 0;
        for (std::uint64_t k = 0; k < cluster.z; ++k) {
          for (std::uint64_t j = 0; j < cluster.y; ++j) {
            for (std::uint64_t i = 0; i < cluster.x; ++i) {
              sum += mix(static_cast<unsigned>(number(x / cluster.x * cluster.x + i,
                                                      y / cluster.y * cluster.y + j,
                                                      z / cluster.z * cluster.z + k)));
            }
          }
        }
        sums[number(x, y, z)] = sum;
      }
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("clusters: claim, yield and count as one, in 1 to 3 dimensions, random raises") {
  if (!has_clusters()) {
    MESSAGE("nothing to test: this GPU has no thread-block clusters (sm_90 on)");
    return;
  }
  raw_stream s;
  struct cut {
    cede::extent grid, cluster;
  };
  for (const cut& c : {cut{sized(80000) / 8 * 8, 8}, cut{{400, 100}, {2, 2}},
                       cut{{64, 32, 8}, {1, 2, 2}}, cut{4, 4}}) {
    CAPTURE(c.grid.text());
    CAPTURE(c.cluster.text());
    const auto tiles = static_cast<unsigned>(c.grid.count());
    const std::vector<unsigned> sums = expected(c.grid, c.cluster);
    int made = 0;
    int yields = 0;
    unsigned seed = 1;
    const int wanted = tiles < 100 ? 1 : raises(2000);
    while (made < wanted) {
      buffer<unsigned> out(tiles), hits(tiles);
      cede::preemptible job{{.grid = c.grid, .block = 64, .cluster = c.cluster},
                            cluster_sum{out.get(), hits.get()},
                            {.tiles_per_claim = seed % 3 + 1}};
      REQUIRE(job.how() == cede::form::persistent);
      random_raiser raiser([&] { job.yield(); }, wanted, 30, seed++);
      yields += run_preempted(job, s.s);
      made += std::max(1, raiser.stop());
      REQUIRE(hits.read() == std::vector<unsigned>(tiles, 1));
      REQUIRE(out.read() == sums);
    }
    MESSAGE(made, " raises, ", yields, " yields");
  }
}

TEST_CASE("clusters: through a scheduler, and whole") {
  if (!has_clusters()) {
    MESSAGE("nothing to test: this GPU has no thread-block clusters (sm_90 on)");
    return;
  }
  cede::scheduler gpu;
  auto t = gpu.workload({.name = "train"}).stream();
  auto s = gpu.workload({.name = "serve", .priority = cede::latency_critical}).stream();
  constexpr unsigned tiles = 8000;
  buffer<unsigned> out(tiles), hits(tiles), out2(tiles), hits2(tiles);
  const cede::shape shape{.grid = tiles, .block = 64, .cluster = 4};
  for (int i = 0; i < 20; ++i) t.launch(shape, cluster_sum{out.get(), hits.get()});
  for (int i = 0; i < 20; ++i) {
    s.launch(shape, cluster_sum{out2.get(), hits2.get()});
    REQUIRE(s.synchronize_for(patience()));
  }
  REQUIRE(t.synchronize_for(patience()));
  CHECK(out.read() == expected(tiles, 4));
  CHECK(out2.read() == expected(tiles, 4));
  CHECK(hits.read() == std::vector<unsigned>(tiles, 20));
  CHECK(hits2.read() == std::vector<unsigned>(tiles, 20));
}

TEST_CASE("clusters: what does not fit or cannot be cut is refused in words") {
  if (!has_clusters()) {
    MESSAGE("nothing to test: this GPU has no thread-block clusters (sm_90 on)");
    return;
  }
  buffer<unsigned> out(64), hits(64);
  const cluster_sum body{out.get(), hits.get()};
  CHECK_THROWS_WITH_AS((cede::preemptible{{.grid = 64, .block = 64, .cluster = 32}, body}),
                       doctest::Contains("smaller clusters"), cede::invalid_argument);
  CHECK_THROWS_AS((cede::preemptible{
                      {.grid = 64, .block = 64, .cluster = 2}, body, {.form = cede::form::gated}}),
                  cede::not_supported);
  cede::sliceable parts{{.grid = 64, .block = 64, .cluster = 2}, body};
  CHECK_THROWS_WITH_AS(static_cast<void>(parts.slices({.count = 2})),
                       doctest::Contains("cannot be cut"), cede::not_supported);
}
