// SPDX-License-Identifier: Apache-2.0
#include "bodies/histogram.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::histogram_problem);
