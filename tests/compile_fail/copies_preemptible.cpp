// expect: use of deleted function .*preemptible\(const .*preemptible<
#include <cede/preempt.hpp>

#include <utility>

struct body {
  CEDE_BODY void operator()(cede::block) const {}
};

auto use(cede::preemptible<body> job) {
#ifdef CEDE_EXPECT_OK
  auto other = std::move(job);
#else
  auto other = job;
#endif
  return other;
}
