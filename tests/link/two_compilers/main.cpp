// SPDX-License-Identifier: Apache-2.0
// A program of two compilers: this file, by g++, owns the scheduler; kernels.cu, by nvcc, launches.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "kernels.hpp"
#include "layouts.hpp"
#include "support/skip.hpp"
#include "where.hpp"

namespace {

bool have_gpu() {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}

struct managed_free {
  void operator()(int* p) const { cudaFree(p); }
};
using managed = std::unique_ptr<int[], managed_free>;
managed make_managed(std::size_t n) {
  void* p = nullptr;
  REQUIRE(cudaMallocManaged(&p, n * sizeof(int)) == cudaSuccess);
  return managed(static_cast<int*>(p));
}

void check_count(cede::stream& s, cede::form how, int* out) {
  constexpr int tiles = 40;
  constexpr int n = tiles * 64 - 40;
  for (int i = 0; i < tiles * 64; ++i) out[i] = -1;
  by_nvcc::launch_count(s, tiles, n, out, how);
  s.synchronize();
  int wrong = 0;
  for (int i = 0; i < tiles * 64; ++i) wrong += out[i] != (i < n ? i : -1);
  CHECK(wrong == 0);
}

void check_forms(cede::scheduler& device, int* out) {
  auto train = device.workload({.name = "train"});
  auto serve = device.workload({.name = "serve", .priority = cede::latency_critical});
  cede::stream t = train.stream();
  cede::stream s = serve.stream();
  for (const auto how : {cede::form::automatic, cede::form::persistent, cede::form::gated,
                         cede::form::sliced, cede::form::whole}) {
    CAPTURE(static_cast<int>(how));
    check_count(t, how, out);
  }
  check_count(s, cede::form::automatic, out);
  CHECK(device.stats().workloads[0].finished == 5);
}

}  // namespace

TEST_CASE("both compilers see one layout of every type") {
  const auto here = layouts_here();
  const auto there = by_nvcc::layouts();
  CHECK(here.size() > 80);
  CHECK(here.size() == there.size());
  for (const auto& [name, bytes] : here) {
    CAPTURE(name);
    REQUIRE(there.contains(name));
    CHECK(there.at(name) == bytes);
  }
}

TEST_CASE("a body of nvcc's runs on a host device made by g++") {
  cede::scheduler cpu{cede::host_device{.sms = 2}};
  std::vector<int> out(40 * 64);
  check_forms(cpu, out.data());
}

TEST_CASE("a body of nvcc's runs on the GPU of a scheduler made by g++") {
  if (!have_gpu()) CEDE_SKIP_CASE("no GPU");
  cede::scheduler gpu;
  const managed out = make_managed(40 * 64);
  check_forms(gpu, out.get());
}

TEST_CASE("events and requests pass from one compiler to the other") {
  cede::scheduler cpu{cede::host_device{.sms = 2}};
  auto train = cpu.workload({.name = "train"});
  auto serve = cpu.workload({.name = "serve", .priority = cede::latency_critical});
  cede::stream t = train.stream();
  cede::stream other = train.stream();
  cede::stream s = serve.stream();
  int first = 0;
  int second = 0;

  train.suspend();
  by_nvcc::launch_where(t, &first);
  const cede::event launched = by_nvcc::record(t);
  by_nvcc::wait(other, launched);
  other.copy(&second, &first, sizeof first);
  CHECK(!launched.done());
  train.resume();
  other.synchronize();
  CHECK(launched.done());
  CHECK(second == 1);

  cede::request request = serve.request();
  by_nvcc::launch_where(s, &second);
  by_nvcc::close(std::move(request));
  s.synchronize();
  CHECK(cpu.stats().workloads[1].requests == 1);
}

TEST_CASE("one body type launched by both compilers is two entries, each right for its launch") {
  using bound = decltype(cede::detail::bind_body(where{}, static_cast<int*>(nullptr)));
  const auto& mine = cede::detail::entry_of<bound, cede::detail::this_compiler, true>();
  CHECK(mine.cuda == nullptr);
  CHECK(by_nvcc::where_has_device_code());

  cede::scheduler cpu{cede::host_device{.sms = 1}};
  auto train = cpu.workload({.name = "train"});
  cede::stream t = train.stream();
  int here = 0;
  int there = 0;
  t.launch({.grid = 1, .block = 32}, where{}, &here);
  by_nvcc::launch_where(t, &there);
  t.synchronize();
  CHECK(here == 1);
  CHECK(there == 1);
}

TEST_CASE("on the GPU the launch of nvcc's runs, that of g++ is refused in a sentence") {
  if (!have_gpu()) CEDE_SKIP_CASE("no GPU");
  cede::scheduler gpu;
  auto train = gpu.workload({.name = "train"});
  auto serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
  cede::stream t = train.stream();
  cede::stream s = serve.stream();
  const managed out = make_managed(1);
  for (cede::stream* stream : {&t, &s}) {
    CHECK_THROWS_WITH_AS(stream->launch({.grid = 1, .block = 32}, where{}, out.get()),
                         doctest::Contains("a host compiler compiled this launch"),
                         cede::not_supported);
    out[0] = 0;
    by_nvcc::launch_where(*stream, out.get());
    stream->synchronize();
    CHECK(out[0] == 2);
  }
}

TEST_CASE("a __device__ lambda is a body on the GPU and refused on a host device") {
  int out = 0;
  cede::scheduler cpu{cede::host_device{.sms = 1}};
  cede::stream c = cpu.workload({.name = "train"}).stream();
  CHECK_THROWS_WITH_AS(by_nvcc::launch_device_lambda(c, &out), doctest::Contains("no host code"),
                       cede::error);
  if (!have_gpu()) CEDE_SKIP_CASE("no GPU");
  cede::scheduler gpu;
  const managed there = make_managed(1);
  cede::stream g = gpu.workload({.name = "train"}).stream();
  by_nvcc::launch_device_lambda(g, there.get());
  g.synchronize();
  CHECK(there[0] == 3);
}

// nvcc leaves no trace of such a call operator that a program could ask for.
TEST_CASE("a __device__ call operator ends the process on a host device, with a word") {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    dup2(pipe_ends[1], STDOUT_FILENO);  // away from the report of this test
    alarm(60);                          // exit handlers of others may not like the fork
    int out = 0;
    cede::scheduler cpu{cede::host_device{.sms = 1}};
    cede::stream c = cpu.workload({.name = "train"}).stream();
    by_nvcc::launch_device_only(c, &out);
    c.synchronize();
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t n = 0; (n = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, n);
  close(pipe_ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status != 0);
  CAPTURE(said);
  CHECK(said.find("device_only ended the process from inside a tile") != std::string::npos);
  CHECK(said.find("mark it CEDE_BODY") != std::string::npos);
}

TEST_CASE("without a GPU a scheduler for one says what is missing") {
  if (have_gpu()) CEDE_SKIP_CASE("there is a GPU");
  CHECK_THROWS_WITH_AS(cede::scheduler{}, doctest::Contains("no CUDA device can be used"),
                       cede::not_supported);
}
