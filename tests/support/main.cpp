// SPDX-License-Identifier: Apache-2.0
// main() of every doctest program. It ends with one line that tests/support/run_tests.py reads:
//   cede-tests: N passed, N failed, N skipped
// and exits with 77, which Meson shows as SKIP, where what the program needs is not there.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <set>
#include <string>

#include "support/skip.hpp"

namespace cede_test {
namespace {

constexpr int exit_skipped = 77;

struct counts {
  unsigned passed = 0, failed = 0, skipped = 0;
};

counts total;
std::set<std::string> skipped_cases;
std::string current_case;

// doctest knows of cases skipped before they start; what a case finds missing while it runs is
// counted here.
struct counting_listener : doctest::IReporter {
  explicit counting_listener(const doctest::ContextOptions&) {}

  void report_query(const doctest::QueryData& data) override {
    if (data.run_stats) total.skipped = data.run_stats->numTestCasesPassingFilters;
  }
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    const auto noted = static_cast<unsigned>(skipped_cases.size());
    total.failed = stats.numTestCasesFailed;
    total.passed = stats.numTestCasesPassingFilters - stats.numTestCasesFailed - noted;
    total.skipped = stats.numTestCases - stats.numTestCasesPassingFilters + noted;
  }
  void test_case_start(const doctest::TestCaseData& data) override { current_case = data.m_name; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (stats.failure_flags != doctest::TestCaseFailureReason::None)
      skipped_cases.erase(current_case);
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("counting", 1, counting_listener);

}  // namespace

void note_skip(const std::string& reason) {
  skipped_cases.insert(current_case);
  std::printf("[skip] %s: %s\n", current_case.c_str(), reason.c_str());
}

}  // namespace cede_test

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const std::string missing = cede_test::missing();
  if (!missing.empty()) {
    std::printf("[skip] %s\n", missing.c_str());
    const char* count_only[] = {argv[0], "--count"};
    context.applyCommandLine(2, count_only);
  }
  const int failed = context.run();
  if (context.shouldExit() && missing.empty()) return failed;
  std::printf("cede-tests: %u passed, %u failed, %u skipped\n", cede_test::total.passed,
              cede_test::total.failed, cede_test::total.skipped);
  return missing.empty() ? failed : cede_test::exit_skipped;
}
