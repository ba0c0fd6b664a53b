// SPDX-License-Identifier: Apache-2.0
// A strict JSON parser for tests that read what the library writes: anything RFC 8259 does not
// allow, and a key twice in one object, throws std::runtime_error with the offset.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cede_test {

class json {
 public:
  enum class kind { null, boolean, number, string, array, object };

  static json parse(std::string_view text) {
    parser p{text, 0, 0};
    json value = p.value();
    p.blanks();
    if (p.at != text.size()) p.fail("text after the value");
    return value;
  }

  [[nodiscard]] kind type() const { return kind_; }
  [[nodiscard]] bool is(kind k) const { return kind_ == k; }
  [[nodiscard]] bool boolean() const { return need(kind::boolean), text_ == "true"; }
  [[nodiscard]] double number() const {
    return need(kind::number), std::strtod(text_.c_str(), nullptr);
  }
  /// A number as it was written.
  [[nodiscard]] const std::string& digits() const { return need(kind::number), text_; }
  /// A string, unescaped, in UTF-8.
  [[nodiscard]] const std::string& string() const { return need(kind::string), text_; }
  [[nodiscard]] const std::vector<json>& items() const { return need(kind::array), items_; }
  /// Elements of an array or members of an object.
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  template <std::integral I>
  [[nodiscard]] const json& operator[](I i) const {
    return need(kind::array), items_.at(static_cast<std::size_t>(i));
  }
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  [[nodiscard]] const json& operator[](std::string_view key) const {
    const json* found = find(key);
    if (!found) throw std::runtime_error("json: no member \"" + std::string(key) + '"');
    return *found;
  }
  [[nodiscard]] const json& operator[](const char* key) const {
    return (*this)[std::string_view(key)];
  }
  /// Keys of an object, in the order of the text.
  [[nodiscard]] const std::vector<std::string>& keys() const { return need(kind::object), keys_; }

 private:
  struct parser {
    std::string_view text;
    std::size_t at;
    int depth;

    [[noreturn]] void fail(const std::string& why) const {
      throw std::runtime_error("json: " + why + " at offset " + std::to_string(at));
    }
    [[nodiscard]] char peek() const { return at < text.size() ? text[at] : '\0'; }
    void blanks() {
      while (at < text.size() &&
             (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r'))
        ++at;
    }
    bool take(char c) {
      if (at >= text.size() || text[at] != c) return false;
      ++at;
      return true;
    }
    void expect(char c) {
      if (!take(c)) fail(std::string("expected '") + c + '\'');
    }
    void word(std::string_view w) {
      if (text.substr(at, w.size()) != w) fail("unknown word");
      at += w.size();
    }

    json value() {
      blanks();
      json out;
      switch (peek()) {
        case '{':
          object(out);
          break;
        case '[':
          array(out);
          break;
        case '"':
          out.kind_ = kind::string, out.text_ = quoted();
          break;
        case 't':
          word("true"), out.kind_ = kind::boolean, out.text_ = "true";
          break;
        case 'f':
          word("false"), out.kind_ = kind::boolean, out.text_ = "false";
          break;
        case 'n':
          word("null");
          break;
        default:
          number(out);
      }
      return out;
    }

    void enter() {
      if (++depth > 100) fail("nested too deeply");
      ++at;
    }
    void object(json& out) {
      out.kind_ = kind::object;
      enter();
      blanks();
      if (take('}')) {
        --depth;
        return;
      }
      do {
        blanks();
        std::string key = quoted();
        if (out.find(key)) fail("key \"" + key + "\" twice");
        blanks();
        expect(':');
        out.keys_.push_back(std::move(key));
        out.items_.push_back(value());
        blanks();
      } while (take(','));
      expect('}');
      --depth;
    }
    void array(json& out) {
      out.kind_ = kind::array;
      enter();
      blanks();
      if (take(']')) {
        --depth;
        return;
      }
      do {
        out.items_.push_back(value());
        blanks();
      } while (take(','));
      expect(']');
      --depth;
    }

    std::size_t digits() {
      const std::size_t first = at;
      while (peek() >= '0' && peek() <= '9') ++at;
      if (at == first) fail("expected a digit");
      return at - first;
    }
    void number(json& out) {
      const std::size_t first = at;
      take('-');
      const bool zero = peek() == '0';
      if (digits() > 1 && zero) fail("a number that starts with 0");
      if (take('.')) digits();
      if (take('e') || take('E')) {
        if (!take('+')) take('-');
        digits();
      }
      out.kind_ = kind::number;
      out.text_ = std::string(text.substr(first, at - first));
    }

    unsigned hex4() {
      unsigned code = 0;
      for (int i = 0; i < 4; ++i, ++at) {
        const char c = peek();
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) fail("expected four hexadecimal digits");
        code = code * 16 + static_cast<unsigned>(digit);
      }
      return code;
    }
    static void append_utf8(std::string& out, unsigned code) {
      const auto byte = [&](unsigned b) { out += static_cast<char>(b); };
      if (code < 0x80) return byte(code);
      if (code < 0x800) {
        byte(0xC0U | code >> 6U);
      } else {
        if (code < 0x10000) {
          byte(0xE0U | code >> 12U);
        } else {
          byte(0xF0U | code >> 18U);
          byte(0x80U | (code >> 12U & 0x3FU));
        }
        byte(0x80U | (code >> 6U & 0x3FU));
      }
      byte(0x80U | (code & 0x3FU));
    }
    void escape(std::string& out) {
      const char c = peek();
      ++at;
      switch (c) {
        case '"':
        case '\\':
        case '/':
          out += c;
          return;
        case 'b':
          out += '\b';
          return;
        case 'f':
          out += '\f';
          return;
        case 'n':
          out += '\n';
          return;
        case 'r':
          out += '\r';
          return;
        case 't':
          out += '\t';
          return;
        case 'u':
          break;
        default:
          fail("unknown escape");
      }
      unsigned code = hex4();
      if (code >= 0xDC00 && code < 0xE000) fail("half a surrogate pair");
      if (code >= 0xD800 && code < 0xDC00) {
        expect('\\');
        expect('u');
        const unsigned low = hex4();
        if (low < 0xDC00 || low >= 0xE000) fail("half a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
      }
      append_utf8(out, code);
    }
    // The code point of a multi-byte sequence decides whether the sequence is the one UTF-8 allows.
    void multi_byte(std::string& out) {
      const auto first = static_cast<unsigned char>(text[at]);
      const std::size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
      unsigned code = first & (0x3FU >> more);
      if (first < 0xC0 || first >= 0xF8 || at + more >= text.size()) fail("text that is not UTF-8");
      for (std::size_t i = 1; i <= more; ++i) {
        const auto next = static_cast<unsigned char>(text[at + i]);
        if ((next & 0xC0U) != 0x80U) fail("text that is not UTF-8");
        code = code << 6U | (next & 0x3FU);
      }
      const unsigned least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
      if (code < least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        fail("text that is not UTF-8");
      out += text.substr(at, more + 1);
      at += more + 1;
    }
    std::string quoted() {
      expect('"');
      std::string out;
      while (!take('"')) {
        if (at >= text.size()) fail("a string without an end");
        const auto c = static_cast<unsigned char>(text[at]);
        if (c < 0x20) fail("a control character in a string");
        if (c == '\\') {
          ++at;
          escape(out);
        } else if (c < 0x80) {
          out += text[at++];
        } else {
          multi_byte(out);
        }
      }
      return out;
    }
  };

  [[nodiscard]] const json* find(std::string_view key) const {
    for (std::size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i] == key) return &items_[i];
    return nullptr;
  }
  void need(kind k) const {
    if (kind_ != k) throw std::runtime_error("json: a value of another kind than expected");
  }

  kind kind_ = kind::null;
  std::string text_;
  std::vector<std::string> keys_;
  std::vector<json> items_;
};

}  // namespace cede_test
