// expect: cede: a body declares this trait as 'static constexpr bool native = true;'
#include <cede/body.hpp>

struct body {
#ifdef CEDE_EXPECT_OK
  static constexpr bool native = true;
#else
  bool native = true;
#endif
  CEDE_BODY void operator()(cede::block) const {}
};

static_assert(cede::traits_of<body>().native);
