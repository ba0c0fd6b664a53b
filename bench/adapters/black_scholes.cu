// SPDX-License-Identifier: Apache-2.0
#include "bodies/black_scholes.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::black_scholes_problem);
