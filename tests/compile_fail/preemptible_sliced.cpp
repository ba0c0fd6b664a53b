// expect: cede: preemptible has two forms, gated and persistent
#include <cede/preempt.hpp>

struct body {
  CEDE_BODY void operator()(cede::block) const {}
};

#ifdef CEDE_EXPECT_OK
constexpr cede::form form = cede::form::persistent;
#else
constexpr cede::form form = cede::form::sliced;
#endif

auto use() { return cede::preemptible<body, form>{cede::shape{.grid = 4, .block = 32}, body{}}; }
