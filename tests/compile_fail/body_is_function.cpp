// expect: cede: a function pointer cannot be a body
#include <cede/stream.hpp>

inline void tile(cede::block) {}
struct body {
  CEDE_BODY void operator()(cede::block b) const { tile(b); }
};

void use(cede::stream& s) {
#ifdef CEDE_EXPECT_OK
  s.launch({.grid = 4, .block = 32}, body{});
#else
  s.launch({.grid = 4, .block = 32}, tile);
#endif
}
