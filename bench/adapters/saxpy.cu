// SPDX-License-Identifier: Apache-2.0
#include "bodies/saxpy.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::saxpy_problem);
