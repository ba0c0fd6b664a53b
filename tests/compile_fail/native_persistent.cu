// expect: cede: a body declared 'native' .* cannot run in persistent workers
#include <cede/body.hpp>

struct body {
#ifndef CEDE_EXPECT_OK
  static constexpr bool native = true;
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

template void cede::detail::check_persistent<body>();
