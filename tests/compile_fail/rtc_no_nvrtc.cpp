// expect: cede/rtc.hpp needs NVRTC's header
// with: -nostdinc -nostdinc++ -DWITHOUT_NVRTC
#ifdef WITHOUT_NVRTC
#include <cede/rtc.hpp>
#else
#include <cede/cede.hpp>
#endif
