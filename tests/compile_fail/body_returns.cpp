// expect: cede: a body must return nothing
#include <cede/stream.hpp>

struct sum {
#ifdef CEDE_EXPECT_OK
  CEDE_BODY void operator()(cede::block, int) const {}
#else
  CEDE_BODY int operator()(cede::block, int n) const { return n; }
#endif
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, sum{}, 7); }
