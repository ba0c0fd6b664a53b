// SPDX-License-Identifier: Apache-2.0
// Bodies for tensor cores.
#include "bodies.cuh"

#include "bodies/attention.cuh"
#include "bodies/tensor_gemm.cuh"

#define BENCH_PROBLEMS bench::tensor_gemm_problem, bench::attention_problem

TEST_CASE_TEMPLATE("a body of the suite gives the reference's result in every form", P,
                   BENCH_PROBLEMS) {
  test::body_matches_reference<P>();
}

TEST_CASE_TEMPLATE("a body of the suite gives the same bits under random raises", P,
                   BENCH_PROBLEMS) {
  test::body_survives_raises<P>();
}
