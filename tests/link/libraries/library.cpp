// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <cede/cede.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

struct add {
  int* sum;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() == 0) b.atomic_add(sum, static_cast<int>(b.index().x));
  }
};

std::shared_ptr<cede::detail::scheduler_core> kept;

void enter(int number) {
  kept = std::make_shared<cede::detail::scheduler_core>(std::make_shared<cede::detail::engine>(
      cede::detail::make_host_device({.sms = 1}), cede::scheduler_options{}));
  const std::scoped_lock lock(cede_process::the_registry.mutex);
  cede_process::the_registry.schedulers[number] = kept;
}

int open(int number, const char** why) {
  static std::string reason;
  try {
    cede::scheduler shared{cede::cuda_device{number}};
    static_cast<void>(shared.workload({.name = "workload of a library"}));
    return static_cast<int>(shared.stats().workloads.size());
  } catch (const cede::error& e) {
    reason = e.what();
    *why = reason.c_str();
    return -1;
  }
}

int run(void* scheduler, int tiles) {
  cede::stream t = static_cast<cede::scheduler*>(scheduler)->workload({.name = "library"}).stream();
  int sum = 0;
  t.launch({.grid = tiles, .block = 32}, add{&sum});
  t.synchronize();
  return sum;
}

const library table{
    .compiler = CEDE_NVCC ? "nvcc" : "g++",
    .registry = [] { return static_cast<const void*>(&cede_process::the_registry); },
    .enter = &enter,
    .leave = [] { kept.reset(); },
    .open = &open,
    .run = &run,
    .fail = [] { cede::stream().synchronize(); },
};

}  // namespace

// Each library exports one function, under a name of its own.
extern "C" CEDE_PROCESS_WIDE const library* CEDE_TEST_LIBRARY() { return &table; }
