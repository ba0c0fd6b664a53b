// SPDX-License-Identifier: Apache-2.0
// Stands in front of the fragments of the documentation: the names they use without saying where
// they come from.
#include <cede/cede.hpp>

#include <chrono>
#include <cstdio>
#include <vector>

#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-function"

using namespace std::chrono_literals;

struct saxpy {
  int n;
  float a;
  const float* x;
  float* y;
  CEDE_BODY void operator()(cede::block b) const {
    const int i = static_cast<int>(b.index().x * b.dim().x + b.thread().x);
    if (i < n) y[i] += a * x[i];
  }
};

extern int n;
extern float *x, *y;
extern cede::shape shape;
extern saxpy body;
extern cede::scheduler gpu;
extern cede::workload serve, train;
extern cede::stream s, t;
extern cudaStream_t stream, existing;
extern cudaEvent_t event;

/// Any call of a CUDA library that takes a stream.
void library_call(cudaStream_t raw);
