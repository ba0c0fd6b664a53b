// expect: cede: a body and its arguments must fit into 3840 bytes of kernel parameters
#include <cede/slice.hpp>

struct body {
#ifdef CEDE_EXPECT_OK
  char table[3840];
#else
  char table[3841];
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

auto use() { return cede::sliceable{cede::shape{.grid = 4, .block = 32}, body{}}; }
