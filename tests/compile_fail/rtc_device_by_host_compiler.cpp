// expect: cede/detail/rtc_device.hpp is for NVRTC alone: <cede/rtc.hpp> puts it before the text
#ifdef CEDE_EXPECT_OK
#include <cede/detail/rtc_text.hpp>
#else
#include <cede/detail/rtc_device.hpp>
#endif
