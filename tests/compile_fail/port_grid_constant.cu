// expect: __grid_constant__
#include <cede/cede.hpp>

struct table {
  int values[8];
};
#include <cede/port/begin.hpp>
#ifdef CEDE_EXPECT_OK
__global__ void kernel(int* p, const table t) {
#else
__global__ void kernel(int* p, const __grid_constant__ table t) {
#endif
  p[blockIdx.x] = t.values[threadIdx.x];
}
#include <cede/port/end.hpp>
