// expect: cede: a body declared 'native' .* cannot run in persistent workers
#include <cede/cede.hpp>

#include <cede/port/begin.hpp>
__global__ void kernel(float* y) { y[blockIdx.x] = 1; }
#include <cede/port/end.hpp>

void use(const cede::shape& shape, float* y) {
#ifdef CEDE_EXPECT_OK
  constexpr cede::kernel_traits traits{.persistent_safe = true};
#else
  constexpr cede::kernel_traits traits{};
#endif
  auto body = cede::bind(cede::body<kernel, traits>, y);
  cede::preemptible<decltype(body), cede::form::persistent> job(shape, body);
}
