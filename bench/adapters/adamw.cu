// SPDX-License-Identifier: Apache-2.0
#include "bodies/adamw.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::adamw_problem);
