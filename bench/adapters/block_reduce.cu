// SPDX-License-Identifier: Apache-2.0
#include "bodies/block_reduce.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::block_reduce_problem);
