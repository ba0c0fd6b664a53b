// expect: cede: a body declared 'native' .* cannot run in persistent workers
#include <cede/preempt.hpp>

struct body {
  static constexpr bool native = true;
  CEDE_BODY void operator()(cede::block) const {}
};

#ifdef CEDE_EXPECT_OK
constexpr cede::form form = cede::form::gated;
#else
constexpr cede::form form = cede::form::persistent;
#endif

auto use() { return cede::preemptible<body, form>{cede::shape{.grid = 4, .block = 32}, body{}}; }
