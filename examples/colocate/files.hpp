// SPDX-License-Identifier: Apache-2.0
// Input files that can be read, and output files that appear whole or not at all.
#pragma once

#include <fstream>
#include <functional>
#include <string>

namespace colocate {

/// Opens a file to read. `what` names its part ("trace", "text") in the `input_error` thrown where
/// it is missing, a folder, or unreadable.
std::ifstream open_input(const std::string& path, const std::string& what);

/// Throws `input_error` if `path` cannot be written; leaves nothing behind, changes nothing.
void check_output(const std::string& path);

/// Has `fill` write a new file beside `path` and puts it in the place of `path` once that
/// succeeded; nothing is left behind where it failed. Throws `input_error` if the file cannot be
/// written.
void write_output(const std::string& path, const std::function<void(const std::string&)>& fill);

/// The same for a text that is there already.
void write_output_text(const std::string& path, const std::string& text);

/// Throws `input_error`, naming `what` was printed, if standard output did not take all of it: a
/// full disk may show only when it is flushed.
void check_printed(const std::string& what);

}  // namespace colocate
