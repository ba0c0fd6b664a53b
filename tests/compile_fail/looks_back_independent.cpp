// expect: cede: a body cannot be both 'looks_back' .* and 'independent'
#include <cede/stream.hpp>

struct body {
  static constexpr bool looks_back = true;
#ifndef CEDE_EXPECT_OK
  static constexpr bool independent = true;
#endif
  CEDE_BODY void operator()(cede::block, int) const {}
};

// The traits hold for the body with its arguments, too.
void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}, 7); }
