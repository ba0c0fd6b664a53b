// SPDX-License-Identifier: Apache-2.0
// The portable bodies of the benchmark suite on the host device: every form against the reference,
// and bit-equal under random raises. The bodies for tensor cores are tested on a GPU alone.
#include <cede/preempt.hpp>
#include <cede/slice.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <random>

#include "bodies/adamw.cuh"
#include "bodies/black_scholes.cuh"
#include "bodies/block_reduce.cuh"
#include "bodies/gather.cuh"
#include "bodies/histogram.cuh"
#include "bodies/layer_norm.cuh"
#include "bodies/monte_carlo.cuh"
#include "bodies/n_body.cuh"
#include "bodies/one_element.cuh"
#include "bodies/saxpy.cuh"
#include "bodies/scan.cuh"
#include "bodies/sgemm.cuh"
#include "bodies/softmax.cuh"
#include "bodies/spmv.cuh"
#include "bodies/stencil.cuh"
#include "bodies/transpose.cuh"

using cede::form;

namespace {

cede::adapter_device two_sms() { return cede::adapter_device{cede::host_device{.sms = 2}}; }

template <class P>
using body_of = typename P::body_type;

}  // namespace

#define BENCH_PORTABLE_PROBLEMS                                                                    \
  bench::saxpy_problem, bench::one_element_problem, bench::block_reduce_problem,                   \
      bench::histogram_problem, bench::scan_problem, bench::transpose_problem,                     \
      bench::stencil_problem, bench::sgemm_problem, bench::softmax_problem,                        \
      bench::layer_norm_problem, bench::adamw_problem, bench::gather_problem, bench::spmv_problem, \
      bench::black_scholes_problem, bench::monte_carlo_problem, bench::n_body_problem

TEST_CASE_TEMPLATE("what has not run is found wrong", P, BENCH_PORTABLE_PROBLEMS) {
  bench::host_memory memory;
  P problem(memory, bench::problem_size::tiny);
  problem.reset();
  CHECK(problem.error() > P::tolerance);
}

TEST_CASE_TEMPLATE("whole, in slices and in both forms: the reference's result", P,
                   BENCH_PORTABLE_PROBLEMS) {
  CAPTURE(P::name);
  const auto device = two_sms();
  const cudaStream_t lane = device.machine().make_stream(cede::detail::stream_class::lane);
  bench::host_memory memory;
  P problem(memory, bench::problem_size::tiny);
  for (const std::uint64_t slices : {1U, 3U}) {
    problem.reset();
    cede::sliceable parts{problem.shape, problem.body, device};
    for (const cede::slice& part : parts.slices({.count = slices})) parts.launch(lane, part);
    device.machine().synchronize(lane);
    CHECK(problem.error() <= P::tolerance);
    if (slices == 1) problem.keep();
    CHECK(problem.differences() == 0);
  }
  for (const form how : {form::persistent, form::gated}) {
    problem.reset();
    cede::preemptible<body_of<P>> job{problem.shape, problem.body, {.form = how}, device};
    job.launch(lane);
    job.wait();
    CHECK(job.finished());
    CHECK(problem.error() <= P::tolerance);
    CHECK(problem.differences() == 0);
  }
  device.machine().destroy_stream(lane);
}

TEST_CASE_TEMPLATE("random raises change no bit", P, BENCH_PORTABLE_PROBLEMS) {
  CAPTURE(P::name);
  const auto device = two_sms();
  const cudaStream_t lane = device.machine().make_stream(cede::detail::stream_class::lane);
  bench::host_memory memory;
  P problem(memory, bench::problem_size::tiny);
  problem.reset();
  cede::sliceable whole{problem.shape, problem.body, device};
  whole.launch(lane);
  device.machine().synchronize(lane);
  problem.keep();
  int yields = 0;
  std::mt19937 random(1);
  for (const form how : {form::persistent, form::gated}) {
    cede::preemptible<body_of<P>> job{problem.shape,
                                      problem.body,
                                      {.form = how, .workers_per_sm = 1, .tiles_per_claim = 2},
                                      device};
    // Some tiles take less than a microsecond: until a few raises have met a launch in progress.
    int met = 0;
    for (int run = 0; run < 3000 && (run < 4 || met < 3); ++run) {
      problem.reset();
      do {
        job.launch(lane);
        const auto until =
            std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 40);
        while (std::chrono::steady_clock::now() < until) {
        }
        job.yield();
        job.wait();
        met += job.finished() ? 0 : 1;
      } while (!job.finished());
      REQUIRE(problem.differences() == 0);
    }
    yields += met;
  }
  CHECK(yields > 0);
  device.machine().destroy_stream(lane);
}
