// expect: cede: a __device__ lambda takes no launch arguments after its cede::block
#include <cede/body.hpp>

void use(float* y) {
#ifdef CEDE_EXPECT_OK
  (void)cede::detail::bind_body([=] __device__(cede::block b) { y[b.index().x] = 1; });
#else
  (void)cede::detail::bind_body([] __device__(cede::block b, float* p) { p[b.index().x] = 1; }, y);
#endif
}
