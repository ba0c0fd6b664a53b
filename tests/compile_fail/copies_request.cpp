// expect: (use of deleted function|is implicitly declared as deleted).*request
#include <cede/workload.hpp>

#include <utility>

auto use(cede::request open) {
#ifdef CEDE_EXPECT_OK
  auto other = std::move(open);
#else
  auto other = open;
#endif
  return other;
}
