// expect: cede: the launch passes another number of arguments than the body takes
#include <cede/stream.hpp>

struct body {
  CEDE_BODY void operator()(cede::block, int, float*) const {}
};

void use(cede::stream& s, float* y) {
#ifdef CEDE_EXPECT_OK
  s.launch({.grid = 4, .block = 32}, body{}, 7, y);
#else
  s.launch({.grid = 4, .block = 32}, body{}, 7, y, y);
#endif
}
