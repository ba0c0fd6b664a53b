// expect: cede: an extent is made from integers, not from a fraction or a bool
#include <cede/shape.hpp>

#include <cmath>

cede::shape use(int n) {
#ifdef CEDE_EXPECT_OK
  return {.grid = (n + 255) / 256, .block = 256};
#else
  return {.grid = std::ceil(n / 256.0), .block = 256};
#endif
}
