// expect: cede/port/end.hpp without a port region
#include <cede/cede.hpp>

#ifdef CEDE_EXPECT_OK
#include <cede/port/begin.hpp>
#endif
__global__ void kernel(int* p) { p[blockIdx.x] = 1; }
#include <cede/port/end.hpp>
