// SPDX-License-Identifier: Apache-2.0
#include "bodies/one_element.cuh"

#include "measure/body_rows.cuh"

BENCH_BODY(bench::one_element_problem);
