// expect: cede: the 'state' of a body is aligned to at most 128 bytes
#include <cede/stream.hpp>

struct body {
#ifdef CEDE_EXPECT_OK
  struct alignas(128) state {
#else
  struct alignas(256) state {
#endif
    int round;
  };
  static constexpr bool independent = true;
  CEDE_BODY void operator()(cede::block) const {}
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
