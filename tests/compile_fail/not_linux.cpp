// expect: cede runs on Linux only
// with: -U__linux__
#include <cede/config.hpp>
