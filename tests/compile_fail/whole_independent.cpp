// expect: cede: a body cannot be both 'whole' .* and 'independent'
#include <cede/stream.hpp>

struct body {
  static constexpr bool whole = true;
#ifndef CEDE_EXPECT_OK
  static constexpr bool independent = true;
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
