// SPDX-License-Identifier: Apache-2.0
#include "bodies/n_body.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::n_body_problem);
