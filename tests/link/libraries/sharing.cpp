// SPDX-License-Identifier: Apache-2.0
// A program that uses cede itself, linked with -rdynamic, loads libraries that do, too.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <string>

#include "load.hpp"

TEST_CASE("program and libraries share one registry") {
  for (const std::string& name : libraries()) {
    CAPTURE(name);
    CHECK(load(name).registry() == &cede_process::the_registry);
  }
}

TEST_CASE("every library's bodies run on the program's scheduler") {
  cede::scheduler cpu{cede::host_device{.sms = 2}};
  for (const std::string& name : libraries()) {
    CAPTURE(name);
    CHECK(load(name).run(&cpu, 100) == 4950);
  }
  CHECK(cpu.stats().workloads.size() == libraries().size());
}

TEST_CASE("what a library's cede throws is caught by type") {
  for (const std::string& name : libraries()) {
    CAPTURE(name);
    CHECK_THROWS_AS(load(name).fail(), cede::contract_error);
  }
}

TEST_CASE("two compilers built the libraries") {
  CHECK(std::string(load("first").compiler) == "g++");
#if CEDE_TEST_NVCC
  CHECK(std::string(load("third").compiler) == "nvcc");
#endif
}
