// expect: the Microsoft compiler is not supported
// with: -D_MSVC_LANG=202002L
#include <cede/config.hpp>
