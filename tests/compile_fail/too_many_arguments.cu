// expect: cede: the launch passes another number of arguments than the body takes
#include <cede/body.hpp>

struct body {
  CEDE_BODY void operator()(cede::block, int) const {}
};

auto use(float* y) {
#ifdef CEDE_EXPECT_OK
  (void)y;
  return cede::detail::bind_body(body{}, 7);
#else
  return cede::detail::bind_body(body{}, 7, y);
#endif
}
