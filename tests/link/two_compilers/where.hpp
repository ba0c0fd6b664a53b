// SPDX-License-Identifier: Apache-2.0
// One body type that both compilers launch.
#pragma once

#include <cede/body.hpp>

struct where {
  CEDE_BODY void operator()(cede::block b, int* out) const {
    if (b.thread_rank() != 0) return;
#if defined(__CUDA_ARCH__)
    *out = 2;
#else
    *out = 1;
#endif
  }
};
