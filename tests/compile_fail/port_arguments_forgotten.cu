// expect: cede: the launch passes another number of arguments than the kernel takes
#include <cede/cede.hpp>

#include <cede/port/begin.hpp>
__global__ void kernel(float* y, int n) { y[blockIdx.x] = static_cast<float>(n); }
#include <cede/port/end.hpp>

void use(cede::stream& s, float* y) {
#ifdef CEDE_EXPECT_OK
  s.launch({.grid = 4, .block = 32}, cede::body<kernel>, y, 3);
#else
  s.launch({.grid = 4, .block = 32}, cede::body<kernel>, y);
#endif
}
