// expect: cede: a body must be callable as 'body\(cede::block\)', then its arguments, on a const
#include <cede/body.hpp>

struct body {
  int tiles = 0;
#ifdef CEDE_EXPECT_OK
  CEDE_BODY void operator()(cede::block) const {}
#else
  CEDE_BODY void operator()(cede::block) { ++tiles; }
#endif
};

template void cede::detail::check_body<body>();
