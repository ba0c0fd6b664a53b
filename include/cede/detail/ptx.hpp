// SPDX-License-Identifier: Apache-2.0
// Enough of PTX's grammar to say which function holds which instruction and names which other.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail::ptx {

struct statement {
  std::size_t line = 0;  ///< from 1
  std::string_view source;
  std::vector<std::string_view> tokens;  ///< words with their dots and %, single signs

  /// On one line, without comments.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::string_view t : tokens) {
      const bool tight = all.empty() || t == "," || t == "]" || t == ")" || t == "}" || t == "+" ||
                         all.back() == '-' || all.back() == '[' || all.back() == '(' ||
                         all.back() == '{' || all.back() == '+';
      if (!tight) all += ' ';
      all += t;
    }
    return all;
  }
};

struct function {
  std::string_view name;
  bool kernel = false;
  std::vector<statement> statements;
};

/// The functions of a module that have a body.
using functions_of_text = std::map<std::string_view, function>;

/// A name as a person wrote it; itself if it is not mangled.
inline std::string demangled(std::string_view name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status);
  if (text == nullptr) return std::string(name);
  std::string result(text);
  std::free(text);  // NOLINT(cppcoreguidelines-no-malloc): that is how the ABI hands it out
  return result;
}

class parser {
 public:
  explicit parser(std::string_view text) : text_(text) {}

  /// Throws `invalid_argument` where the text is no PTX, or ends too early.
  functions_of_text parse() {
    functions_of_text all;
    function* inside = nullptr;
    unsigned scopes = 0;
    unsigned vectors = 0;  // braces around operands and initialisers
    bool is_ptx = false;
    for (std::string_view t = next(); !t.empty(); t = next()) {
      if (t == "{") {
        if (inside != nullptr && current_.tokens.empty()) {
          ++scopes;
        } else if (inside != nullptr) {
          take(t);
          ++vectors;
        } else if (function f; vectors == 0 && is_function(f)) {
          inside = &all.insert_or_assign(f.name, f).first->second;
          scopes = 1;
          clear();
        } else {
          ++vectors;
        }
      } else if (t == "}") {
        if (vectors != 0) {
          --vectors;
          if (inside != nullptr) take(t);
        } else if (scopes == 0) {
          fail("a '}' closes nothing");
        } else if (--scopes == 0) {
          inside = nullptr;
          clear();
        } else {
          clear();
        }
      } else if (t == ";") {
        if (inside != nullptr && !current_.tokens.empty()) {
          const std::size_t begin = begin_;
          current_.source = text_.substr(begin, at_ - begin);
          inside->statements.push_back(std::move(current_));
        }
        clear();
      } else if (t == ":" && inside != nullptr && current_.tokens.size() == 1) {
        clear();  // a label
      } else {
        is_ptx = is_ptx || t == ".version";
        take(t);
        // At the top a directive may end with its line.
        if (inside == nullptr && (t == ".version" || t == ".target" || t == ".address_size")) {
          end_of_line();
          clear();
        }
      }
    }
    if (!is_ptx) fail("there is no .version directive");
    if (inside != nullptr) {
      fail("it ends inside the function " + std::string(inside->name));
    }
    return all;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw invalid_argument("the text is not PTX: " + why + " (line " + std::to_string(line_) +
                           "); pass what `nvcc -ptx` writes");
  }
  void clear() {
    current_ = {};
    begin_ = at_;
  }
  void take(std::string_view t) {
    if (current_.tokens.empty()) current_.line = line_;
    current_.tokens.push_back(t);
  }
  void end_of_line() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  bool is_function(function& f) const {
    const auto& t = current_.tokens;
    for (std::size_t i = 0; i < t.size(); ++i) {
      if (t[i] != ".entry" && t[i] != ".func") continue;
      f.kernel = t[i] == ".entry";
      std::size_t name = i + 1;
      if (name < t.size() && t[name] == "(") {  // the value it returns
        while (name < t.size() && t[name] != ")") ++name;
        ++name;
      }
      if (name >= t.size()) fail("a function has no name");
      f.name = t[name];
      return true;
    }
    return false;
  }
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '$' || c == '%';
  }
  void skip() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
      } else if (c == '/' && text_.substr(at_, 2) == "//") {
        end_of_line();
        --at_;
      } else if (c == '/' && text_.substr(at_, 2) == "/*") {
        const std::size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) fail("a comment does not end");
        for (; at_ < end + 1; ++at_) line_ += text_[at_] == '\n' ? 1 : 0;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }
  /// The next token; empty at the end.
  std::string_view next() {
    skip();
    const std::size_t from = at_;
    if (at_ == text_.size()) return {};
    if (text_[at_] == '"') {
      const std::size_t end = text_.find('"', at_ + 1);
      if (end == std::string_view::npos) fail("a string does not end");
      at_ = end + 1;
    } else if (is_word(text_[at_])) {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    } else {
      ++at_;
    }
    return text_.substr(from, at_ - from);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t begin_ = 0;
  statement current_;
};

}  // namespace detail::ptx

CEDE_END_NAMESPACE
