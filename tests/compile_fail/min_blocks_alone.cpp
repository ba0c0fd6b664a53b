// expect: cede: a body that declares 'min_blocks' declares 'max_threads' as well
#include <cede/slice.hpp>

struct body {
#ifdef CEDE_EXPECT_OK
  static constexpr unsigned max_threads = 256;
#endif
  static constexpr unsigned min_blocks = 2;
  CEDE_BODY void operator()(cede::block) const {}
};

auto use() { return cede::sliceable{cede::shape{.grid = 4, .block = 32}, body{}}; }
