// expect: cede: a lambda marked __host__ __device__ cannot be a body
#include <cede/body.hpp>

template <class B>
void check(B) {
  cede::detail::check_body<B>();
}

void use(float* y) {
#ifdef CEDE_EXPECT_OK
  check([=] __device__(cede::block b) { y[b.index().x] = 1; });
#else
  check([=] CEDE_BODY(cede::block b) { y[b.index().x] = 1; });
#endif
}
