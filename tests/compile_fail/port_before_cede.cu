// expect: cede/port/begin.hpp comes after <cede/cede.hpp>
#ifdef CEDE_EXPECT_OK
#include <cede/cede.hpp>
#endif
#include <cede/port/begin.hpp>
#ifdef CEDE_EXPECT_OK
__global__ void kernel(int* p) { p[blockIdx.x] = 1; }
#include <cede/port/end.hpp>
#endif
