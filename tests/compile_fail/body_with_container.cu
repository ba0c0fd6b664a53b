// expect: cede: a body must be trivially copyable
#include <cede/body.hpp>

#include <vector>

struct body {
#ifndef CEDE_EXPECT_OK
  std::vector<float> values;
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

template void cede::detail::check_body<body>();
