// SPDX-License-Identifier: Apache-2.0
// Bodies whose threads never meet: what they may do, and what the host device refuses them.
#include <cede/preempt.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace {

struct count_free {
  static constexpr bool barrier_free = true;
  int* hits;
  void operator()(cede::block b) const {
    if (b.thread_rank() % 3 == 1) return;
    b.atomic_add(hits + b.index().x, 1);
  }
};

enum class misuse { sync, shared, dynamic_shared, should_yield };

struct meets {
  static constexpr bool barrier_free = true;
  misuse what;
  int* kept;
  void operator()(cede::block b) const {
    switch (what) {
      case misuse::sync:
        b.sync();
        break;
      case misuse::shared:
        b.shared<int>() = 1;
        break;
      case misuse::dynamic_shared:
        *b.dynamic_shared<int>() = 1;
        break;
      default:
        if (b.should_yield()) *kept = 1;
    }
  }
};

cede::adapter_device two_sms() { return cede::adapter_device{cede::host_device{.sms = 2}}; }

}  // namespace

TEST_CASE(
    "barrier_free: every tile runs once, whatever is claimed at once and however it is left") {
  for (const unsigned claim : {1U, 3U, 16U}) {
    std::vector<int> hits(500);
    cede::preemptible job{
        {.grid = 500, .block = 6}, count_free{hits.data()}, {.tiles_per_claim = claim}, two_sms()};
    CHECK(cede::traits_of<count_free>().barrier_free);
    job.launch();
    job.yield();
    job.wait();
    while (!job.finished()) {
      job.launch();
      job.wait();
    }
    CHECK(hits == std::vector<int>(500, 4));
  }
}

TEST_CASE("barrier_free: the trait stays when arguments are bound") {
  CHECK(cede::traits_of<cede::detail::bound<count_free, int>>().barrier_free);
}

TEST_CASE("barrier_free: a body that meets or shares all the same is told so") {
  int kept = 0;
  for (const misuse what :
       {misuse::sync, misuse::shared, misuse::dynamic_shared, misuse::should_yield}) {
    cede::preemptible job{{.grid = 4, .block = 2, .shared = 16}, meets{what, &kept}, {}, two_sms()};
    job.launch();
    CHECK_THROWS_WITH_AS(job.wait(), doctest::Contains("declared 'barrier_free'"),
                         cede::device_error);
  }
}
