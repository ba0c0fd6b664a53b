// SPDX-License-Identifier: Apache-2.0
// The modes: ways in which the service and the training share the device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory.hpp"
#include "queue.hpp"

namespace colocate {

class mode {
 public:
  mode(const mode&) = delete;
  mode& operator=(const mode&) = delete;
  virtual ~mode() = default;

  virtual queue& serving() = 0;
  virtual queue& training() = 0;

  /// How often training launches left before they were finished.
  [[nodiscard]] virtual std::uint64_t yields() const { return 0; }
  [[nodiscard]] virtual bool has_timeline() const { return false; }
  virtual void write_timeline(const std::string&) const {}

 protected:
  mode() = default;
};

/// The modes of a device, in the order of the report; the first one is `alone`, the last one
/// `cede`.
std::vector<std::string> mode_names(place where);

/// Sets a mode up. With `timeline`, the mode `cede` keeps one.
std::unique_ptr<mode> make_mode(place where, const std::string& name, bool timeline);

}  // namespace colocate
