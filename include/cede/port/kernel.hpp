// SPDX-License-Identifier: Apache-2.0
// Kernels as they are: `cede::body<kernel>` makes a body of a `__global__` function whose text
// stands in a port region (<cede/port/begin.hpp>), `cede::bind` gives any body its arguments
// beforehand, for the adapters.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/port/registers.hpp>
#include <cede/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if !CEDE_RTC
#include <cede/detail/registration.hpp>

#include <array>
#include <string_view>
#include <utility>
#endif

/// Looked for by <cede/port/begin.hpp>.
#define CEDE_PORT_READY 1

CEDE_BEGIN_NAMESPACE

/// What the author of a kernel knows about it, as the second argument of `cede::body`:
///
///     cede::body<their_kernel<float>, cede::kernel_traits{.max_threads = 256, .min_blocks = 2}>
struct kernel_traits {
  /// Launch bounds, as in `__launch_bounds__(max_threads, min_blocks)`. 0 = not stated: the kernel
  /// is compiled for 256, 512 and 1024 threads, and the shape of a launch chooses among the three.
  unsigned max_threads = 0;
  unsigned min_blocks = 0;  ///< blocks an SM shall have room for; 0 = not stated
  /// May run in persistent workers: no warp-wide operation over returned lanes, no mbarrier left
  /// set up, no `__syncthreads_or` and its like. Not declared: native blocks, in the gated form.
  bool persistent_safe = false;
  bool looks_back = false;   ///< waits on earlier tiles
  bool independent = false;  ///< a claimed tile may be given back
  bool whole = false;        ///< grid barriers, waits on later tiles: never preempted
};

namespace detail {

template <class F>
struct signature_of;
template <class R, class... P>
struct signature_of<R (*)(P...)> {
  using type = R(P...);
};

/// A kernel by name; nothing of it is compiled yet.
template <class Signature, Signature* F, kernel_traits T>
struct ported {
  static_assert(std::is_function_v<Signature>,
                "cede: cede::body<signature, kernel> takes the type of a kernel first, such as "
                "void(float*, int)");
  static_assert(T.min_blocks == 0 || T.max_threads != 0,
                "cede: kernel_traits with 'min_blocks' state 'max_threads' as well, as "
                "__launch_bounds__ does");
  static_assert(T.max_threads <= 1024,
                "cede: kernel_traits state a 'max_threads' above 1024, no block has more threads");
  static_assert(!(T.whole && T.independent),
                "cede: a kernel cannot be both 'whole' (grid barriers, waits on later tiles) and "
                "'independent' (tiles may be given back)");
  static constexpr kernel_traits traits = T;
  /// No variable: NVRTC would emit it, and with it the function as one of its own.
  CEDE_BODY static consteval Signature* function() { return F; }
};

/// One parameter of a kernel: what may travel to the device.
template <class P>
CEDE_BODY constexpr void check_kernel_parameter() {
  static_assert(!std::is_reference_v<P>,
                "cede: a kernel takes its parameters by value, a reference would point into the "
                "host's memory");
  static_assert(std::is_trivially_copyable_v<std::remove_reference_t<P>>,
                "cede: a kernel's parameters must be trivially copyable, they are copied byte by "
                "byte to the device; pass raw pointers and numbers, not containers or strings");
}

}  // namespace detail

#if !CEDE_RTC

namespace detail {

/// The name of a function as the compiler writes it.
template <auto F>
std::string_view function_name() {
  return written_behind("F = ", __PRETTY_FUNCTION__, "kernel");
}

/// Offsets of the members of a `pack<A...>`.
template <class... A>
struct pack_offsets {
  static constexpr std::array<std::uint32_t, 0> value{};
};
template <class First, class... Rest>
struct pack_offsets<First, Rest...> {
  static constexpr auto value = [] {
    constexpr std::size_t align = alignof(pack<Rest...>);
    constexpr std::size_t rest = (sizeof(First) + align - 1) / align * align;
    std::array<std::uint32_t, 1 + sizeof...(Rest)> all{};
    std::size_t i = 0;
    for (const std::uint32_t offset : pack_offsets<Rest...>::value) {
      all[++i] = static_cast<std::uint32_t>(rest) + offset;
    }
    return all;
  }();
};

/// A ported kernel compiled for at most `Threads` threads a block, with its arguments.
template <class K, unsigned Threads, class... A>
struct ported_code {
  static constexpr bool native = !K::traits.persistent_safe;
  static constexpr bool whole = K::traits.whole;
  static constexpr bool looks_back = K::traits.looks_back;
  static constexpr bool independent = K::traits.independent;
  static constexpr unsigned max_threads = Threads;
  static constexpr unsigned min_blocks = K::traits.min_blocks;
  static constexpr bool device_only = true;
  static std::string_view name() { return function_name<K::function()>(); }

  pack<A...> args;

  /// Never defined: the kernels around it call the ported function with its own parameters.
  void operator()(block b) const;
};

/// A ported kernel with its arguments, whose launch bounds the shape chooses.
template <class K, class... A>
struct ported_body : ported_code<K, 1024, A...> {
  template <unsigned Threads>
  using code = ported_code<K, Threads, A...>;

  template <compiler By, bool Preemptible>
  [[nodiscard]] const kernel_entry& entry(const shape& s) const {
    static_assert(sizeof(code<256>) == sizeof(ported_body));
    // Past the last, the launch is refused in words by the shape's own check.
    if (s.block.x <= 1024 && s.block.y <= 1024 && s.block.z <= 1024) {
      if (s.threads() <= 256) return entry_of<code<256>, By, Preemptible>();
      if (s.threads() <= 512) return entry_of<code<512>, By, Preemptible>();
    }
    return entry_of<code<1024>, By, Preemptible>();
  }
};

/// A kernel without its arguments, as `cede::body<kernel>` names it.
template <class Signature, Signature* F, kernel_traits T>
using kernel_name = ported<Signature, F, T> (*)();

template <class K>
struct kernel_binder;
template <class... P, void (*F)(P...), kernel_traits T>
struct kernel_binder<ported<void(P...), F, T>> {
  template <class... Args>
  static auto bind(Args&&... args) {
    using K = ported<void(P...), F, T>;
    static_assert(
        sizeof...(Args) == sizeof...(P),
        "cede: the launch passes another number of arguments than the kernel takes (default "
        "arguments of a kernel are not seen through its address: pass them)");
    (check_kernel_parameter<P>(), ...);
    if constexpr (sizeof...(Args) == sizeof...(P)) {
      auto made = pack_from<std::remove_cv_t<P>...>::make(std::forward<Args>(args)...);
      if constexpr (T.max_threads != 0) {
        return ported_code<K, T.max_threads, std::remove_cv_t<P>...>{made};
      } else {
        return ported_body<K, std::remove_cv_t<P>...>{{made}};
      }
    } else {
      return ported_body<K>{};
    }
  }
};

/// Arguments of a ported kernel, converted on the host to the types it takes.
template <class Signature, Signature* F, kernel_traits T, class... Args>
auto bind_body(kernel_name<Signature, F, T>, Args&&... args) {
  static_assert(CEDE_NVCC || sizeof...(Args) == ~std::size_t{0},
                "cede: only nvcc can make a body of a kernel; compile this file with it");
  return kernel_binder<ported<Signature, F, T>>::bind(std::forward<Args>(args)...);
}

}  // namespace detail

/// Names a kernel of a port region as a body: `t.launch(shape, cede::body<kernel<float>>,
/// args...)`. `args` are converted on the host to the kernel's parameter types, which must be
/// trivially copyable. Runs in the gated form unless `Traits` declare more. Not called: the name
/// alone stands for the kernel. Thread-safe; never waits.
template <auto Kernel, kernel_traits Traits = kernel_traits{}>
detail::ported<typename detail::signature_of<decltype(Kernel)>::type, Kernel, Traits> body() {
  return {};
}
/// The same for one of several functions of a name: `cede::body<void(float*), kernel>`.
template <class Signature, Signature* Kernel, kernel_traits Traits = kernel_traits{}>
detail::ported<Signature, Kernel, Traits> body() {
  return {};
}

/// A body with its arguments, converted to the types it takes: what the adapters, which pass no
/// arguments, take.
///
///     cede::preemptible job{shape, cede::bind(cede::body<kernel<float>>, x, n)};
///
/// `body` is a kernel's name or any other body. Thread-safe; never waits.
template <class Body, class... Args>
auto bind(Body body, Args&&... args) {
  return detail::bind_body(std::move(body), std::forward<Args>(args)...);
}

#endif

CEDE_END_NAMESPACE
