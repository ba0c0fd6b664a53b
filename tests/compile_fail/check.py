#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks one program that must not compile.

The file's first line is   // expect: REGEX
As it stands, compiling it must fail, and the first error must match REGEX. With CEDE_EXPECT_OK
defined it must compile: the case then differs from a valid program only in what it tests, and cannot
pass because of a missing include or a typing error.
Where what is wrong is an option, the second line is   // with: OPTION...
They are given to the compilation that must fail, instead of CEDE_EXPECT_OK to the other.

usage: check.py FILE -- COMPILER ARGS...
"""
import re
import subprocess
import sys


def fail(text, output=""):
    print(text)
    if output:
        print(output)
    sys.exit(1)


def main():
    source, compiler = sys.argv[1], sys.argv[sys.argv.index("--") + 1 :]
    with open(source, encoding="utf-8") as text:
        expect = re.match(r"// expect: (.+)$", text.readline().rstrip("\n"))
        options = re.match(r"// with: (.+)$", text.readline().rstrip("\n"))
    options = options[1].split() if options else []
    if not expect:
        fail(f"{source}: the first line must be '// expect: REGEX'")

    refused = subprocess.run(compiler + options + [source], capture_output=True, text=True, check=False)
    output = refused.stdout + refused.stderr
    if refused.returncode == 0:
        fail(f"{source}: compiles, but must not")
    # g++ writes "file:1:2: error: ...", nvcc "file(1): error: ..." and goes on over several lines.
    errors = re.split(r"^.*?\berror(?: #[\w-]+)?: ", output, flags=re.MULTILINE)[1:]
    if not errors:
        fail(f"{source}: fails without an error message", output)
    first = errors[0].split("\n\n")[0]
    if not re.search(expect[1], first):
        fail(f"{source}: the first error does not match: {expect[1]}", output)

    accepted = subprocess.run(compiler + ["-DCEDE_EXPECT_OK", source], capture_output=True, text=True,
                              check=False)
    if accepted.returncode != 0:
        fail(f"{source}: does not compile with CEDE_EXPECT_OK either",
             accepted.stdout + accepted.stderr)


main()
