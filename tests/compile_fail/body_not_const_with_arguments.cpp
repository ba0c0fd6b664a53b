// expect: cede: a body must be callable as 'body\(cede::block\)', then its arguments, on a const
#include <cede/stream.hpp>

struct body {
#ifdef CEDE_EXPECT_OK
  CEDE_BODY void operator()(cede::block, int) const {}
#else
  CEDE_BODY void operator()(cede::block, int) {}
#endif
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}, 7); }
