// expect: cede: a body must be trivially copyable
#include <cede/stream.hpp>

#include <string>

struct body {
#ifdef CEDE_EXPECT_OK
  CEDE_BODY void operator()(cede::block, const char*) const {}
#else
  CEDE_BODY void operator()(cede::block, const std::string&) const {}
#endif
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}, "text"); }
