// SPDX-License-Identifier: Apache-2.0
// Bodies whose threads work together in shared memory.
#include "bodies.cuh"

#include "bodies/block_reduce.cuh"
#include "bodies/histogram.cuh"
#include "bodies/layer_norm.cuh"
#include "bodies/scan.cuh"
#include "bodies/softmax.cuh"
#include "bodies/transpose.cuh"

#define BENCH_PROBLEMS                                                        \
  bench::block_reduce_problem, bench::histogram_problem, bench::scan_problem, \
      bench::transpose_problem, bench::softmax_problem, bench::layer_norm_problem

TEST_CASE_TEMPLATE("a body of the suite gives the reference's result in every form", P,
                   BENCH_PROBLEMS) {
  test::body_matches_reference<P>();
}

TEST_CASE_TEMPLATE("a body of the suite gives the same bits under random raises", P,
                   BENCH_PROBLEMS) {
  test::body_survives_raises<P>();
}
