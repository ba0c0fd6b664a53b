// expect: cede: a body declared 'whole' .* cannot be preempted
#include <cede/preempt.hpp>

struct body {
#ifndef CEDE_EXPECT_OK
  static constexpr bool whole = true;
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

auto use() { return cede::preemptible{cede::shape{.grid = 4, .block = 32}, body{}}; }
