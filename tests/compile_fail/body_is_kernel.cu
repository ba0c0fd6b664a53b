// expect: cede: a function pointer cannot be a body
#include <cede/body.hpp>

__global__ void kernel(float* y) { y[blockIdx.x] = 1; }
struct body {
  CEDE_BODY void operator()(cede::block b, float* y) const { y[b.index().x] = 1; }
};

auto use(float* y) {
#ifdef CEDE_EXPECT_OK
  return cede::detail::bind_body(body{}, y);
#else
  return cede::detail::bind_body(kernel, y);
#endif
}
