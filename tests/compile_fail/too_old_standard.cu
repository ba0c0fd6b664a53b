// expect: cede needs C\+\+20: compile with -std=c\+\+20
// with: -std=c++17
#include <cede/config.hpp>
