// SPDX-License-Identifier: Apache-2.0
// Reads JSON that anybody may have written: RFC 8259 and nothing else, within limits.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/json_text.hpp>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// A JSON value. What is asked of a value of another kind is not there.
class json_value {
 public:
  enum class kind : std::uint8_t { null, boolean, number, string, array, object };

  [[nodiscard]] kind what() const { return kind_; }
  [[nodiscard]] const std::vector<json_value>& items() const { return items_; }
  /// The member of an object; null if there is none.
  [[nodiscard]] const json_value* find(std::string_view key) const {
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i] == key) return &items_[i];
    }
    return nullptr;
  }
  [[nodiscard]] std::optional<bool> boolean() const {
    if (kind_ != kind::boolean) return std::nullopt;
    return number_ != 0;
  }
  [[nodiscard]] std::optional<std::string> string() const {
    if (kind_ != kind::string) return std::nullopt;
    return text_;
  }
  /// A number that is an integer from 0 to 2^53, beyond which not every one can be told.
  [[nodiscard]] std::optional<std::uint64_t> integer() const {
    if (kind_ != kind::number || !(number_ >= 0) || number_ > 9007199254740992.0 ||
        number_ != std::floor(number_)) {
      return std::nullopt;
    }
    return static_cast<std::uint64_t>(number_);
  }
  /// Where it stands in the text.
  [[nodiscard]] std::pair<std::size_t, std::size_t> span() const { return {begin_, end_}; }

 private:
  friend class json_reader;
  kind kind_ = kind::null;
  double number_ = 0;
  std::string text_;
  std::vector<json_value> items_;  ///< of an array; values of an object
  std::vector<std::string> keys_;  ///< of an object
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// One text, read once. Refuses what RFC 8259 does not allow, keys twice in one object, numbers
/// that are no finite double, nesting beyond `most_deep`, and more than a million values.
class json_reader {
 public:
  static constexpr int most_deep = 32;

  explicit json_reader(std::string_view text) : text_(text) {}

  /// The value; none with `error()` if the text is none.
  [[nodiscard]] std::optional<json_value> read() {
    json_value v;
    if (!value(v, 0)) return std::nullopt;
    blanks();
    if (at_ != text_.size()) {
      fail("something follows the value");
      return std::nullopt;
    }
    return v;
  }
  /// Such as "a number is too large at offset 17".
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  bool fail(std::string_view why) {
    if (error_.empty()) error_ = std::string(why) + " at offset " + std::to_string(at_);
    return false;
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) return fail("an unknown word");
    at_ += w.size();
    return true;
  }

  bool value(json_value& v, int depth) {
    if (depth > most_deep) return fail("nested too deeply");
    if (++values_ > most_values) return fail("too many values");
    blanks();
    v.begin_ = at_;
    const bool good = value_of(v, depth);
    v.end_ = at_;
    return good;
  }
  bool value_of(json_value& v, int depth) {
    if (at_ >= text_.size()) return fail("the text ends early");
    switch (peek()) {
      case '{':
        v.kind_ = json_value::kind::object;
        return object(v, depth);
      case '[':
        v.kind_ = json_value::kind::array;
        return array(v, depth);
      case '"':
        v.kind_ = json_value::kind::string;
        return string(v.text_);
      case 't':
        v.kind_ = json_value::kind::boolean;
        v.number_ = 1;
        return word("true");
      case 'f':
        v.kind_ = json_value::kind::boolean;
        return word("false");
      case 'n':
        return word("null");
      default:
        v.kind_ = json_value::kind::number;
        return number(v.number_);
    }
  }
  bool object(json_value& v, int depth) {
    ++at_;
    blanks();
    if (take('}')) return true;
    for (;;) {
      blanks();
      if (peek() != '"') return fail("expected a key");
      std::string key;
      if (!string(key)) return false;
      // Objects have few members: what is searched is short, or the text is none of ours.
      if (v.find(key) != nullptr) return fail("a key stands twice in one object");
      if (v.keys_.size() >= most_members) return fail("an object has too many members");
      blanks();
      if (!take(':')) return fail("expected ':'");
      json_value member;
      if (!value(member, depth + 1)) return false;
      v.keys_.push_back(std::move(key));
      v.items_.push_back(std::move(member));
      blanks();
      if (take('}')) return true;
      if (!take(',')) return fail("expected ',' or '}'");
    }
  }
  bool array(json_value& v, int depth) {
    ++at_;
    blanks();
    if (take(']')) return true;
    for (;;) {
      json_value item;
      if (!value(item, depth + 1)) return false;
      v.items_.push_back(std::move(item));
      blanks();
      if (take(']')) return true;
      if (!take(',')) return fail("expected ',' or ']'");
    }
  }
  bool number(double& n) {
    const std::size_t begin = at_;
    const auto digits = [&] {
      const std::size_t first = at_;
      while (peek() >= '0' && peek() <= '9') ++at_;
      return at_ != first;
    };
    take('-');
    if (peek() == '0') {
      ++at_;
    } else if (!digits()) {
      return fail("expected a value");
    }
    if (take('.') && !digits()) return fail("a number ends early");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) return fail("a number ends early");
    }
    const char* first = text_.data() + begin;
    const char* last = text_.data() + at_;
    const auto [end, status] = std::from_chars(first, last, n);
    if (status == std::errc::result_out_of_range) return fail("a number is too large or too small");
    if (status != std::errc{} || end != last) return fail("a number cannot be read");
    return true;
  }
  bool string(std::string& s) {
    ++at_;
    for (;;) {
      if (at_ >= text_.size()) return fail("a string does not end");
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c < 0x20) return fail("a control character in a string");
      if (c == '\\') {
        ++at_;
        if (!escape(s)) return false;
        continue;
      }
      const std::size_t length = utf8_length(text_.substr(at_));
      if (length == 0) return fail("bytes that are not UTF-8");
      s += text_.substr(at_, length);
      at_ += length;
    }
  }
  bool escape(std::string& s) {
    constexpr std::string_view from = "\"\\/bfnrt";
    constexpr std::string_view to = "\"\\/\b\f\n\r\t";
    const auto known = from.find(peek());
    if (at_ < text_.size() && known != std::string_view::npos) {
      s += to[known];
      ++at_;
      return true;
    }
    if (!take('u')) return fail("an unknown escape");
    std::uint32_t unit = 0;
    if (!four(unit)) return false;
    if (unit >= 0xD800 && unit < 0xDC00) {
      std::uint32_t low = 0;
      if (!take('\\') || !take('u') || !four(low)) return fail("half a surrogate pair");
      if (low < 0xDC00 || low > 0xDFFF) return fail("half a surrogate pair");
      unit = 0x10000 + ((unit - 0xD800) << 10U) + (low - 0xDC00);
    } else if (unit >= 0xDC00 && unit < 0xE000) {
      return fail("half a surrogate pair");
    }
    append_utf8(s, unit);
    return true;
  }
  bool four(std::uint32_t& unit) {
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      std::uint32_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<std::uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<std::uint32_t>(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<std::uint32_t>(c - 'A') + 10;
      } else {
        return fail("expected a hexadecimal digit");
      }
      unit = unit * 16 + digit;
    }
    return true;
  }
  static void append_utf8(std::string& s, std::uint32_t c) {
    const auto byte = [&](std::uint32_t b) {
      s += static_cast<char>(static_cast<unsigned char>(b));
    };
    if (c < 0x80) {
      byte(c);
    } else if (c < 0x800) {
      byte(0xC0U | c >> 6U);
      byte(0x80U | (c & 0x3FU));
    } else if (c < 0x10000) {
      byte(0xE0U | c >> 12U);
      byte(0x80U | (c >> 6U & 0x3FU));
      byte(0x80U | (c & 0x3FU));
    } else {
      byte(0xF0U | c >> 18U);
      byte(0x80U | (c >> 12U & 0x3FU));
      byte(0x80U | (c >> 6U & 0x3FU));
      byte(0x80U | (c & 0x3FU));
    }
  }

  static constexpr std::size_t most_members = 256;
  static constexpr std::size_t most_values = 1'000'000;

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  std::string error_;
};

}  // namespace detail

CEDE_END_NAMESPACE
