// SPDX-License-Identifier: Apache-2.0
#include "bodies/monte_carlo.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::monte_carlo_problem);
