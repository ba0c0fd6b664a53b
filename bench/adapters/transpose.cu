// SPDX-License-Identifier: Apache-2.0
#include "bodies/transpose.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::transpose_problem);
