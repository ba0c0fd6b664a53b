// expect: cede: kernel_traits state a 'max_threads' above 1024
#include <cede/cede.hpp>

#include <cede/port/begin.hpp>
__global__ void kernel(float* y) { y[blockIdx.x] = 1; }
#include <cede/port/end.hpp>

void use(cede::stream& s, float* y) {
#ifdef CEDE_EXPECT_OK
  constexpr cede::kernel_traits traits{.max_threads = 1024};
#else
  constexpr cede::kernel_traits traits{.max_threads = 2048};
#endif
  s.launch({.grid = 4, .block = 32}, cede::body<kernel, traits>, y);
}
