// SPDX-License-Identifier: Apache-2.0
// What a workload promises of its turnaround bounds how many tiles its workers claim at once.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "scheduler_fixture.hpp"
#include "support/forwarding_device.hpp"

using namespace cede_test;

namespace {

/// Notes how many tiles each submission claims at once.
class batches_device : public forwarding_device {
 public:
  using forwarding_device::forwarding_device;
  void submit(cudaStream_t s, const cede::detail::submission& what) override {
    {
      const std::scoped_lock lock(mutex_);
      batches_.push_back(what.terms.batch);
    }
    forwarding_device::submit(s, what);
  }
  std::vector<unsigned> batches() {
    const std::scoped_lock lock(mutex_);
    return batches_;
  }

 private:
  std::mutex mutex_;
  std::vector<unsigned> batches_;
};

struct slow_tile {
  int* runs;
  void operator()(cede::block b) const {
    std::this_thread::sleep_for(1ms);
    b.atomic_add(&runs[b.index().x], 1);
  }
};

std::vector<unsigned> batches_of(cede::workload_options options) {
  auto device = std::make_shared<batches_device>(cede::detail::make_host_device({.sms = 1}));
  std::vector<int> runs(16);
  {
    cede::scheduler cpu(device);
    cede::workload train = cpu.workload(options);
    cede::stream t = train.stream();
    for (int i = 0; i < 3; ++i) {
      t.launch({.grid = 16}, {.tiles_per_claim = 8}, slow_tile{runs.data()});
      t.synchronize();
    }
  }
  CHECK(runs == std::vector<int>(16, 3));
  return device->batches();
}

}  // namespace

TEST_CASE("tiles per claim shrink to what the turnaround allows, once tiles have been timed") {
  cede::workload_options options = effort();
  options.turnaround = 1500us;  // of tiles of 1 ms: one at a time
  CHECK(batches_of(options) == std::vector<unsigned>{8, 1, 1});
}

TEST_CASE("tiles per claim stay where the turnaround allows them") {
  cede::workload_options options = effort();
  options.turnaround = 60s;
  CHECK(batches_of(options) == std::vector<unsigned>{8, 8, 8});
}

TEST_CASE("tiles per claim grow again once tiles have become short") {
  auto device = std::make_shared<batches_device>(cede::detail::make_host_device({.sms = 1}));
  {
    cede::workload_options options = effort();
    options.turnaround = 900ms;
    cede::scheduler cpu(device);
    cede::workload train = cpu.workload(options);
    cede::stream t = train.stream();
    for (const auto tile : {1000ms, 0ms, 0ms}) {
      t.launch({.grid = 2}, {.tiles_per_claim = 8},
               [tile](cede::block) { std::this_thread::sleep_for(tile); });
      t.synchronize();
    }
  }
  CHECK(device->batches() == std::vector<unsigned>{8, 1, 8});
}
