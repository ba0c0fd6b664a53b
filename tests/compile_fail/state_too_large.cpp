// expect: cede: the 'state' of a body is at most 1 GiB, every worker keeps one
#include <cede/stream.hpp>

#include <cstddef>

struct body {
#ifdef CEDE_EXPECT_OK
  static constexpr std::size_t bytes = std::size_t{1} << 30U;
#else
  static constexpr std::size_t bytes = (std::size_t{1} << 30U) + 1;
#endif
  struct state {
    char all[bytes];
  };
  static constexpr bool independent = true;
  CEDE_BODY void operator()(cede::block) const {}
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
