// expect: cede: a body must be callable as 'body\(cede::block\)'
#include <cede/slice.hpp>

struct body {
#ifdef CEDE_EXPECT_OK
  CEDE_BODY void operator()(cede::block) const {}
#else
  CEDE_BODY void operator()(int) const {}
#endif
};

auto use() { return cede::sliceable{cede::shape{.grid = 4, .block = 32}, body{}}; }
