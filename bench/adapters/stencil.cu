// SPDX-License-Identifier: Apache-2.0
#include "bodies/stencil.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::stencil_problem);
