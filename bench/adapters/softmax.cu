// SPDX-License-Identifier: Apache-2.0
#include "bodies/softmax.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::softmax_problem);
