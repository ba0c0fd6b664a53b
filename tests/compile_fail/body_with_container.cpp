// expect: cede: a body must be trivially copyable
#include <cede/stream.hpp>

#include <vector>

struct body {
#ifndef CEDE_EXPECT_OK
  std::vector<float> values;
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
