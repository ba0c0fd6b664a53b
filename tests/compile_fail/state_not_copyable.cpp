// expect: cede: the 'state' of a body is kept byte by byte in device memory
#include <cede/stream.hpp>

#include <vector>

struct body {
#ifdef CEDE_EXPECT_OK
  using state = int;
#else
  using state = std::vector<int>;
#endif
  static constexpr bool independent = true;
  CEDE_BODY void operator()(cede::block) const {}
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
