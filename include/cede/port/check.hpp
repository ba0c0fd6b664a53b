// SPDX-License-Identifier: Apache-2.0
// Finds in PTX what a port region cannot redirect: code inside cede's kernels that reads the
// physical block, launches kernels of its own, or was not inlined. Plain C++, no CUDA: for a test
// of a program's own build (`nvcc -ptx`), and for what NVRTC has compiled.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/ptx.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace port {

/// What the code of a kernel does that it must not.
enum class leak : std::uint8_t {
  block_index,    ///< reads where the physical block stands
  grid_size,      ///< reads how many blocks were launched
  cluster,        ///< reads its place in a thread-block cluster, or waits for one
  grid_group,     ///< uses what only a cooperative launch has
  device_launch,  ///< launches a kernel from the device
  not_inlined,    ///< has a function of the port region that was not inlined
  has_result,     ///< in persistent workers: a barrier of the block that yields a result
};

/// One leak of one kernel.
struct finding {
  leak what{};              ///< its kind
  std::string kernel;       ///< as its author wrote it; of other bodies, their type
  std::string function;     ///< the function in which it stands; empty: the kernel itself
  std::string instruction;  ///< the PTX
  std::size_t line = 0;     ///< in the PTX, from 1

  /// One sentence: the kernel, the cause, the remedy. Thread-safe; never waits.
  [[nodiscard]] std::string text() const;
};

namespace detail {

namespace ptx = cede::detail::ptx;

struct leak_word {
  std::string_view word;
  leak what;
  bool prefix;  ///< of a longer name, too
};
inline constexpr std::array leak_words{
    leak_word{"%ctaid", leak::block_index, false},
    leak_word{"%nctaid", leak::grid_size, false},
    leak_word{"%gridid", leak::grid_group, false},
    leak_word{"%envreg", leak::grid_group, true},
    leak_word{"%clusterid", leak::cluster, false},
    leak_word{"%nclusterid", leak::cluster, false},
    leak_word{"%cluster_", leak::cluster, true},
    leak_word{"%is_explicit_cluster", leak::cluster, false},
    leak_word{"barrier.cluster", leak::cluster, false},
    leak_word{"cudaLaunchDevice", leak::device_launch, true},
    leak_word{"cudaGetParameterBuffer", leak::device_launch, true},
    leak_word{"__cudaCDP", leak::device_launch, true},
    leak_word{"cudaCDP", leak::device_launch, true},
};

/// The leak a token of the code of a kernel is, if it is one.
inline const leak* leak_of(std::string_view token) {
  for (const leak_word& w : leak_words) {
    if (!token.starts_with(w.word)) continue;
    const std::string_view rest = token.substr(w.word.size());
    if (w.prefix || rest.empty() || rest.front() == '.') return &w.what;
  }
  return nullptr;
}

/// Whether a kernel is one of those cede puts around bodies.
inline bool is_adapter(std::string_view name) {
  return name.starts_with("_ZN4cede") && name.find("6detail7kernels") != std::string_view::npos;
}

/// The text from `begin` to the sign that ends it: `end`, outside of brackets opened since.
inline std::string_view up_to(std::string_view text, std::size_t begin, std::string_view ends) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (depth == 0 && ends.find(c) != std::string_view::npos) return text.substr(begin, i - begin);
    if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
  }
  return text.substr(begin);
}

/// What the author of a body calls what runs in one of cede's kernels.
inline std::string name_of(std::string_view kernel) {
  const std::string all = ptx::demangled(kernel);
  const std::string_view text = all;
  constexpr std::string_view ported = "::ported<";
  const std::size_t at = text.find(ported);
  if (at != std::string_view::npos) {
    // ported<SIGNATURE, &(NAME), ...>, or &_INTERNAL_...::NAME without parameters.
    const std::size_t signature = at + ported.size();
    const std::size_t second = signature + up_to(text, signature, ",").size();
    std::string_view name = second < text.size() ? up_to(text, second + 1, ",") : text;
    for (const std::string_view front : {" ", "&", "(", "void "}) {
      if (name.starts_with(front)) name.remove_prefix(front.size());
      if (front == "(" && name.ends_with(")") && up_to(name, 0, ")").size() + 1 == name.size()) {
        name.remove_suffix(1);
      }
    }
    if (name.starts_with("_INTERNAL_") && name.find("::") != std::string_view::npos) {
      name.remove_prefix(name.find("::") + 2);
    }
    return std::string(name);
  }
  const std::size_t kernels = text.find("kernels::");
  const std::size_t open = kernels == std::string_view::npos ? kernels : text.find('<', kernels);
  if (open == std::string_view::npos) return all;
  std::string_view type = up_to(text, open + 1, ",>");
  while (type.ends_with(' ')) type.remove_suffix(1);
  return std::string(type);
}

inline bool is_of_port(std::string_view token) { return token.starts_with("cede_port_"); }

}  // namespace detail

/// What leaks in a module's PTX: once per kernel, function and cause, in the order of their names;
/// empty if nothing does. Only kernels that cede launches are looked at, each with the functions
/// that it names. Throws `invalid_argument` if the text is not PTX. Thread-safe; never waits.
[[nodiscard]] inline std::vector<finding> check(std::string_view text) {
  namespace ptx = cede::detail::ptx;
  const ptx::functions_of_text functions = ptx::parser(text).parse();
  std::vector<finding> all;
  for (const auto& [name, kernel] : functions) {
    if (!kernel.kernel || !detail::is_adapter(name)) continue;
    const std::string user = detail::name_of(name);
    const bool persistent = name.find("persistent_kernel") != std::string_view::npos;
    std::vector<const ptx::function*> open{&kernel};
    std::set<std::string_view> seen{name};
    while (!open.empty()) {
      const ptx::function& at = *open.back();
      open.pop_back();
      const bool inlined = &at == &kernel;
      const auto report = [&](leak what, const ptx::statement& s) {
        all.push_back(
            {what, user, inlined ? std::string() : ptx::demangled(at.name), s.text(), s.line});
      };
      for (const ptx::statement& s : at.statements) {
        // The adapter's own reads of the physical block say so.
        if (s.source.find("cede: physical block") != std::string_view::npos) continue;
        for (const std::string_view token : s.tokens) {
          const auto called = functions.find(token);
          if (called != functions.end() && !called->second.kernel && seen.insert(token).second) {
            open.push_back(&called->second);
          }
          if (const leak* what = detail::leak_of(token)) {
            report(*what, s);
          } else if (detail::is_of_port(token) && !inlined) {
            report(leak::not_inlined, s);
          } else if (persistent &&
                     token == "cede_port_syncthreads_with_a_result_is_not_persistent_safe") {
            report(leak::has_result, s);
          }
        }
      }
    }
  }
  const auto key = [](const finding& f) { return std::tie(f.kernel, f.function, f.what, f.line); };
  std::sort(all.begin(), all.end(),
            [&](const finding& a, const finding& b) { return key(a) < key(b); });
  const auto same = [](const finding& a, const finding& b) {
    return a.kernel == b.kernel && a.function == b.function && a.what == b.what;
  };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

inline std::string finding::text() const {
  std::string cause;
  std::string remedy;
  switch (what) {
    case leak::block_index:
      cause = "reads the physical block index";
      remedy = "read blockIdx inside the port region and pass it on (a body: b.index())";
      break;
    case leak::grid_size:
      cause = "reads the physical grid size";
      remedy = "read gridDim inside the port region and pass it on (a body: b.grid())";
      break;
    case leak::cluster:
      cause = "uses a thread-block cluster";
      remedy = "launch it as it is through stream::run";
      break;
    case leak::grid_group:
      cause = "uses what only a cooperative launch has (a grid group)";
      remedy = "launch it as it is through stream::run";
      break;
    case leak::device_launch:
      cause = "launches a kernel from the device";
      remedy = "launch it as it is through stream::run";
      break;
    case leak::not_inlined:
      cause =
          "has a function that reads blockIdx, gridDim or waits in __syncthreads and was not "
          "inlined";
      remedy = "mark that function __forceinline__";
      break;
    case leak::has_result:
      cause = "uses __syncthreads_or, _and or _count in persistent workers";
      remedy = "do not declare it persistent_safe";
      break;
  }
  std::string place = "line " + std::to_string(line) + ": " + instruction;
  if (!function.empty()) place = "in " + function + ", " + place;
  return kernel + " " + cause + " (" + place + "); " + remedy;
}

}  // namespace port

CEDE_END_NAMESPACE
