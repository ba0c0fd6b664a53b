// SPDX-License-Identifier: Apache-2.0
// A program without a CUDA part: no nvcc, no toolkit, no CUDA runtime.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace {

struct fill {
  int* out;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() == 0) out[b.index().x] = 7;
  }
};

}  // namespace

TEST_CASE("a scheduler for a GPU is refused in a sentence") {
  CHECK_THROWS_WITH_AS(cede::scheduler{}, doctest::Contains("this program has no CUDA part"),
                       cede::not_supported);
  CHECK_THROWS_WITH_AS(cede::scheduler{cede::cuda_device{0}},
                       doctest::Contains("pass cede::host_device{}"), cede::not_supported);
}

TEST_CASE("adapters for a GPU are refused in the same sentence") {
  int out[4] = {};
  const cede::shape shape{.grid = 4, .block = 32};
  CHECK_THROWS_WITH_AS((cede::sliceable{shape, fill{out}}),
                       doctest::Contains("this program has no CUDA part"), cede::not_supported);
  CHECK_THROWS_WITH_AS((cede::preemptible{shape, fill{out}}),
                       doctest::Contains("this program has no CUDA part"), cede::not_supported);
}

TEST_CASE("the host device runs") {
  std::vector<int> out(100);
  cede::scheduler cpu{cede::host_device{.sms = 2}};
  cede::stream t = cpu.workload({.name = "train"}).stream();
  t.launch({.grid = out.size(), .block = 32}, fill{out.data()});
  t.synchronize();
  CHECK(out == std::vector<int>(100, 7));
}
