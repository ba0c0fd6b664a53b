// SPDX-License-Identifier: Apache-2.0
// The device side of <cede/rtc.hpp>: stands in front of a text that NVRTC compiles, and finds for a
// kernel of it the kernels around it.
#pragma once

#include <cede/config.hpp>

#if !CEDE_RTC
#error "cede/detail/rtc_device.hpp is for NVRTC alone: <cede/rtc.hpp> puts it before the text"
#endif

#include <cede/detail/port_kernels.hpp>
#include <cede/port/kernel.hpp>

#include <cstddef>
#include <type_traits>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// What <cede/rtc.hpp> has to know of a parameter, to convert an argument to it. The kinds are
/// numbered as in detail/rtc_arguments.hpp.
template <class P>
CEDE_BODY constexpr unsigned char kind_of_parameter() {
  if constexpr (std::is_pointer_v<P>) {
    return 1;
  } else if constexpr (std::is_same_v<P, bool>) {
    return 2;
  } else if constexpr (std::is_enum_v<P>) {
    return kind_of_parameter<std::underlying_type_t<P>>();
  } else if constexpr (std::is_integral_v<P> && sizeof(P) <= 8) {
    return std::is_signed_v<P> ? 3 : 4;
  } else if constexpr (std::is_floating_point_v<P> && sizeof(P) <= 8) {
    return 5;
  } else {
    return 0;
  }
}

/// How many parameters, then of each its kind and its size in two bytes, the lower first: bytes, so
/// that the PTX holds them as bytes.
template <std::size_t Count>
struct rtc_table {
  unsigned char bytes[1 + 3 * Count];
};

template <class Ported>
struct rtc_kernels;
template <class... P, void (*F)(P...), kernel_traits T>
struct rtc_kernels<ported<void(P...), F, T>> {
  CEDE_BODY static constexpr rtc_table<sizeof...(P)> table() {
    static_assert(sizeof...(P) < 256);
    (check_kernel_parameter<P>(), ...);
    rtc_table<sizeof...(P)> t{{static_cast<unsigned char>(sizeof...(P))}};
    unsigned at = 0;
    ((t.bytes[++at] = kind_of_parameter<std::remove_cv_t<P>>(),
      t.bytes[++at] = static_cast<unsigned char>(sizeof(P)),
      t.bytes[++at] = static_cast<unsigned char>(sizeof(P) >> 8U)),
     ...);
    return t;
  }
  // The kernels around it for at most `Threads` threads a block: templates, so that those nobody
  // asks for are not compiled.
  using K = ported<void(P...), F, T>;
  template <unsigned Threads>
  static constexpr auto native =
      &kernels::ported_native_kernel<K, Threads, T.min_blocks, std::remove_cv_t<P>...>;
  template <unsigned Threads>
  static constexpr auto gated =
      &kernels::ported_gated_kernel<K, Threads, T.min_blocks, std::remove_cv_t<P>...>;
  template <unsigned Threads>
  static constexpr auto persistent =
      &kernels::ported_persistent_kernel<K, Threads, T.min_blocks, std::remove_cv_t<P>...>;
};

/// A kernel by name alone.
template <auto F, kernel_traits T>
using rtc_ported = ported<typename signature_of<decltype(F)>::type, F, T>;

}  // namespace detail

CEDE_END_NAMESPACE
