// expect: cede: a body cannot be both 'clustered' .* and 'native'
#include <cede/stream.hpp>

struct body {
  static constexpr bool clustered = true;
#ifndef CEDE_EXPECT_OK
  static constexpr bool native = true;
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
