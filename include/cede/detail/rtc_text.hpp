// SPDX-License-Identifier: Apache-2.0
// The texts around run-time compilation: what is put around a user's text, and what is read from
// what comes back. No call of NVRTC is made here, so it is tested without a CUDA toolkit.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/rtc_arguments.hpp>
#include <cede/error.hpp>
#include <cede/port/kernel.hpp>
#include <cede/rtc_source.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// How far the head of a text goes: its comments and directives before anything else. It stays in
/// front of the port region, so that the headers in it keep their words. Never ends within an
/// `#if`.
inline std::size_t head_of(std::string_view text) {
  std::size_t head = 0;
  std::size_t at = 0;
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f') {
      ++at;
    } else if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at, 2) == "/*") {
      const std::size_t end = text.find("*/", at + 2);
      if (end == std::string_view::npos) break;
      at = end + 2;
    } else if (c == '#') {
      std::size_t end = at;
      do {
        end = text.find('\n', end + 1);
      } while (end != std::string_view::npos &&
               (text[end - 1] == '\\' || text.substr(end - 2, 2) == "\\\r"));
      end = std::min(end, text.size());
      std::string_view line = text.substr(at + 1, end - at - 1);
      while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
      if (line.starts_with("if")) ++depth;
      if (line.starts_with("endif")) --depth;
      at = end;
      if (depth == 0) head = std::min(end + 1, text.size());
    } else {
      break;
    }
  }
  return head;
}

/// A string literal's inside.
inline std::string in_quotes(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += c == '\n' ? ' ' : c;
  }
  return all + '"';
}

/// The place that errors in a kernel's name are given: line N speaks of name N.
inline constexpr std::string_view rtc_name_file = "cede::rtc_name";

inline std::string traits_text(const kernel_traits& t) {
  const auto flag = [](bool b) { return b ? "true" : "false"; };
  return "::cede::kernel_traits{" + std::to_string(t.max_threads) + ", " +
         std::to_string(t.min_blocks) + ", " + flag(t.persistent_safe) + ", " + flag(t.looks_back) +
         ", " + flag(t.independent) + ", " + flag(t.whole) + "}";
}

/// The variable that tells the parameters of kernel `i`.
inline std::string table_name(std::size_t i) { return "cede_rtc_parameters_" + std::to_string(i); }

/// The whole text for NVRTC: the library's side, the head, the port region, the kernels around each
/// of the kernels named.
inline std::string rtc_text(const rtc_source& source, const std::vector<rtc_name>& names) {
  const std::string_view text = source.text;
  const std::size_t head = head_of(text);
  const auto lines =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(head), '\n');
  const std::string file = in_quotes(source.name);
  std::string all = "#include <cede/detail/rtc_device.hpp>\n#line 1 " + file + "\n";
  all += text.substr(0, head);
  all += "\n#include <cede/port/begin.hpp>\n#line " + std::to_string(lines + 1) + " " + file + "\n";
  all += text.substr(head);
  all += "\n#include <cede/port/end.hpp>\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string number = std::to_string(i);
    const rtc_name& n = names[i];
    const std::string mine = "cede_rtc_kernel_" + number;
    all.append("#line ").append(std::to_string(i + 1)).append(" ").append(in_quotes(rtc_name_file));
    all.append("\nusing ").append(mine).append(" = ::cede::detail::");
    if (n.signature.empty()) {
      all.append("rtc_ported<&(").append(n.name).append("), ");
    } else {
      all.append("ported<").append(n.signature).append(", ").append(n.name).append(", ");
    }
    all.append(traits_text(n.traits)).append(">; extern \"C\" __device__ const auto ");
    all.append(table_name(i)).append(" = ::cede::detail::rtc_kernels<").append(mine);
    all.append(">::table();\n");
  }
  return all;
}

/// What NVRTC is asked for: the name of a kernel around kernel `i`, for at most `threads` threads.
inline std::string around_name(std::size_t i, unsigned threads, std::string_view form) {
  return "::cede::detail::rtc_kernels<cede_rtc_kernel_" + std::to_string(i) +
         ">::" + std::string(form) + "<" + std::to_string(threads) + ">";
}
inline constexpr const char* closing_name =
    "::cede::detail::kernels::closing_kernel<::cede::detail::kernels::closing_tag>";

/// The bounds a kernel is compiled for.
inline std::vector<unsigned> bounds_of(const kernel_traits& t) {
  if (t.max_threads != 0) return {t.max_threads};
  return {256, 512, 1024};
}

/// Reads the parameters of a kernel from the PTX, where they are the bytes of `table`. Throws
/// `not_supported` if they are not there.
inline std::vector<parameter> parameters_in(std::string_view ptx, const std::string& table) {
  std::vector<unsigned> bytes;
  const std::size_t found = ptx.find(" " + table + "[");
  std::size_t at = found == std::string_view::npos ? found : ptx.find_first_of("{;", found);
  if (at != std::string_view::npos && ptx[at] == '{') {
    for (++at; at < ptx.size() && ptx[at] != '}'; ++at) {
      unsigned value = 0;
      const auto read = std::from_chars(ptx.data() + at, ptx.data() + ptx.size(), value);
      if (read.ec != std::errc()) continue;
      bytes.push_back(value);
      at = static_cast<std::size_t>(read.ptr - ptx.data()) - 1;
    }
  } else if (found == std::string_view::npos) {
    throw not_supported(
        "rtc: this NVRTC leaves the parameters of a kernel out of the PTX; use the one of a CUDA "
        "Toolkit that cede was tested with (13.0)");
  }
  const auto byte = [&](std::size_t i) { return i < bytes.size() ? bytes[i] : 0; };  // zeros end it
  std::vector<parameter> all;
  all.reserve(byte(0));
  for (std::size_t i = 0; i < byte(0); ++i) {
    all.push_back(
        {static_cast<parameter_kind>(byte(3 * i + 1)), byte(3 * i + 2) + (byte(3 * i + 3) << 8U)});
  }
  return all;
}

/// The first lines of a log that tell of an error, on one line each.
inline std::string first_errors(std::string_view log, std::size_t most = 6) {
  std::string all;
  std::size_t lines = 0;
  bool telling = false;
  for (std::size_t at = 0; at < log.size() && lines < most;) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string_view line = log.substr(at, end - at);
    at = end + 1;
    telling = telling || line.find("error") != std::string_view::npos;
    if (!telling || line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    all += (all.empty() ? "" : "\n") + std::string(line);
    ++lines;
  }
  return all.empty() ? std::string(log.substr(0, 400)) : all;
}

/// The kernel whose name an error in the log speaks of; the number of names if it speaks of none.
inline std::size_t name_in_error(std::string_view log, std::size_t names) {
  const std::size_t error = log.find("error");
  for (std::size_t i = 0; i < names; ++i) {
    const std::string place = std::string(rtc_name_file) + "(" + std::to_string(i + 1) + "): error";
    const std::size_t at = log.find(place);
    if (at != std::string_view::npos && at < error) return i;
  }
  return names;
}

/// What to do about an error of a text, from NVRTC's log.
inline std::string remedy_in(std::string_view log) {
  struct known {
    std::string_view sign;
    const char* remedy;
  };
  constexpr known all[] = {
      {"cede_port_refuses_group_index",
       "group_index() of cooperative groups tells the physical block: use blockIdx"},
      {"cede_port_refuses_this_grid",
       "a grid group sees the physical grid: use blockIdx and gridDim; a kernel with a grid "
       "barrier "
       "is launched as it is through stream::run"},
      {"cede_port_refuses_this_multi_grid",
       "a grid group sees the physical grid: launch such a kernel as it is through stream::run"},
      {"cede_port_refuses_this_cluster",
       "a cluster sees the physical blocks: launch such a kernel as it is through stream::run"},
      {"included inside a port region",
       "put its #include to the top of the text, before the first declaration"},
      {"could not open source file",
       "add the folder that holds the header to rtc_source::include, or its text to "
       "rtc_source::headers"},
      {"cannot open source file",
       "add the folder that holds the header to rtc_source::include, or its text to "
       "rtc_source::headers"},
      {"host functions are not allowed",
       "mark the function __device__: a text for NVRTC has no host side"},
      {"cede needs C++20", "leave the -std option out of rtc_source::options"},
      {"value for --gpu-architecture", "correct rtc_source::architecture"},
      {"unrecognized option", "correct rtc_source::options"},
      {"cede: a kernel", "change the kernel's parameters or its traits"},
  };
  for (const known& k : all) {
    if (log.find(k.sign) != std::string_view::npos) return k.remedy;
  }
  return "correct the text; rtc_error::log() holds all that the compiler said";
}

}  // namespace detail

CEDE_END_NAMESPACE
