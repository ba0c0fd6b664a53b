// expect: cede: a kernel's arguments must be trivially copyable
#include <cede/detail/rtc_arguments.hpp>

#include <string>

void use(void* to) {
#ifdef CEDE_EXPECT_OK
  const double argument = 1;
#else
  const std::string argument;
#endif
  cede::detail::store_argument(to, {}, argument, 1, "kernel");
}
