// expect: call of overloaded .wait\((std::)?nullptr(_t)?\). is ambiguous
#include <cede/stream.hpp>

void use(cede::stream& s, cudaEvent_t e) {
#ifdef CEDE_EXPECT_OK
  s.wait(e);
#else
  (void)e;
  s.wait(nullptr);
#endif
}
