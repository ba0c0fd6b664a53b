// expect: cede: a kernel cannot be both 'whole'
#include <cede/cede.hpp>

#include <cede/port/begin.hpp>
__global__ void kernel(float* y) { y[blockIdx.x] = 1; }
#include <cede/port/end.hpp>

void use(cede::stream& s, float* y) {
#ifdef CEDE_EXPECT_OK
  constexpr cede::kernel_traits traits{.whole = true};
#else
  constexpr cede::kernel_traits traits{.independent = true, .whole = true};
#endif
  s.launch({.grid = 4, .block = 32}, cede::body<kernel, traits>, y);
}
