// SPDX-License-Identifier: Apache-2.0
// Bodies bound by memory, without barriers.
#include "bodies.cuh"

#include "bodies/adamw.cuh"
#include "bodies/black_scholes.cuh"
#include "bodies/gather.cuh"
#include "bodies/one_element.cuh"
#include "bodies/saxpy.cuh"
#include "bodies/stencil.cuh"

#define BENCH_PROBLEMS                                                                           \
  bench::saxpy_problem, bench::one_element_problem, bench::adamw_problem, bench::gather_problem, \
      bench::stencil_problem, bench::black_scholes_problem

TEST_CASE_TEMPLATE("a body of the suite gives the reference's result in every form", P,
                   BENCH_PROBLEMS) {
  test::body_matches_reference<P>();
}

TEST_CASE_TEMPLATE("a body of the suite gives the same bits under random raises", P,
                   BENCH_PROBLEMS) {
  test::body_survives_raises<P>();
}
