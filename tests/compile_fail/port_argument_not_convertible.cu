// expect: cede: an argument of the launch does not convert to the type
#include <cede/cede.hpp>

#include <cede/port/begin.hpp>
__global__ void kernel(float* y) { y[blockIdx.x] = 1; }
#include <cede/port/end.hpp>

void use(cede::stream& s, float* y, double* z) {
#ifdef CEDE_EXPECT_OK
  s.launch({.grid = 4, .block = 32}, cede::body<kernel>, y);
#else
  s.launch({.grid = 4, .block = 32}, cede::body<kernel>, z);
#endif
}
