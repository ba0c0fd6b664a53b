// expect: cede: a body that declares 'state' leaves tiles half done, so it must be 'independent'
#include <cede/stream.hpp>

struct body {
  struct state {
    int round;
  };
#ifdef CEDE_EXPECT_OK
  static constexpr bool independent = true;
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
