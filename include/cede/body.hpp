// SPDX-License-Identifier: Apache-2.0
// What makes a callable a body, and what it may declare about itself.
#pragma once

#include <cede/block.hpp>
#include <cede/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

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

namespace detail {

// A body declares a trait as `static constexpr bool name = true;` (or a number).
template <class B>
constexpr bool trait_native() {
  if constexpr (requires { B::native; }) return B::native;
  return false;
}
template <class B>
constexpr bool trait_whole() {
  if constexpr (requires { B::whole; }) return B::whole;
  return false;
}
template <class B>
constexpr bool trait_looks_back() {
  if constexpr (requires { B::looks_back; }) return B::looks_back;
  return false;
}
template <class B>
constexpr bool trait_independent() {
  if constexpr (requires { B::independent; }) return B::independent;
  return false;
}
template <class B>
constexpr unsigned trait_max_threads() {
  if constexpr (requires { B::max_threads; }) return B::max_threads;
  return 0;
}
template <class B>
constexpr unsigned trait_min_blocks() {
  if constexpr (requires { B::min_blocks; }) return B::min_blocks;
  return 0;
}

/// The name of a type as the compiler writes it, for messages and timelines.
template <class T>
std::string_view type_name() {
  const std::string_view whole = __PRETTY_FUNCTION__;
  const auto begin = whole.find("T = ");
  if (begin == std::string_view::npos) return "body";
  const auto end = whole.find_first_of(";]", begin);
  return whole.substr(begin + 4, end - begin - 4);
}

// The parameter types of a call operator that is not a template, after the leading block.
template <class F>
struct call_parameters;
#define CEDE_CALL_PARAMETERS(QUALIFIERS)                          \
  template <class R, class C, class First, class... P>            \
  struct call_parameters<R (C::*)(First, P...) QUALIFIERS> {      \
    template <template <class...> class To>                       \
    using apply = To<std::decay_t<P>...>;                         \
    static constexpr std::size_t count = sizeof...(P);            \
  };
CEDE_CALL_PARAMETERS()
CEDE_CALL_PARAMETERS(const)
CEDE_CALL_PARAMETERS(noexcept)
CEDE_CALL_PARAMETERS(const noexcept)
#undef CEDE_CALL_PARAMETERS

template <class B>
concept plain_call = requires { &B::operator(); };

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
    return {static_cast<T>(std::forward<A>(a)), pack_from<Rest...>::make(std::forward<As>(as)...)};
  }
};

/// A body with its arguments: what is copied to the device.
template <class B, class... P>
struct bound {
  static constexpr bool native = trait_native<B>();
  static constexpr bool whole = trait_whole<B>();
  static constexpr bool looks_back = trait_looks_back<B>();
  static constexpr bool independent = trait_independent<B>();
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
/// body stays as it is.
template <class B, class... Args>
constexpr auto bind_body(B body, Args&&... args) {
  if constexpr (sizeof...(Args) == 0) {
    return body;
  } else if constexpr (plain_call<B>) {
    using parameters = call_parameters<decltype(&B::operator())>;
    static_assert(parameters::count == sizeof...(Args),
                  "cede: the launch passes another number of arguments than the body takes after "
                  "its cede::block");
    using result = typename parameters::template apply<binder<B>::template to>;
    return [&]<class... P>(bound<B, P...>*) {
      return bound<B, P...>{std::move(body), pack_from<P...>::make(std::forward<Args>(args)...)};
    }(static_cast<result*>(nullptr));
  } else {
    return bound<B, std::decay_t<Args>...>{
        std::move(body), pack_from<std::decay_t<Args>...>::make(std::forward<Args>(args)...)};
  }
}

/// The compile-time rules of a body, each one sentence.
template <class B>
constexpr void check_body() {
  static_assert(!std::is_pointer_v<B> && !std::is_function_v<B>,
                "cede: a function pointer cannot be a body, it does not exist on the device; wrap the "
                "call in a struct with a CEDE_BODY operator()(cede::block)");
  static_assert(std::is_trivially_copyable_v<B>,
                "cede: a body must be trivially copyable, it is copied byte by byte to the device; "
                "capture raw pointers and numbers, not containers, strings or references");
  static_assert(std::is_invocable_v<const B&, block>,
                "cede: a body must be callable as `body(cede::block)` on a const object; declare "
                "`CEDE_BODY void operator()(cede::block b) const`");
  static_assert(sizeof(B) <= max_body_bytes,
                "cede: a body and its arguments must fit into 3840 bytes of kernel parameters; put "
                "larger data into device memory and pass a pointer");
  static_assert(!(trait_whole<B>() && trait_independent<B>()),
                "cede: a body cannot be both `whole` (grid barriers, waits on later tiles) and "
                "`independent` (tiles may be given back)");
  static_assert(!(trait_looks_back<B>() && trait_independent<B>()),
                "cede: a body cannot be both `looks_back` (waits on earlier tiles) and `independent` "
                "(tiles may be given back)");
}

template <class B>
constexpr void check_preemptible() {
  check_body<B>();
  static_assert(!trait_whole<B>(),
                "cede: a body declared `whole` (grid barriers, waits on later tiles) cannot be "
                "preempted; launch it with cede::sliceable as one slice, or through stream::run");
}
template <class B>
constexpr void check_persistent() {
  check_preemptible<B>();
  static_assert(!trait_native<B>(),
                "cede: a body declared `native` (exited lanes in warp masks, mbarrier, setmaxnreg) "
                "cannot run in persistent workers; use form::gated");
}
template <class B>
constexpr void check_sliceable() {
  check_body<B>();
}

}  // namespace detail

/// What a body declared, as values; see `design` section 4 in the docs for the contracts.
struct body_traits {
  bool native = false;       ///< needs native blocks: gated form only
  bool whole = false;        ///< never preemptible, never sliced
  bool looks_back = false;   ///< waits on earlier tiles: ascending claims, no giving back
  bool independent = false;  ///< a claimed tile may be given back
  unsigned max_threads = 0;  ///< launch bound on threads per block; 0 = undeclared
  unsigned min_blocks = 0;   ///< launch bound on blocks per SM; 0 = undeclared
};

/// Reads the traits of a body type.
template <class B>
constexpr body_traits traits_of() {
  return {detail::trait_native<B>(),      detail::trait_whole<B>(),
          detail::trait_looks_back<B>(),  detail::trait_independent<B>(),
          detail::trait_max_threads<B>(), detail::trait_min_blocks<B>()};
}

CEDE_END_NAMESPACE
