// expect: cede: an extent is made from integers, not from a fraction or a bool
#include <cede/shape.hpp>

cede::extent use(int n) {
#ifdef CEDE_EXPECT_OK
  return n;
#else
  return n > 0;
#endif
}
