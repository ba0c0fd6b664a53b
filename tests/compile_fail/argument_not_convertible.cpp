// expect: cede: an argument of the launch does not convert to the type the body takes
#include <cede/stream.hpp>

struct body {
  CEDE_BODY void operator()(cede::block, float*) const {}
};

#ifdef CEDE_EXPECT_OK
using argument = float*;
#else
using argument = double*;
#endif

void use(cede::stream& s, argument y) { s.launch({.grid = 4, .block = 32}, body{}, y); }
