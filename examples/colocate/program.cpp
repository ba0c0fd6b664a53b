// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "experiment.hpp"
#include "files.hpp"
#include "input_error.hpp"
#include "options.hpp"
#include "report.hpp"
#include "text.hpp"

namespace colocate {
namespace {

constexpr int exit_verified = 0;
constexpr int exit_not_verified = 1;
constexpr int exit_bad_input = 2;

void tell(const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); }

place choose(device_choice choice) {
  if (choice == device_choice::host) return place::host;
  std::string why;
  if (cuda_present(why)) return place::cuda;
  if (choice == device_choice::cuda) throw input_error("--device cuda is not possible: " + why);
  return place::host;
}

int run(const options& o) {
  plan p{place::host, o, {}, read_text(o.text)};
  if (!o.trace.empty()) p.arrivals = read_trace(o.trace);
  for (const std::string& output : {o.json, o.timeline}) {
    if (!output.empty()) check_output(output);
  }
  p.where = choose(o.device);
  const results r = run(p, tell);
  std::fputs(table(r).c_str(), stdout);
  for (const std::string& complaint : r.complaints) tell(complaint);
  std::printf("%s\n", r.verified() ? "Verified: every answer right, all weights bit-identical."
                                   : "NOT verified.");
  if (!o.json.empty()) write_output_text(o.json, json(r));
  return r.verified() ? exit_verified : exit_not_verified;
}

}  // namespace

int program(const std::vector<std::string>& arguments) {
  try {
    const options o = parse(arguments);
    if (o.help) {
      std::fputs(help_text().c_str(), stdout);
      check_printed("The help");
      return exit_verified;
    }
    const int status = run(o);
    check_printed("The table");
    return status;
  } catch (const input_error& e) {
    tell(e.what());
    return exit_bad_input;
  } catch (const std::exception& e) {
    tell(std::string("The run ended early: ") + e.what() + ".");
    return exit_not_verified;
  }
}

}  // namespace colocate
