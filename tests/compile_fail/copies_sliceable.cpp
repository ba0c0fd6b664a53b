// expect: use of deleted function .*sliceable\(const .*sliceable<
#include <cede/slice.hpp>

#include <utility>

struct body {
  CEDE_BODY void operator()(cede::block) const {}
};

auto use(cede::sliceable<body> parts) {
#ifdef CEDE_EXPECT_OK
  auto other = std::move(parts);
#else
  auto other = parts;
#endif
  return other;
}
