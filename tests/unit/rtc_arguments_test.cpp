// SPDX-License-Identifier: Apache-2.0
// Arguments converted to what a kernel takes, known at run time alone.
#include <cede/detail/rtc_arguments.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <string>

using cede::detail::argument_room;
using cede::detail::parameter;
using cede::detail::parameter_kind;
using cede::detail::store_argument;

namespace {

template <class To, class From>
To through(parameter_kind kind, const From& from) {
  unsigned char bytes[16];
  std::memset(bytes, 0xee, sizeof bytes);
  store_argument(bytes, {kind, sizeof(To)}, from, 1, "k");
  for (std::size_t i = sizeof(To); i < sizeof bytes; ++i) CHECK(bytes[i] == 0xee);
  To to;
  std::memcpy(&to, bytes, sizeof to);
  return to;
}

template <class From>
std::string refused(parameter p, const From& from) {
  unsigned char bytes[64] = {};
  try {
    store_argument(bytes, p, from, 3, "scale<float>");
  } catch (const cede::invalid_argument& e) {
    return e.what();
  }
  return "nothing was thrown";
}

enum class colour : short { red = -3 };
struct three {
  int of[3];
};
struct two {
  int of[2];
};

}  // namespace

TEST_CASE("numbers become the number a kernel takes, as in C++") {
  using enum parameter_kind;
  CHECK(through<float>(floating, 3) == 3.0F);
  CHECK(through<float>(floating, 0.1) == 0.1F);
  CHECK(through<double>(floating, 0.25F) == 0.25);
  CHECK(through<int>(signed_integer, 7.9) == 7);
  CHECK(through<int>(signed_integer, -7L) == -7);
  CHECK(through<std::int64_t>(signed_integer, -7) == -7);
  CHECK(through<std::uint64_t>(unsigned_integer, -1) == std::numeric_limits<std::uint64_t>::max());
  CHECK(through<std::uint16_t>(unsigned_integer, 65537) == 1);
  CHECK(through<std::int16_t>(signed_integer, short{-9}) == -9);
  CHECK(through<std::int8_t>(signed_integer, 'a') == 'a');
  CHECK(through<std::uint8_t>(unsigned_integer, true) == 1);
  CHECK(through<bool>(boolean, 256));
  CHECK(!through<bool>(boolean, 0.0));
  CHECK(through<int>(signed_integer, colour::red) == -3);
  CHECK(through<float>(floating, colour::red) == -3.0F);
}

TEST_CASE("pointers, null and objects go as they are") {
  int value = 0;
  const int* const p = &value;
  CHECK(through<const int*>(parameter_kind::pointer, p) == p);
  CHECK(through<int*>(parameter_kind::pointer, &value) == p);
  CHECK(through<int*>(parameter_kind::pointer, nullptr) == nullptr);
  int array[2] = {};
  CHECK(through<int*>(parameter_kind::pointer, array) == array);
  CHECK(through<three>(parameter_kind::object, three{{1, 2, 3}}).of[2] == 3);
}

TEST_CASE("what does not fit is refused, with the kernel, the place and both types") {
  CHECK(refused({parameter_kind::pointer, 8}, 5) ==
        "launch of scale<float>: argument 3 is a number, the kernel takes a pointer there; pass "
        "that");
  int value = 0;
  CHECK(refused({parameter_kind::signed_integer, 8}, &value) ==
        "launch of scale<float>: argument 3 is a pointer, the kernel takes a signed integer of 8 "
        "bytes there; pass that");
  CHECK(refused({parameter_kind::floating, 4}, nullptr).find("is a pointer") != std::string::npos);
  CHECK(refused({parameter_kind::object, 12}, two{}) ==
        "launch of scale<float>: argument 3 is an object of 8 bytes, the kernel takes an object of "
        "12 bytes there; pass that");
  CHECK(refused({parameter_kind::floating, 4}, two{}).find("an object of 8 bytes") !=
        std::string::npos);
  CHECK(refused({parameter_kind::object, 2}, 1.0F).find("is a number") != std::string::npos);
  CHECK(refused({parameter_kind::boolean, 1}, three{}).find("takes a bool") != std::string::npos);
  CHECK(refused({parameter_kind::unsigned_integer, 2}, &value)
            .find("an unsigned integer of 2 bytes") != std::string::npos);
}

TEST_CASE("an argument has as much room as what it is converted to") {
  // Numbers and pointers of any size, so that where one lies does not depend on what was passed.
  for (const std::size_t size : {1, 2, 4, 8}) CHECK(argument_room(size) == argument_room(8));
  CHECK(argument_room(16) == 16);
  CHECK(argument_room(17) == 32);
}
