// SPDX-License-Identifier: Apache-2.0
// The texts around run-time compilation, without NVRTC.
#include <cede/detail/rtc_text.hpp>

#include <doctest/doctest.h>

#include <string>

using cede::detail::first_errors;
using cede::detail::head_of;
using cede::detail::name_in_error;
using cede::detail::parameter_kind;
using cede::detail::parameters_in;
using cede::detail::remedy_in;
using cede::detail::rtc_text;

namespace {

/// What of a text stays in front of the port region.
std::string head(const std::string& text) { return text.substr(0, head_of(text)); }

}  // namespace

TEST_CASE("the head of a text is its comments and directives, whole conditionals only") {
  CHECK(head("").empty());
  CHECK(head("__global__ void k() {}\n#include <late>\n").empty());
  CHECK(head("#include <a>\n__global__ void k() {}") == "#include <a>\n");
  CHECK(head("// one\n/* two\n#if */ #include <a>\n\n  # define B 2\nint x;") ==
        "// one\n/* two\n#if */ #include <a>\n\n  # define B 2\n");
  CHECK(head("#define TWO \\\n  lines\nint x;") == "#define TWO \\\n  lines\n");
  CHECK(head("#define TWO \\\r\n  lines\r\nint x;") == "#define TWO \\\r\n  lines\r\n");
  CHECK(head("#if A\n#include <a>\n#else\n#include <b>\n#endif\nint x;") ==
        "#if A\n#include <a>\n#else\n#include <b>\n#endif\n");
  CHECK(head("#include <a>\n#ifdef A\nint x;\n#endif\n") == "#include <a>\n");
  CHECK(head("#include <a>") == "#include <a>");
  CHECK(head("#").size() == 1);
  CHECK(head("#include <a>\n/* no end").size() == 13);
}

TEST_CASE("lines keep their numbers on both sides of the region's begin") {
  const std::string text = rtc_text(
      {.text = "#include <a>\n\n#include <b>\n__global__ void k() {}\n", .name = "my \"own\".cu"},
      {{"k"}});
  CHECK(text.find("#line 1 \"my \\\"own\\\".cu\"\n#include <a>\n\n#include <b>\n") !=
        std::string::npos);
  const std::size_t begin = text.find("#include <cede/port/begin.hpp>");
  CHECK(begin > text.find("#include <b>"));
  CHECK(text.find("#line 4 \"my \\\"own\\\".cu\"\n__global__ void k() {}\n", begin) !=
        std::string::npos);
  CHECK(text.find("#include <cede/port/end.hpp>") > text.find("__global__"));
}

TEST_CASE("a kernel is named as it is, with its traits; one of several by its type") {
  const std::string text = rtc_text(
      {.text = ""},
      {{.name = "gemm<4, 4>",
        .traits = {.max_threads = 128, .min_blocks = 2, .persistent_safe = true}},
       {.name = "mark", .signature = "void(int*)", .traits = {.looks_back = true, .whole = true}}});
  CHECK(text.find("rtc_ported<&(gemm<4, 4>), ::cede::kernel_traits{128, 2, true, false, false, "
                  "false}>") != std::string::npos);
  CHECK(text.find(
            "ported<void(int*), mark, ::cede::kernel_traits{0, 0, false, true, false, true}>") !=
        std::string::npos);
}

TEST_CASE("the parameters of a kernel are read from the PTX, trailing zeros left out or not") {
  const std::string line = ".global .align 1 .b8 cede_rtc_parameters_0";
  const auto all =
      parameters_in(".version 9.0\n" + line + "[13] = {4, 1, 8, 0, 5, 4, 0, 3, 2, 0, 0, 44, 1};\n",
                    "cede_rtc_parameters_0");
  REQUIRE(all.size() == 4);
  CHECK(all[0].kind == parameter_kind::pointer);
  CHECK(all[0].size == 8);
  CHECK(all[1].kind == parameter_kind::floating);
  CHECK(all[2].kind == parameter_kind::signed_integer);
  CHECK(all[2].size == 2);
  CHECK(all[3].kind == parameter_kind::object);
  CHECK(all[3].size == 300);
  const auto cut = parameters_in(line + "[4] = {1, 2, 1};", "cede_rtc_parameters_0");
  REQUIRE(cut.size() == 1);
  CHECK(cut[0].kind == parameter_kind::boolean);
  CHECK(cut[0].size == 1);
  CHECK(parameters_in(line + "[1];\n.global .b8 x[1] = {7};", "cede_rtc_parameters_0").empty());
  CHECK_THROWS_AS(static_cast<void>(parameters_in(line + "[1];", "cede_rtc_parameters_1")),
                  cede::not_supported);
}

TEST_CASE("of a log the first lines of the first error are shown") {
  const std::string log =
      "k.cu(1): warning #1: nothing\n  x\n  ^\n\nk.cu(2): error: gone\n  y\n  ^\n\n1 error "
      "detected\n";
  CHECK(first_errors(log, 3) == "k.cu(2): error: gone\n  y\n  ^");
  CHECK(first_errors(log) == "k.cu(2): error: gone\n  y\n  ^\n1 error detected");
  CHECK(first_errors("something else\n") == "something else\n");
}

TEST_CASE("an error in a name is told from one in the text") {
  CHECK(name_in_error("cede::rtc_name(2): error: identifier", 2) == 1);
  CHECK(name_in_error("cede::rtc_name(2): error: identifier", 1) == 1);
  CHECK(name_in_error("k.cu(1): error: x\ncede::rtc_name(1): error: y", 2) == 2);
  CHECK(name_in_error("", 3) == 3);
}

TEST_CASE("known errors have a remedy of their own, the others a general one") {
  CHECK(remedy_in("identifier \"cede_port_refuses_group_index_use_blockIdx\" is undefined")
            .find("use blockIdx") != std::string::npos);
  CHECK(remedy_in("cannot open source file \"x.h\"").find("rtc_source::include") !=
        std::string::npos);
  CHECK(remedy_in("expected a \";\"").find("correct the text") == 0);
}
