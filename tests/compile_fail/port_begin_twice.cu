// expect: cede/port/begin.hpp inside a port region: close the one before
#include <cede/cede.hpp>

#include <cede/port/begin.hpp>
__global__ void first(int* p) { p[blockIdx.x] = 1; }
#ifdef CEDE_EXPECT_OK
#include <cede/port/end.hpp>
#endif
#include <cede/port/begin.hpp>
__global__ void second(int* p) { p[blockIdx.x] = 2; }
#include <cede/port/end.hpp>
