// SPDX-License-Identifier: Apache-2.0
#include "bodies/sgemm.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::sgemm_problem);
