// expect: cede: a body must be trivially copyable
#include <cede/stream.hpp>

#include <string>

void use(cede::stream& s, const std::string& text) {
#ifdef CEDE_EXPECT_OK
  s.launch({.grid = 4, .block = 32}, [n = text.size()](cede::block) { (void)n; });
#else
  s.launch({.grid = 4, .block = 32}, [text](cede::block) { (void)text; });
#endif
}
