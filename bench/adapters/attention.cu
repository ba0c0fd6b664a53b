// SPDX-License-Identifier: Apache-2.0
#include "bodies/attention.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::attention_problem);
