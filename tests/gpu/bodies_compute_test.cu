// SPDX-License-Identifier: Apache-2.0
// Bodies bound by arithmetic or by gathers.
#include "bodies.cuh"

#include "bodies/monte_carlo.cuh"
#include "bodies/n_body.cuh"
#include "bodies/sgemm.cuh"
#include "bodies/spmv.cuh"

#define BENCH_PROBLEMS \
  bench::sgemm_problem, bench::spmv_problem, bench::monte_carlo_problem, bench::n_body_problem

TEST_CASE_TEMPLATE("a body of the suite gives the reference's result in every form", P,
                   BENCH_PROBLEMS) {
  test::body_matches_reference<P>();
}

TEST_CASE_TEMPLATE("a body of the suite gives the same bits under random raises", P,
                   BENCH_PROBLEMS) {
  test::body_survives_raises<P>();
}
