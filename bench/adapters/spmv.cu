// SPDX-License-Identifier: Apache-2.0
#include "bodies/spmv.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::spmv_problem);
