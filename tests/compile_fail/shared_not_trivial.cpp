// expect: cede: an object in shared memory must be trivially constructible and destructible
#include <cede/stream.hpp>

#include <vector>

#ifdef CEDE_EXPECT_OK
using scratch = float[32];
#else
using scratch = std::vector<float>;
#endif

struct body {
  CEDE_BODY void operator()(cede::block b) const { (void)b.shared<scratch>(); }
};

void use(cede::stream& s) { s.launch({.grid = 4, .block = 32}, body{}); }
