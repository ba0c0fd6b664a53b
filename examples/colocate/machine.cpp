// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "cuda_check.hpp"

namespace colocate {
namespace {

namespace fs = std::filesystem;

std::string first_line_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::array<char, 256> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return {};
  const std::string text = line.data();
  return text.substr(0, text.find_first_of("\r\n"));
}

// In the working copy that the program was built in; empty where there is none.
std::string from_git(const std::string& command) {
  std::error_code ignored;
  std::string folder = fs::read_symlink("/proc/self/exe", ignored).parent_path().string();
  // Between single quotes the shell takes everything but a single quote as it is.
  if (folder.empty() || folder.find('\'') != std::string::npos) return {};
  return first_line_of("top=$(git -C '" + folder +
                       "' rev-parse --show-toplevel 2>/dev/null) && "
                       "cd \"$top\" && [ -f include/cede/cede.hpp ] && " +
                       command);
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);  // before any thread is started
  return value == nullptr ? std::string() : value;
}

std::string commit() {
  const std::string given = from_environment("CEDE_COMMIT");
  return given.empty() ? from_git("git rev-parse HEAD 2>/dev/null") : given;
}

std::string tree() {
  const std::string given = from_environment("CEDE_TREE");
  return given.empty() ? from_git("git ls-files -s include 2>/dev/null | sha256sum | cut -c1-12")
                       : given;
}

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &utc);
  return text.data();
}

#if CEDE_EXAMPLE_CUDA

// "NVRM version: NVIDIA UNIX ... Kernel Module  580.65.06  ...": the first word of digits and
// points.
std::string driver_version() {
  std::ifstream in("/proc/driver/nvidia/version");
  for (std::string word; in >> word;) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  int version = 0;
  COLOCATE_CUDA(cudaDriverGetVersion(&version));
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string runtime_version() {
  int version = 0;
  COLOCATE_CUDA(cudaRuntimeGetVersion(&version));
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

#endif

}  // namespace

std::string device_name([[maybe_unused]] place where) {
#if CEDE_EXAMPLE_CUDA
  if (where == place::cuda) {
    int device = 0;
    COLOCATE_CUDA(cudaGetDevice(&device));
    cudaDeviceProp properties{};
    COLOCATE_CUDA(cudaGetDeviceProperties(&properties, device));
    return properties.name;
  }
#endif
  return "host device";
}

std::vector<context_entry> machine_context(place where) {
  std::string driver;
  std::string cuda;
#if CEDE_EXAMPLE_CUDA
  if (where == place::cuda) {
    driver = driver_version();
    cuda = runtime_version();
  }
#endif
  return {{"gpu", device_name(where)}, {"driver", driver},   {"cuda", cuda},
          {"date", today()},           {"commit", commit()}, {"tree", tree()}};
}

#if !CEDE_EXAMPLE_CUDA
double sm_clock_mhz(place) { return 0.0; }
#endif

}  // namespace colocate
