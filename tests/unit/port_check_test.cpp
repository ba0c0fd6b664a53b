// SPDX-License-Identifier: Apache-2.0
// The scanner of PTX: its grammar on text written by hand, and what it calls a leak. tests/port
// runs it on what nvcc writes.
#include <cede/port/check.hpp>

#include <doctest/doctest.h>

#include <string>

using cede::port::check;
using cede::port::leak;

namespace {

const std::string head = ".version 8.8\n.target sm_90\n.address_size 64\n";
// Names as nvcc makes them: gated_kernel<hand>, and a ported kernel `scale(float*)`.
const std::string by_hand = "_ZN4cede2v06detail7kernels12gated_kernelI4handEEvT_NS1_11worker_argsE";
const std::string ported =
    "_ZN4cede2v06detail7kernels19ported_gated_kernelINS1_6portedIFvPfEXadL_Z5scaleS5_EEXtlNS0_"
    "13kernel_traitsELj256ELj0ELb0ELb0ELb0ELb0EEEEELj256ELj0EJS5_EEEvNS1_11worker_argsEDpT2_";
const std::string persistent =
    "_ZN4cede2v06detail7kernels24ported_persistent_kernelINS1_6portedIFvPfEXadL_Z5scaleS5_EEXtlNS0_"
    "13kernel_traitsELj256ELj0ELb1ELb0ELb0ELb0EEEEELj256ELj0EJS5_EEEvNS1_11worker_argsEDpT2_";

std::string entry(const std::string& name, const std::string& code) {
  return ".visible .entry " + name + "(\n\t.param .u64 " + name +
         "_param_0\n)\n.maxntid 256, 1, 1\n{\n" + code + "\n\tret;\n}\n";
}

/// The only finding.
cede::port::finding only(const std::string& ptx) {
  const auto all = check(ptx);
  REQUIRE(all.size() == 1);
  return all[0];
}

}  // namespace

TEST_CASE("a module without a leak has no finding") {
  CHECK(check(head).empty());
  CHECK(check(head + entry(by_hand, "\tmov.u32 %r1, %tid.x;\n\tmov.u32 %r2, %ntid.x;")).empty());
  CHECK(check(head + entry(ported, "")).empty());
}

TEST_CASE("reads of the physical block and grid are found, on every axis") {
  for (const std::string axis : {"x", "y", "z"}) {
    const auto f = only(head + entry(ported, "\tmov.u32 \t%r1, %ctaid." + axis + ";"));
    CHECK(f.what == leak::block_index);
    CHECK(f.kernel == "scale(float*)");
    CHECK(f.function.empty());
    CHECK(f.instruction == "mov.u32 %r1, %ctaid." + axis);
    CHECK(f.line == 9);
    CHECK(only(head + entry(ported, "mov.u32 %r1, %nctaid." + axis + ";")).what == leak::grid_size);
  }
  CHECK(only(head + entry(by_hand, "mov.v4.u32 {%r1, %r2, %r3, %r4}, %ctaid;")).what ==
        leak::block_index);
  CHECK(only(head + entry(by_hand, "mov.u32 %r1, %ctaid.x;")).kernel == "hand");
}

TEST_CASE("the adapter's own reads are marked; the mark holds for one instruction") {
  const std::string own = "/* cede: physical block */ mov.u32 %r1, %ctaid.x;\n";
  CHECK(check(head + entry(ported, own)).empty());
  CHECK(only(head + entry(ported, own + "mov.u32 %r2, %ctaid.y;")).instruction ==
        "mov.u32 %r2, %ctaid.y");
  CHECK(only(head + entry(ported, "mov.u32 %r2, %ctaid.y;\n" + own)).instruction ==
        "mov.u32 %r2, %ctaid.y");
}

TEST_CASE("other kernels are nobody's business") {
  CHECK(check(head + entry("_Z5plainPf", "mov.u32 %r1, %ctaid.x;")).empty());
  CHECK(check(head + ".func unused()\n{\n mov.u32 %r1, %ctaid.x;\n ret;\n}\n" + entry(ported, ""))
            .empty());
}

TEST_CASE("names that begin alike, comments and strings are no leaks") {
  CHECK(check(head + entry(ported,
                           "// %ctaid.x;\n/* mov.u32 %r1, %ctaid.x; */\nmov.u32 %r1, "
                           "%ctaid_of_mine;\n.pragma \"%ctaid.x\";\nmov.u32 %ctaids, 1;"))
            .empty());
  CHECK(check(head + "/* over\n lines " + ported + " { */\n" + entry(ported, "")).empty());
}

TEST_CASE("calls are followed: direct, through a pointer, over several functions") {
  const std::string far =
      ".visible .func  (.param .b32 func_retval0) _Z3fari(\n\t.param .b32 _Z3fari_param_0\n)\n{\n"
      "\tmov.u32 %r1, %nctaid.z;\n\tret;\n}\n";
  const std::string between =
      ".func between()\n{\n{ // callseq 0\n\tcall.uni (retval0), \n\t_Z3fari, \n\t(\n\tparam0\n\t);"
      "\n}\n\tret;\n}\n";
  const auto f = only(head + far + between + entry(ported, "call.uni between, ();"));
  CHECK(f.what == leak::grid_size);
  CHECK(f.function == "far(int)");
  CHECK(f.text() ==
        "scale(float*) reads the physical grid size (in far(int), line 8: mov.u32 %r1, %nctaid.z); "
        "read gridDim inside the port region and pass it on (a body: b.grid())");
  CHECK(only(head + far + entry(ported, "mov.u64 %rd1, _Z3fari;")).function == "far(int)");
  CHECK(check(head + far + between + entry(ported, "")).empty());
  // Functions that call each other end the search all the same.
  const std::string loop = ".func a()\n{\ncall.uni b, ();\n}\n.func b()\n{\ncall.uni a, ();\n}\n";
  CHECK(check(head + loop + entry(ported, "call.uni a, ();")).empty());
}

TEST_CASE("clusters, grid groups, launches from the device") {
  CHECK(only(head + entry(ported, "mov.u32 %r1, %cluster_ctarank;")).what == leak::cluster);
  CHECK(only(head + entry(ported, "mov.u32 %r1, %clusterid.x;")).what == leak::cluster);
  CHECK(only(head + entry(ported, "barrier.cluster.arrive.aligned;")).what == leak::cluster);
  CHECK(only(head + entry(ported, "mov.u32 %r1, %envreg2;")).what == leak::grid_group);
  CHECK(only(head + entry(ported, "call.uni (r), cudaLaunchDeviceV2, (a, b);")).what ==
        leak::device_launch);
  CHECK(only(head + entry(ported, "call.uni (r), __cudaCDP2LaunchDeviceV2, (a, b);")).what ==
        leak::device_launch);
  CHECK(check(head + entry(ported, "barrier.sync 0;")).empty());
}

TEST_CASE("what belongs to the region is no leak in the kernel, but is outside of it") {
  const std::string read = "mov.u32 %r1, cede_port_needs_inlining_blockIdx_x;";
  CHECK(check(head + entry(ported, read)).empty());
  const auto f =
      only(head + ".func stays()\n{\n" + read + "\n}\n" + entry(ported, "call.uni stays, ();"));
  CHECK(f.what == leak::not_inlined);
  CHECK(f.function == "stays");
  const std::string result =
      "mov.u32 %r1, cede_port_syncthreads_with_a_result_is_not_persistent_safe;";
  CHECK(check(head + entry(ported, result)).empty());
  CHECK(only(head + entry(persistent, result)).what == leak::has_result);
}

TEST_CASE("a cause is told once for all forms of a kernel; causes are told apart") {
  const std::string twice = "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ctaid.y;";
  CHECK(check(head + entry(ported, twice) + entry(persistent, twice)).size() == 1);
  const auto all = check(head + entry(ported, twice + "mov.u32 %r3, %nctaid.x;") +
                         entry(by_hand, "mov.u32 %r1, %nctaid.x;"));
  REQUIRE(all.size() == 3);
  CHECK(all[0].kernel == "hand");
  CHECK(all[1].what == leak::block_index);
  CHECK(all[2].what == leak::grid_size);
}

TEST_CASE("scopes, labels, vectors, initialisers and prototypes are read over") {
  const std::string code =
      "\t.reg .pred \t%p<3>;\n\t// begin inline asm\n\t{\n\t.reg .u32 t;\n\t{ mov.u32 t, %tid.x; "
      "}\n"
      "\t}\n\t// end inline asm\n$L__BB0_1:\n\tld.v2.u32 {%r49, %r50}, [%rd1+-24];\n"
      "\tprototype_0 : .callprototype ()_ (.param .b64 _);\n\t@%p1 bra $L__BB0_1;\n"
      "\tmov.u32 %r9, %ctaid.z;";
  const auto f = only(head +
                      ".global .align 4 .b8 table[4] = {1, 2, 3, 4};\n.extern .shared .align 16 "
                      ".b8 dynamic[];\n.extern .func  (.param .b32 r) vprintf(.param .b64 a);\n" +
                      entry(ported, code));
  CHECK(f.instruction == "mov.u32 %r9, %ctaid.z");
  CHECK(only(head + entry(ported, "ld.v2.u32 {%r49, %ctaid.x}, [%rd1+-24];")).instruction ==
        "ld.v2.u32 {%r49, %ctaid.x}, [%rd1+-24]");
}

TEST_CASE("names of kernels: templates, types, without linkage, of other makers") {
  using cede::port::detail::name_of;
  CHECK(name_of("_ZN4cede2v06detail7kernels19ported_gated_kernelINS1_6portedIFvPfiEXadL_"
                "Z4onceIfEvPT_iEEXtlNS0_13kernel_traitsELj0ELj0ELb0ELb0ELb0ELb0EEEEELj256ELj0EJS5_"
                "iEEEvNS1_11worker_argsEDpT2_") == "once<float>(float*, int)");
  CHECK(name_of("_ZN4cede2v06detail7kernels12gated_kernelINS1_5boundI4handJPfiEEEEEvT_NS1_"
                "11worker_argsE") == "cede::v0::detail::bound<hand, float*, int>");
  CHECK(name_of("not_mangled") == "not_mangled");
}

TEST_CASE("what is not PTX is refused in words") {
  const auto refused = [](const std::string& text, const char* why) {
    CHECK_THROWS_WITH_AS(static_cast<void>(check(text)), doctest::Contains(why),
                         cede::invalid_argument);
  };
  refused("", "there is no .version directive");
  refused("int main() { return 0; }", "there is no .version directive");
  refused(head + "}", "a '}' closes nothing (line 4)");
  refused(head + "/* ", "a comment does not end");
  refused(head + ".file 1 \"a", "a string does not end");
  refused(head + ".visible .entry _Z1fv()\n{\n\tret;\n", "it ends inside the function _Z1fv");
  refused(head + ".func {", "a function has no name");
}
