// expect: cede: a 'clustered' body cannot declare 'state'
#include <cede/stream.hpp>

struct body {
#ifndef CEDE_EXPECT_OK
  static constexpr bool clustered = true;
#endif
  static constexpr bool independent = true;
  using state = int;
  CEDE_BODY void operator()(cede::block) const {}
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
