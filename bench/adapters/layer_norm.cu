// SPDX-License-Identifier: Apache-2.0
#include "bodies/layer_norm.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::layer_norm_problem);
