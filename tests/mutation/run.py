#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes include/cede/protocol.hpp in one place at a time and sees whether the protocol tests notice.

Operators (operators.py): another comparison, a negated condition, one more or one less, a removed
statement, two neighbouring statements swapped, a weaker memory order, a narrower scope.

A mutant is killed when the compiler refuses it or one of the tests below fails. Every mutant that
survives must be listed in equivalent.txt with the reason why no test can tell it from the original; a
line there that no surviving mutant matches is an error as well.

usage: run.py [--jobs N] [--match TEXT] [--list] [--keep-going]
       --jobs N      mutants tried at a time (default 2)
       --match TEXT  only mutants whose description contains TEXT; unused lines of the list then pass
       --list        print the mutants and stop

Exit status 0: every survivor is listed; 1: one is not, or the unchanged header fails; 2: wrong usage.
"""
import argparse
import concurrent.futures
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import operators

root = pathlib.Path(__file__).resolve().parents[2]
header = root / "include/cede/protocol.hpp"
tests = [
    # Source, optimisation, arguments, seconds of processor time. The first is quick to build and kills most.
    (root / "tests/unit/protocol_test.cpp", "-O0", [], 30),
    # Without the random runs: what they find in larger cases, the small ones find as well. Without the
    # mistakes in use: which property they break first may change though the protocol is right.
    (root / "tests/unit/protocol_interleavings_test.cpp", "-O2", ["-tse=*mistakes*,*random*"], 300),
]
flags = ["-std=c++20", "-Werror=return-type", "-w"]


def compiler():
    for name in ("g++", "clang++"):
        if shutil.which(name):
            return name
    sys.exit("a C++ compiler is needed: neither g++ nor clang++ is installed")


def command(arguments, seconds):
    """True, False or None: it passed, failed, or took too long (a test that hangs has noticed). Seconds
    of processor time, so that a busy machine kills no mutant."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))

    for _ in range(5):
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, preexec_fn=limit)
        output = done.stdout + done.stderr
        if done.returncode == -signal.SIGXCPU:
            return None, ""
        # Ended from outside, say for want of memory: that says nothing of the mutant.
        if done.returncode not in (-signal.SIGKILL, -signal.SIGTERM) and "Killed signal" not in output:
            return done.returncode == 0, output
        time.sleep(5)
    sys.exit(f"ended from outside, again and again: {' '.join(arguments)}")


def first_failure(output):
    """The test case that failed first, for the report."""
    for line in output.splitlines():
        if line.startswith("TEST CASE:"):
            return line.removeprefix("TEST CASE:").strip()
    return "crashed"


def attempt(text, main_object, cxx):
    """Returns (verdict, detail) for a header with this text."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        copy = folder / "cede"
        shutil.copytree(root / "include/cede", copy)
        (copy / "protocol.hpp").write_text(text, encoding="utf-8")
        built = None
        for source, optimisation, arguments, seconds in tests:
            program = folder / source.stem
            if built != source:
                passed, output = command(
                    [cxx, *flags, optimisation, f"-I{folder}", f"-I{root / 'tests'}", str(source),
                     str(main_object), "-o", str(program)], 300)
                if not passed:
                    return "refused", output.strip().splitlines()[0] if output.strip() else ""
                built = source
            passed, output = command([str(program), "--abort-after=1", *arguments], seconds)
            if passed is None:
                return "killed", f"{source.stem} does not end"
            if not passed:
                return "killed", first_failure(output)
    return "survived", ""


def listed():
    """Lines of equivalent.txt: description of a mutant, ' : ', reason."""
    found = {}
    for number, line in enumerate((pathlib.Path(__file__).parent / "equivalent.txt").read_text(
            encoding="utf-8").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        description, separator, reason = line.rpartition(" : ")
        if not separator or not reason.strip() or description in found:
            sys.exit(f"equivalent.txt, line {number}: want 'mutant : reason', each mutant once")
        found[description] = reason.strip()
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--match", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()

    original = header.read_text(encoding="utf-8")
    mutants = [m for m in operators.mutants(original) if options.match in m.description]
    if options.list:
        for m in mutants:
            print(m.description)
        return 0
    equivalent = listed()
    cxx = compiler()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        main_object = pathlib.Path(folder) / "main.o"
        source = pathlib.Path(folder) / "main.cpp"
        source.write_text("#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN\n#include <doctest/doctest.h>\n",
                          encoding="utf-8")
        passed, output = command([cxx, "-std=c++20", "-O1", "-c", str(source), "-o", str(main_object)], 300)
        if not passed:
            sys.exit(f"doctest cannot be compiled: {output.strip().splitlines()[0]}")
        verdict, detail = attempt(original, main_object, cxx)
        if verdict != "survived":
            sys.exit(f"the unchanged header does not pass: {detail}")
        counts = {"refused": 0, "killed": 0, "survived": 0}
        unlisted = []
        survivors = set()
        with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
            results = pool.map(lambda m: (m, attempt(m.text, main_object, cxx)), mutants)
            for m, (verdict, detail) in results:
                counts[verdict] += 1
                note = detail
                if verdict == "survived":
                    survivors.add(m.description)
                    note = "equivalent" if m.description in equivalent else "NOT LISTED"
                    if m.description not in equivalent:
                        unlisted.append(m.description)
                print(f"{verdict:9} {m.description}{' -- ' if note else ''}{note}", flush=True)
    unused = [] if options.match else sorted(set(equivalent) - survivors)
    for description in unused:
        print(f"equivalent.txt lists a mutant that does not survive: {description}")
    for description in unlisted:
        print(f"survived and is not in equivalent.txt: {description}")
    print(f"{len(mutants)} mutants: {counts['killed']} killed by tests, {counts['refused']} by the compiler, "
          f"{counts['survived'] - len(unlisted)} equivalent, {len(unlisted)} unlisted; "
          f"{time.monotonic() - began:.0f} s")
    return 1 if unlisted or unused else 0


if __name__ == "__main__":
    sys.exit(main())
