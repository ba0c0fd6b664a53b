// SPDX-License-Identifier: Apache-2.0
// What makes a callable a body, and what it may declare about itself.
#pragma once

#include <cede/block.hpp>
#include <cede/config.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if !CEDE_RTC
#include <string>
#include <string_view>
#include <utility>
#endif

CEDE_BEGIN_NAMESPACE

/// How a launch runs. `automatic` lets the library choose among what the body's traits allow.
enum class form : std::uint8_t {
  automatic,
  whole,       ///< native blocks, not preemptible
  sliced,      ///< native blocks, a range of tiles at a time
  gated,       ///< native blocks in chunks; blocks not started fall through after a raise
  persistent,  ///< resident workers that claim tiles one after another
};

/// Most bytes of a body with its arguments: they travel as kernel parameters.
inline constexpr std::size_t max_body_bytes = 3840;
/// Most bytes of the `state` of a body: every worker has one.
inline constexpr std::size_t max_state_bytes = std::size_t{1} << 30U;
/// Largest alignment of the `state` of a body, bytes.
inline constexpr std::size_t max_state_alignment = 128;

namespace detail {

// A body declares a trait as `static constexpr bool name = true;` (or a number).
#define CEDE_TRAIT(TYPE, NAME, ABSENT, EXAMPLE)                                                  \
  template <class B>                                                                             \
  CEDE_BODY constexpr TYPE trait_##NAME() {                                                      \
    if constexpr (requires { B::NAME; }) {                                                       \
      static_assert(                                                                             \
          !requires { requires std::is_member_pointer_v<decltype(&B::NAME)>; },                  \
          "cede: a body declares this trait as 'static constexpr " #TYPE " " #NAME " = " EXAMPLE \
          ";'");                                                                                 \
      return B::NAME;                                                                            \
    }                                                                                            \
    return ABSENT;                                                                               \
  }
CEDE_TRAIT(bool, native, false, "true")
CEDE_TRAIT(bool, whole, false, "true")
CEDE_TRAIT(bool, looks_back, false, "true")
CEDE_TRAIT(bool, independent, false, "true")
CEDE_TRAIT(bool, clustered, false, "true")
CEDE_TRAIT(bool, barrier_free, false, "true")
CEDE_TRAIT(unsigned, max_threads, 0, "256")
CEDE_TRAIT(unsigned, min_blocks, 0, "2")
#undef CEDE_TRAIT

/// Bytes of what a body keeps of a tile left half done, declared as `using state = …;`; 0 =
/// nothing.
template <class B>
CEDE_BODY constexpr std::size_t trait_state_bytes() {
  if constexpr (requires { typename B::state; }) return sizeof(typename B::state);
  return 0;
}

}  // namespace detail

#if !CEDE_RTC

namespace detail {

/// What the compiler writes behind `key` in the name of a function template; `otherwise` if it does
/// not.
constexpr std::string_view written_behind(std::string_view key, std::string_view whole,
                                          std::string_view otherwise) {
  const auto begin = whole.find(key);
  if (begin == std::string_view::npos) return otherwise;
  const auto end = whole.find_first_of(";]", begin);
  return whole.substr(begin + key.size(), end - begin - key.size());
}

/// The name of a type as the compiler writes it, for messages and timelines.
template <class T>
std::string_view type_name() {
  return written_behind("T = ", __PRETTY_FUNCTION__, "body");
}

// The parameter types of a call operator that is not a template, after the leading block.
template <class F>
struct call_parameters;
#define CEDE_CALL_PARAMETERS(QUALIFIERS)                     \
  template <class R, class C, class First, class... P>       \
  struct call_parameters<R (C::*)(First, P...) QUALIFIERS> { \
    template <template <class...> class To>                  \
    using apply = To<std::decay_t<P>...>;                    \
    static constexpr std::size_t count = sizeof...(P);       \
  };
CEDE_CALL_PARAMETERS()
CEDE_CALL_PARAMETERS(const)
CEDE_CALL_PARAMETERS(noexcept)
CEDE_CALL_PARAMETERS(const noexcept)
#undef CEDE_CALL_PARAMETERS

template <class B>
concept plain_call = requires { call_parameters<decltype(&B::operator())>::count; };

/// How many arguments a body takes after its block; 0 where its call operator is a template.
template <class B>
constexpr std::size_t parameter_count() {
  if constexpr (plain_call<B>) return call_parameters<decltype(&B::operator())>::count;
  return 0;
}

// What nvcc makes of its extended lambdas: a `__device__` one is an empty shell on the host, a
// `__host__ __device__` one owns heap memory there.
#if CEDE_NVCC
template <class B>
inline constexpr bool device_lambda = __nv_is_extended_device_lambda_closure_type(B);
template <class B>
inline constexpr bool host_device_lambda = __nv_is_extended_host_device_lambda_closure_type(B);
#else
template <class B>
inline constexpr bool device_lambda = false;
template <class B>
inline constexpr bool host_device_lambda = false;
#endif

/// What holds of a body called with `P...` after its block, each rule one sentence.
template <class B, class... P>
constexpr void check_call() {
  static_assert(
      !std::is_pointer_v<B> && !std::is_function_v<B>,
      "cede: a function pointer cannot be a body, it does not exist on the device; wrap the "
      "call in a struct with a 'CEDE_BODY void operator()(cede::block b) const', pass the "
      "text of a __global__ function through a port region and name it cede::body<kernel>, or "
      "launch it as it is through stream::run");
  static_assert(
      !host_device_lambda<B>,
      "cede: a lambda marked __host__ __device__ cannot be a body, nvcc keeps its captures on "
      "the heap; mark it __device__ alone, or write a struct with a CEDE_BODY call operator");
  if constexpr (device_lambda<B>) {
    static_assert(
        sizeof...(P) == 0,
        "cede: a __device__ lambda takes no launch arguments after its cede::block; capture "
        "them by value");
  } else if constexpr (!std::is_pointer_v<B>) {
    constexpr bool callable = std::is_invocable_v<const B&, block, const P&...>;
    static_assert(
        callable || parameter_count<B>() == sizeof...(P),
        "cede: the launch passes another number of arguments than the body takes after its "
        "cede::block (an adapter passes none: keep them as members)");
    static_assert(
        callable || parameter_count<B>() != sizeof...(P),
        "cede: a body must be callable as 'body(cede::block)', then its arguments, on a const "
        "object; declare 'CEDE_BODY void operator()(cede::block b) const'");
    if constexpr (callable) {
      static_assert(
          std::is_void_v<std::invoke_result_t<const B&, block, const P&...>>,
          "cede: a body must return nothing, a tile has nobody to return to; write results "
          "through a pointer");
    }
  }
}

// A tuple that is trivially copyable and usable on the device: std::tuple is neither.
template <class... T>
struct pack {};
template <class T, class... Rest>
struct pack<T, Rest...> {
  T first;
  pack<Rest...> rest;
};

template <class... To>
struct pack_from {
  static pack<> make() { return {}; }
};
template <class T, class... Rest>
struct pack_from<T, Rest...> {
  template <class A, class... As>
  static pack<T, Rest...> make(A&& a, As&&... as) {
    static_assert(
        std::is_convertible_v<A&&, T>,
        "cede: an argument of the launch does not convert to the type the body takes in its "
        "place");
    return {static_cast<T>(std::forward<A>(a)), pack_from<Rest...>::make(std::forward<As>(as)...)};
  }
};

template <class B>
struct state_of {};
template <class B>
  requires requires { typename B::state; }
struct state_of<B> {
  using state = typename B::state;
};

/// A body with its arguments: what is copied to the device.
template <class B, class... P>
struct bound : state_of<B> {
  static constexpr bool native = trait_native<B>();
  static constexpr bool whole = trait_whole<B>();
  static constexpr bool looks_back = trait_looks_back<B>();
  static constexpr bool independent = trait_independent<B>();
  static constexpr bool clustered = trait_clustered<B>();
  static constexpr bool barrier_free = trait_barrier_free<B>();
  static constexpr unsigned max_threads = trait_max_threads<B>();
  static constexpr unsigned min_blocks = trait_min_blocks<B>();

  B body;
  pack<P...> args;

  CEDE_BODY void operator()(block b) const { call(b, args); }

 private:
  template <class... Done>
  CEDE_BODY void call(block b, const pack<>&, const Done&... done) const {
    body(b, done...);
  }
  template <class T, class... Rest, class... Done>
  CEDE_BODY void call(block b, const pack<T, Rest...>& p, const Done&... done) const {
    call(b, p.rest, done..., p.first);
  }
};

template <class B>
struct binder {
  template <class... P>
  using to = bound<B, P...>;
};

/// Binds arguments, converted on the host to the body's own parameter types. Without arguments the
/// body stays as it is. A body whose parameters are known at run time alone binds them itself.
template <class B, class... Args>
constexpr auto bind_body(B body, Args&&... args) {
  if constexpr (requires { body.bind_arguments(std::forward<Args>(args)...); }) {
    return body.bind_arguments(std::forward<Args>(args)...);
  } else if constexpr (sizeof...(Args) == 0) {
    return body;
  } else if constexpr (plain_call<B> && parameter_count<B>() == sizeof...(Args)) {
    using parameters = call_parameters<decltype(&B::operator())>;
    using result = typename parameters::template apply<binder<B>::template to>;
    return [&]<class... P>(bound<B, P...>*) {
      check_call<B, P...>();
      return bound<B, P...>{
          {}, std::move(body), pack_from<P...>::make(std::forward<Args>(args)...)};
    }(static_cast<result*>(nullptr));
  } else {
    check_call<B, std::decay_t<Args>...>();
    return bound<B, std::decay_t<Args>...>{
        {}, std::move(body), pack_from<std::decay_t<Args>...>::make(std::forward<Args>(args)...)};
  }
}

/// The compile-time rules of a body, each one sentence.
template <class B>
constexpr void check_body() {
  check_call<B>();
  static_assert(host_device_lambda<B> || std::is_trivially_copyable_v<B>,
                "cede: a body must be trivially copyable, it is copied byte by byte to the device; "
                "hold raw pointers and numbers, not containers, strings or references");
  static_assert(sizeof(B) <= max_body_bytes,
                "cede: a body and its arguments must fit into 3840 bytes of kernel parameters; put "
                "larger data into device memory and pass a pointer");
  static_assert(!(trait_whole<B>() && trait_independent<B>()),
                "cede: a body cannot be both 'whole' (grid barriers, waits on later tiles) and "
                "'independent' (tiles may be given back)");
  static_assert(
      !(trait_looks_back<B>() && trait_independent<B>()),
      "cede: a body cannot be both 'looks_back' (waits on earlier tiles) and 'independent' "
      "(tiles may be given back)");
  static_assert(
      !(trait_clustered<B>() && trait_native<B>()),
      "cede: a body cannot be both 'clustered' (persistent workers that are clusters) and "
      "'native' (never persistent); leave 'clustered' out, and its clusters run whole");
  if constexpr (trait_state_bytes<B>() != 0) {
    static_assert(
        !trait_clustered<B>(),
        "cede: a 'clustered' body cannot declare 'state': blocks of a cluster cannot leave "
        "one by one, so none is left half done");
    static_assert(trait_independent<B>(),
                  "cede: a body that declares 'state' leaves tiles half done, so it must be "
                  "'independent'; declare 'static constexpr bool independent = true;'");
    static_assert(
        std::is_trivially_copyable_v<typename B::state>,
        "cede: the 'state' of a body is kept byte by byte in device memory, so it must be "
        "trivially copyable");
    static_assert(
        sizeof(typename B::state) <= max_state_bytes,
        "cede: the 'state' of a body is at most 1 GiB, every worker keeps one; keep large "
        "data in memory of your own and what finds it in 'state'");
    static_assert(alignof(typename B::state) <= max_state_alignment,
                  "cede: the 'state' of a body is aligned to at most 128 bytes; align what is in "
                  "it by hand");
  }
  static_assert(!(trait_barrier_free<B>() && trait_clustered<B>()),
                "cede: a body cannot be both 'barrier_free' (threads of a tile never meet) and "
                "'clustered' (blocks of a tile do)");
  static_assert(trait_min_blocks<B>() == 0 || trait_max_threads<B>() != 0,
                "cede: a body that declares 'min_blocks' declares 'max_threads' as well, as "
                "__launch_bounds__ does");
}

template <class B>
constexpr void check_preemptible() {
  check_body<B>();
  static_assert(!trait_whole<B>(),
                "cede: a body declared 'whole' (grid barriers, waits on later tiles) cannot be "
                "preempted; launch it with cede::sliceable as one slice, or through stream::run");
}
template <class B>
constexpr void check_persistent() {
  check_preemptible<B>();
  static_assert(!trait_native<B>(),
                "cede: a body declared 'native' (exited lanes in warp masks, mbarrier, setmaxnreg) "
                "cannot run in persistent workers; use form::gated");
}
template <class B>
constexpr void check_sliceable() {
  check_body<B>();
}

}  // namespace detail

/// What a body declared, as values; docs/how-it-works.md tells the contracts.
struct body_traits {
  bool native = false;        ///< needs native blocks: gated form only
  bool whole = false;         ///< never preemptible, never sliced
  bool looks_back = false;    ///< waits on earlier tiles: ascending claims, no giving back
  bool independent = false;   ///< a claimed tile may be given back
  bool clustered = false;     ///< runs in thread-block clusters, persistent workers included
  unsigned max_threads = 0;   ///< launch bound on threads per block; 0 = undeclared
  unsigned min_blocks = 0;    ///< launch bound on blocks per SM; 0 = undeclared
  bool barrier_free = false;  ///< threads of a tile share no memory and never meet
};

/// Reads the traits of a body type.
template <class B>
constexpr body_traits traits_of() {
  return {detail::trait_native<B>(),     detail::trait_whole<B>(),
          detail::trait_looks_back<B>(), detail::trait_independent<B>(),
          detail::trait_clustered<B>(),  detail::trait_max_threads<B>(),
          detail::trait_min_blocks<B>(), detail::trait_barrier_free<B>()};
}

#endif

CEDE_END_NAMESPACE
