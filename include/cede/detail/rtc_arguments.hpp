// SPDX-License-Identifier: Apache-2.0
// Arguments of a kernel whose parameters are known at run time alone: converted on the host to what
// the kernel takes, or refused in a sentence.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// What a parameter is; numbered as in detail/rtc_device.hpp.
enum class parameter_kind : std::uint8_t {
  object = 0,
  pointer = 1,
  boolean = 2,
  signed_integer = 3,
  unsigned_integer = 4,
  floating = 5,
};

struct parameter {
  parameter_kind kind = parameter_kind::object;
  std::uint32_t size = 0;  ///< bytes

  [[nodiscard]] std::string text() const {
    const std::string bytes = std::to_string(size);
    switch (kind) {
      case parameter_kind::pointer:
        return "a pointer";
      case parameter_kind::boolean:
        return "a bool";
      case parameter_kind::signed_integer:
        return "a signed integer of " + bytes + " bytes";
      case parameter_kind::unsigned_integer:
        return "an unsigned integer of " + bytes + " bytes";
      case parameter_kind::floating:
        return "a floating-point number of " + bytes + " bytes";
      default:
        return "an object of " + bytes + " bytes";
    }
  }
};

inline std::string text_of(const std::vector<parameter>& all) {
  std::string text;
  for (const parameter& p : all) text += (text.empty() ? "" : ", ") + p.text();
  return text.empty() ? "none" : text;
}

/// Room of an argument among those that travel with a launch. It is the same for the argument that
/// is passed and for what it is converted to.
constexpr std::size_t argument_room(std::size_t size) { return (size + 15) / 16 * 16; }

template <class To, class From>
void store_as(void* to, From value) {
  const To converted = static_cast<To>(value);  // NOLINT(bugprone-signed-char-misuse): as in C++
  std::memcpy(to, &converted, sizeof converted);
}

/// Stores a number as the parameter's type, converted as C++ does; false if it takes no number.
template <class From>
bool store_number(void* to, const parameter& p, From value) {
  const auto is = [&](parameter_kind kind, std::size_t size) {
    return p.kind == kind && p.size == size;
  };
  using enum parameter_kind;
  if (is(boolean, 1)) return store_as<bool>(to, value), true;
  if (is(signed_integer, 1)) return store_as<std::int8_t>(to, value), true;
  if (is(signed_integer, 2)) return store_as<std::int16_t>(to, value), true;
  if (is(signed_integer, 4)) return store_as<std::int32_t>(to, value), true;
  if (is(signed_integer, 8)) return store_as<std::int64_t>(to, value), true;
  if (is(unsigned_integer, 1)) return store_as<std::uint8_t>(to, value), true;
  if (is(unsigned_integer, 2)) return store_as<std::uint16_t>(to, value), true;
  if (is(unsigned_integer, 4)) return store_as<std::uint32_t>(to, value), true;
  if (is(unsigned_integer, 8)) return store_as<std::uint64_t>(to, value), true;
  if (is(floating, 4)) return store_as<float>(to, value), true;
  if (is(floating, 8)) return store_as<double>(to, value), true;
  return false;
}

/// Stores an argument as what the kernel takes in its place. `number` counts from 1. Throws
/// `invalid_argument`.
template <class A>
void store_argument(void* to, const parameter& p, const A& a, std::size_t number,
                    const std::string& kernel) {
  using D = std::decay_t<const A&>;
  static_assert(!std::is_function_v<std::remove_pointer_t<D>>,
                "cede: the address of a host function is nothing to a kernel; pass data");
  static_assert(
      std::is_trivially_copyable_v<D>,
      "cede: a kernel's arguments must be trivially copyable, they are copied byte by byte to the "
      "device; pass raw pointers and numbers, not containers or strings");
  std::string passed;
  if constexpr (std::is_enum_v<D>) {
    store_argument(to, p, static_cast<std::underlying_type_t<D>>(a), number, kernel);
    return;
  } else if constexpr (std::is_null_pointer_v<D> || std::is_pointer_v<D>) {
    if (p.kind == parameter_kind::pointer) return store_as<const volatile void*>(to, D(a));
    passed = "a pointer";
  } else if constexpr (std::is_arithmetic_v<D>) {
    if (store_number(to, p, a)) return;
    passed = "a number";
  } else {
    if (p.kind == parameter_kind::object && p.size == sizeof(D)) {
      std::memcpy(to, &a, sizeof(D));
      return;
    }
    passed = parameter{parameter_kind::object, sizeof(D)}.text();
  }
  throw invalid_argument("launch of " + kernel + ": argument " + std::to_string(number) + " is " +
                         passed + ", the kernel takes " + p.text() + " there; pass that");
}

}  // namespace detail

CEDE_END_NAMESPACE
