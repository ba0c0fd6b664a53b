// SPDX-License-Identifier: Apache-2.0
#include "bodies/scan.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::scan_problem);
