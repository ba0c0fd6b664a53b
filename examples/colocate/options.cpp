// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "input_error.hpp"

namespace colocate {
namespace {

template <class T>
std::optional<T> whole_number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || rest != end) return std::nullopt;
  return value;
}

double number_in(const std::string& option, const std::string& text, double most) {
  const auto value = whole_number<double>(text);
  if (!value || !std::isfinite(*value)) {
    throw input_error(option + " needs a number, " + shown(text) + " is not one.");
  }
  if (!(*value > 0.0 && *value <= most)) {
    throw input_error(option + " must be above 0 and at most " +
                      std::to_string(static_cast<int>(most)) + ", " + shown(text) + " is not.");
  }
  return *value;
}

std::uint64_t seed_of(const std::string& text) {
  const auto value = whole_number<std::uint64_t>(text);
  if (!value) {
    throw input_error("--seed needs a whole number from 0 to 2^64 - 1, " + shown(text) +
                      " is not one.");
  }
  return *value;
}

device_choice device_of(const std::string& text) {
  if (text == "auto") return device_choice::automatic;
  if (text == "cuda") return device_choice::cuda;
  if (text == "host") return device_choice::host;
  throw input_error("--device must be cuda, host or auto, not " + shown(text) + ".");
}

arrival_process process_of(const std::string& text) {
  if (text == "poisson") return arrival_process::poisson;
  if (text == "gamma") return arrival_process::gamma;
  throw input_error("--arrivals must be poisson or gamma, not " + shown(text) +
                    "; arrivals from a file are named with --trace FILE.");
}

const std::string& file_of(const std::string& option, const std::string& text) {
  if (text.empty()) throw input_error(option + " needs the name of a file, it was given none.");
  return text;
}

struct option {
  std::string_view name;
  void (*set)(options&, const std::string& name, const std::string& value);
};

using argument = const std::string&;
constexpr option known_options[] = {
    {"--device", [](options& o, argument, argument v) { o.device = device_of(v); }},
    {"--trace", [](options& o, argument n, argument v) { o.trace = file_of(n, v); }},
    {"--arrivals", [](options& o, argument, argument v) { o.arrivals = process_of(v); }},
    {"--load", [](options& o, argument n, argument v) { o.load = number_in(n, v, 1.0); }},
    {"--seconds", [](options& o, argument n, argument v) { o.seconds = number_in(n, v, 3600.0); }},
    {"--seed", [](options& o, argument, argument v) { o.seed = seed_of(v); }},
    {"--text", [](options& o, argument n, argument v) { o.text = file_of(n, v); }},
    {"--json", [](options& o, argument n, argument v) { o.json = file_of(n, v); }},
    {"--timeline", [](options& o, argument n, argument v) { o.timeline = file_of(n, v); }},
};

const option* find(const std::string& name) {
  const auto* end = std::end(known_options);
  const auto* found =
      std::find_if(std::begin(known_options), end, [&](const option& o) { return o.name == name; });
  return found == end ? nullptr : found;
}

}  // namespace

options parse(const std::vector<std::string>& arguments) {
  options o;
  bool process_named = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      o.help = true;
      return o;
    }
    const auto equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const option* known = find(name);
    if (known == nullptr) {
      throw input_error("There is no option " + shown(argument) + "; --help lists them.");
    }
    if (equals == std::string::npos && i + 1 == arguments.size()) {
      throw input_error(name + " needs a value; --help tells which.");
    }
    const std::string value =
        equals == std::string::npos ? arguments[++i] : argument.substr(equals + 1);
    known->set(o, name, value);
    process_named = process_named || name == "--arrivals";
  }
  if (!o.trace.empty()) {
    if (process_named) {
      throw input_error("--trace and --arrivals exclude each other: name one of them.");
    }
    o.arrivals = arrival_process::trace;
  }
  if (!o.json.empty() && o.json == o.timeline) {
    throw input_error("--json and --timeline name the same file " + shown(o.json) + ".");
  }
  return o;
}

std::string help_text() {
  return R"(colocate: a latency-critical service and best-effort training share one device.

The service answers requests with a transformer block; the training fits a
character-level language model to a text. Both run alone and side by side in
several modes, one after the other; a table compares them.

  --device cuda|host|auto  where to run; auto takes a GPU if there is one   [auto]
  --trace FILE             arrivals from a CSV file with a header and commas:
                           timestamps from the column timestamp, arrival_time,
                           arrival, arrived or time; sequence lengths from
                           ContextTokens or context_tokens where it has that
  --arrivals poisson|gamma arrivals drawn at random (gamma: bursty)      [poisson]
  --load L                 busy share of the service running alone, in (0, 1] [0.5]
  --seconds S              window of each mode, in (0, 3600]                  [10]
  --seed N                 seed of everything random                           [1]
  --text FILE              text to train on, any bytes    [the example's own text]
  --json FILE              writes the record there
  --timeline FILE          writes a timeline of the mode cede (ui.perfetto.dev)
  --help                   prints this

Modes on a GPU: alone, equal (two streams), priorities (stream priorities),
ungated (cede's adapters without the gate), cede. On the host device: alone,
ungated, cede. Exit status: 0 if every answer was right and all weights agree,
1 if not, 2 for bad input or a standard output that cannot be written.

examples/run.sh [NAME] [OPTIONS] builds and runs an example; without a NAME it is
this one.
)";
}

}  // namespace colocate
