// SPDX-License-Identifier: Apache-2.0
// Compiles a text with NVRTC and looks through what comes out. Needs the NVRTC library, no GPU.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/rtc_text.hpp>
#include <cede/error.hpp>
#include <cede/port/check.hpp>
#include <cede/rtc_source.hpp>

#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Throws if a call of NVRTC that does not depend on the text failed.
inline void check_nvrtc(nvrtcResult status, const char* call,
                        std::source_location where = std::source_location::current()) {
  if (status == NVRTC_SUCCESS) return;
  throw device_error(std::string(call) + " failed: " + nvrtcGetErrorString(status) +
                         "; the NVRTC library and its builtins must be of one CUDA Toolkit",
                     static_cast<int>(status), call, where);
}

/// The kernels around one kernel, for one bound.
struct compiled_bound {
  unsigned threads = 0;
  std::string native;      ///< symbols of the image
  std::string gated;       ///< empty: its traits forbid it
  std::string persistent;  ///< likewise
};
struct compiled_kernel {
  std::vector<parameter> parameters;
  std::vector<compiled_bound> bounds;
};
struct compiled_text {
  std::string ptx;
  std::string image;  ///< machine code where NVRTC knows the architecture, else the PTX
  std::string closing;
  std::vector<compiled_kernel> kernels;
};

class rtc_program {
 public:
  rtc_program(const std::string& text, const std::string& name,
              const std::vector<rtc_header>& headers) {
    std::vector<const char*> texts;
    std::vector<const char*> names;
    for (const rtc_header& h : headers) {
      texts.push_back(h.text.c_str());
      names.push_back(h.name.c_str());
    }
    check_nvrtc(nvrtcCreateProgram(&program_, text.c_str(), name.c_str(),
                                   static_cast<int>(headers.size()), texts.data(), names.data()),
                "nvrtcCreateProgram");
  }
  rtc_program(const rtc_program&) = delete;
  rtc_program& operator=(const rtc_program&) = delete;
  ~rtc_program() { static_cast<void>(nvrtcDestroyProgram(&program_)); }

  void ask_for(const std::string& name) {
    check_nvrtc(nvrtcAddNameExpression(program_, name.c_str()), "nvrtcAddNameExpression");
  }
  nvrtcResult compile(const std::vector<std::string>& options) {
    std::vector<const char*> all;
    all.reserve(options.size());
    for (const std::string& o : options) all.push_back(o.c_str());
    return nvrtcCompileProgram(program_, static_cast<int>(all.size()), all.data());
  }
  /// What became of a name; valid as long as the program.
  [[nodiscard]] std::string symbol(const std::string& name) const {
    const char* lowered = nullptr;
    check_nvrtc(nvrtcGetLoweredName(program_, name.c_str(), &lowered), "nvrtcGetLoweredName");
    return lowered;
  }
  [[nodiscard]] std::string log() const { return read(nvrtcGetProgramLogSize, nvrtcGetProgramLog); }
  /// Empty where it did not come that far.
  [[nodiscard]] std::string ptx() const { return read(nvrtcGetPTXSize, nvrtcGetPTX); }
  [[nodiscard]] std::string machine_code() const {
    return read(nvrtcGetCUBINSize, nvrtcGetCUBIN, false);
  }

 private:
  template <class Size, class Get>
  std::string read(Size size, Get get, bool ends_with_zero = true) const {
    std::size_t bytes = 0;
    if (size(program_, &bytes) != NVRTC_SUCCESS || bytes == 0) return {};
    std::string all(bytes, '\0');
    if (get(program_, all.data()) != NVRTC_SUCCESS) return {};
    if (ends_with_zero) all.pop_back();
    return all;
  }
  nvrtcProgram program_ = nullptr;
};

inline bool is_file(const std::filesystem::path& p) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(p, ignored);
}

/// Whether a folder holds CUDA's headers with libcu++, which newer toolkits keep one level down.
inline bool holds_cuda(const std::filesystem::path& folder) {
  return is_file(folder / "cuda" / "atomic") || is_file(folder / "cccl" / "cuda" / "atomic");
}

/// Where cede's own headers came from.
inline std::string own_folder() {
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().string();
}

/// Where CUDA's headers may be.
inline std::vector<std::string> cuda_folders() {
  std::vector<std::string> all;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) all.push_back(std::string(home) + "/include");
  }
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&nvrtcVersion), &library) != 0 &&
      library.dli_fname != nullptr) {
    std::error_code ignored;
    const auto file = std::filesystem::canonical(library.dli_fname, ignored);
    for (auto up = file.parent_path(); up.has_relative_path() && all.size() < 5;
         up = up.parent_path()) {
      all.push_back((up / "include").string());
    }
  }
  all.emplace_back("/usr/local/cuda/include");
  return all;
}

/// The folders to look for headers in: the user's, then those of cede and of CUDA if they are not
/// among them. Throws `invalid_argument` if there are none.
inline std::vector<std::string> include_folders(const std::vector<std::string>& given,
                                                const std::string& own,
                                                const std::vector<std::string>& cuda) {
  std::vector<std::string> all = given;
  const auto holds_cede = [](const std::string& f) {
    return is_file(std::filesystem::path(f) / "cede" / "detail" / "rtc_device.hpp");
  };
  if (std::none_of(given.begin(), given.end(), holds_cede)) {
    if (!holds_cede(own)) {
      throw invalid_argument(
          "rtc: cede's headers are not in " + own +
          ", where this program was compiled; add the folder that holds cede/rtc.hpp to "
          "rtc_source::include");
    }
    all.push_back(own);
  }
  if (std::none_of(given.begin(), given.end(), holds_cuda)) {
    const auto found = std::find_if(cuda.begin(), cuda.end(), holds_cuda);
    if (found == cuda.end()) {
      throw invalid_argument(
          "rtc: CUDA's headers (cuda/atomic) were not found; add the include folder of the CUDA "
          "Toolkit to rtc_source::include, or set CUDA_HOME");
    }
    all.push_back(*found);
  }
  for (std::size_t i = 0, n = all.size(); i < n; ++i) {
    const auto below = std::filesystem::path(all[i]) / "cccl";
    if (is_file(below / "cuda" / "atomic")) all.push_back(below.string());
  }
  return all;
}

/// Headers of the standard library that cede's own device code names: NVRTC has none, libcu++ does.
inline std::vector<rtc_header> headers_for(const std::vector<rtc_header>& given) {
  std::vector<rtc_header> all = given;
  for (const char* name : {"cstddef", "cstdint", "type_traits"}) {
    if (std::any_of(given.begin(), given.end(),
                    [&](const rtc_header& h) { return h.name == name; })) {
      continue;
    }
    all.push_back({name, std::string("#pragma once\n#include <cuda/std/") + name +
                             ">\nnamespace std { using namespace ::cuda::std; }\n"});
  }
  return all;
}

/// Throws `invalid_argument` for options that cede gives itself or cannot work with.
inline void check_options(const rtc_source& source) {
  struct refused {
    std::string_view option;
    const char* why;
  };
  constexpr std::array all{
      refused{"--gpu-architecture", "name it in rtc_source::architecture"},
      refused{"-arch", "name it in rtc_source::architecture"},
      refused{"--device-as-default-execution-space",
              "it turns constants of the library into variables; mark functions __device__"},
      refused{"-default-device",
              "it turns constants of the library into variables; mark functions __device__"},
      refused{"--relocatable-device-code=true", "nothing is linked to the text; leave it out"},
      refused{"-rdc=true", "nothing is linked to the text; leave it out"},
      refused{"--device-c", "nothing is linked to the text; leave it out"},
      refused{"-dc", "nothing is linked to the text; leave it out"},
      refused{"--dlink-time-opt", "nothing is linked to the text; leave it out"},
      refused{"-dlto", "nothing is linked to the text; leave it out"},
  };
  for (const std::string& o : source.options) {
    for (const refused& r : all) {
      if (o == r.option || o.starts_with(std::string(r.option) + "=")) {
        throw invalid_argument("rtc: the option " + o + " of " + source.name +
                               " cannot be given: " + r.why);
      }
    }
  }
}

/// For messages: the names of all kernels asked for.
inline std::string names_text(const std::vector<rtc_name>& names) {
  std::string all;
  for (const rtc_name& n : names) all += (all.empty() ? "" : ", ") + n.name;
  return all;
}

/// Throws what leaks, if anything does.
inline void check_leaks(const rtc_source& source, const std::string& ptx) {
  const auto leaks = port::check(ptx);
  if (leaks.empty()) return;
  std::string log;
  for (const port::finding& f : leaks) log += f.text() + "\n";
  throw rtc_error("rtc: in " + source.name + " " + leaks.front().text() +
                      (leaks.size() == 1 ? std::string()
                                         : " (and " + std::to_string(leaks.size() - 1) +
                                               " more, see rtc_error::log())"),
                  std::move(log));
}

/// Throws what NVRTC did not like.
[[noreturn]] inline void throw_compile_error(const rtc_source& source,
                                             const std::vector<rtc_name>& names, nvrtcResult status,
                                             const std::string& log) {
  if (const std::size_t i = name_in_error(log, names.size());
      i < names.size() && log.find("error: static assertion") == std::string::npos) {
    throw rtc_error("rtc: " + source.name + " has no kernel " + names[i].name +
                        (names[i].signature.empty() ? "" : " of type " + names[i].signature) +
                        ":\n" + first_errors(log, 3) +
                        "\nname it as the text would, with namespaces and template arguments, and "
                        "one of several functions by rtc_name::signature as well",
                    log);
  }
  throw rtc_error("rtc: " + names_text(names) + " of " + source.name + " cannot be compiled (" +
                      nvrtcGetErrorString(status) + "):\n" + first_errors(log) + "\n" +
                      remedy_in(log),
                  log);
}

/// Compiles the kernels for an architecture such as "sm_90". Throws `rtc_error`, and
/// `invalid_argument` if nothing was asked for or an option cannot be given.
inline compiled_text compile_text(const rtc_source& source, const std::vector<rtc_name>& names,
                                  const std::string& architecture) {
  if (names.empty()) {
    throw invalid_argument("rtc: no kernel of " + source.name + " was named; name at least one");
  }
  check_options(source);
  std::vector<std::string> options{"--gpu-architecture=" + architecture};
  if (std::none_of(source.options.begin(), source.options.end(), [](const std::string& o) {
        return o.starts_with("-std") || o.starts_with("--std");
      })) {
    options.emplace_back("--std=c++20");
  }
  for (const std::string& f : include_folders(source.include, own_folder(), cuda_folders())) {
    options.push_back("--include-path=" + f);
  }
  options.insert(options.end(), source.options.begin(), source.options.end());

  rtc_program program(rtc_text(source, names), source.name, headers_for(source.headers));
  program.ask_for(closing_name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const kernel_traits& t = names[i].traits;
    program.ask_for("&" + table_name(i));
    for (const unsigned b : bounds_of(t)) {
      program.ask_for(around_name(i, b, "native"));
      if (!t.whole) program.ask_for(around_name(i, b, "gated"));
      if (!t.whole && t.persistent_safe) program.ask_for(around_name(i, b, "persistent"));
    }
  }
  const nvrtcResult status = program.compile(options);
  compiled_text all;
  all.ptx = program.ptx();
  // Also if its own assembler refused it: what leaks is then the better explanation.
  if (!all.ptx.empty()) check_leaks(source, all.ptx);
  if (status != NVRTC_SUCCESS) throw_compile_error(source, names, status, program.log());
  all.image = program.machine_code();
  if (all.image.empty()) all.image = all.ptx;
  all.closing = program.symbol(closing_name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const kernel_traits& t = names[i].traits;
    compiled_kernel& k = all.kernels.emplace_back();
    k.parameters = parameters_in(all.ptx, table_name(i));
    for (const unsigned b : bounds_of(t)) {
      compiled_bound& c = k.bounds.emplace_back();
      c.threads = b;
      c.native = program.symbol(around_name(i, b, "native"));
      if (!t.whole) c.gated = program.symbol(around_name(i, b, "gated"));
      if (!t.whole && t.persistent_safe) {
        c.persistent = program.symbol(around_name(i, b, "persistent"));
      }
    }
  }
  return all;
}

/// The architecture to compile for, of a device of compute capability `major`.`minor`: its own, or
/// the newest one in front of it that this NVRTC knows, whose PTX the driver then translates.
inline std::string architecture_for(int major, int minor) {
  int count = 0;
  check_nvrtc(nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> known(static_cast<std::size_t>(std::max(count, 0)));
  check_nvrtc(nvrtcGetSupportedArchs(known.data()), "nvrtcGetSupportedArchs");
  const int wanted = 10 * major + minor;
  int best = 0;
  for (const int a : known) {
    if (a <= wanted) best = std::max(best, a);
  }
  if (best == 0) {
    throw not_supported("rtc: this NVRTC compiles for no architecture as old as " +
                        std::to_string(wanted) + "; use that of an older CUDA Toolkit");
  }
  return (best == wanted ? "sm_" : "compute_") + std::to_string(best);
}

}  // namespace detail

CEDE_END_NAMESPACE
