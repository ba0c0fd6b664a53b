// expect: cede: kernel_traits with 'min_blocks' state 'max_threads' as well
#include <cede/cede.hpp>

#include <cede/port/begin.hpp>
__global__ void kernel(float* y) { y[blockIdx.x] = 1; }
#include <cede/port/end.hpp>

void use(cede::stream& s, float* y) {
#ifdef CEDE_EXPECT_OK
  constexpr cede::kernel_traits traits{.max_threads = 64, .min_blocks = 2};
#else
  constexpr cede::kernel_traits traits{.min_blocks = 2};
#endif
  s.launch({.grid = 4, .block = 32}, cede::body<kernel, traits>, y);
}
