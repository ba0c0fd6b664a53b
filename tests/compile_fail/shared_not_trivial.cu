// expect: cede: an object in shared memory must be trivially constructible and destructible
#include <cede/body.hpp>

struct counter {
#ifndef CEDE_EXPECT_OK
  __device__ counter() : value(0) {}
#endif
  int value;
};

__global__ void kernel(cede::block b) { b.shared<counter>().value = 1; }
