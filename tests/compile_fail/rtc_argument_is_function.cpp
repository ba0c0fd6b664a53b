// expect: cede: the address of a host function is nothing to a kernel; pass data
#include <cede/detail/rtc_arguments.hpp>

void function(int);

void use(void* to) {
#ifdef CEDE_EXPECT_OK
  void* const argument = nullptr;
#else
  void (*const argument)(int) = &function;
#endif
  cede::detail::store_argument(to, {}, argument, 1, "kernel");
}
