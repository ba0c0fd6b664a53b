// expect: cede: a function pointer cannot be a body
#include <cede/body.hpp>

inline void tile(cede::block, float*) {}
struct body {
  CEDE_BODY void operator()(cede::block b, float* y) const { tile(b, y); }
};

auto use(float* y) {
#ifdef CEDE_EXPECT_OK
  return cede::detail::bind_body(body{}, y);
#else
  return cede::detail::bind_body(&tile, y);
#endif
}
