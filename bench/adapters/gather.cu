// SPDX-License-Identifier: Apache-2.0
#include "bodies/gather.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::gather_problem);
