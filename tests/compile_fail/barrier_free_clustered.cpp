// expect: cede: a body cannot be both 'barrier_free' .* and 'clustered'
#include <cede/stream.hpp>

struct body {
  static constexpr bool barrier_free = true;
#ifndef CEDE_EXPECT_OK
  static constexpr bool clustered = true;
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
