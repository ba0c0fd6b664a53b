// SPDX-License-Identifier: Apache-2.0
// The command line of the main job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace colocate {

enum class device_choice : std::uint8_t { automatic, cuda, host };
enum class arrival_process : std::uint8_t { poisson, gamma, trace };

struct options {
  device_choice device = device_choice::automatic;
  arrival_process arrivals = arrival_process::poisson;
  std::string trace;      ///< file of arrivals, where `arrivals` is `trace`
  double load = 0.5;      ///< share of the window that the service would be busy alone, in (0, 1]
  double seconds = 10.0;  ///< window of each mode, in (0, 3600]
  std::uint64_t seed = 1;
  std::string text;      ///< file to train on; empty = the text that comes with the example
  std::string json;      ///< file for the record; empty = none
  std::string timeline;  ///< file for the timeline of the mode `cede`; empty = none
  bool help = false;
};

/// Reads the arguments (without the program's name). Throws `input_error` for anything unknown,
/// missing, out of range or contradictory. Files are not touched here.
options parse(const std::vector<std::string>& arguments);

/// What `--help` prints.
std::string help_text();

}  // namespace colocate
