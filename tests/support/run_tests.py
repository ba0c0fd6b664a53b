#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the test programs of a configured build directory, runs them, counts.

Why not "meson test": it runs nothing if one program does not build, and counts programs where we count
cases. "meson test" works all the same. Called by tests/run.sh, which documents the options.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from context import context

EXIT_SKIPPED = 77
GROUPS = ["unit", "header_units", "compile_fail", "docs", "model", "link", "port", "gpu"]


class Counts:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class Progress:
    """Says where a long step stands, at most every few seconds."""

    def __init__(self, what):
        self.what, self.said = what, time.monotonic()

    def at(self, done, total):
        if time.monotonic() - self.said > 5:
            self.said = time.monotonic()
            print(f"  {self.what}: {done} of {total}", flush=True)


def build(args, tests, log):
    """Builds what the tests need; returns the programs that could not be built."""
    programs = [test for test in tests if test["cmd"][0].startswith(args.build + "/")]
    # A whole group by its alias, which also builds the libraries that link tests load.
    targets = sorted({f"test-{test['group']}" if not args.match or test["group"] == "link"
                      else os.path.relpath(test["cmd"][0], args.build) for test in programs})
    if not targets:
        return set()
    ninja_here = ["ninja", "-C", args.build]
    print("building", flush=True)
    progress = Progress("built")
    failed = set()
    with subprocess.Popen(ninja_here + ["-j", str(args.jobs), "-k", "0"] + targets,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as ninja:
        for line in ninja.stdout:
            log.write(line)
            step = re.match(r"\[(\d+)/(\d+)\]", line)
            if step:
                progress.at(*step.groups())
            elif line.startswith("FAILED: "):
                failed.update(line.split()[1:])
    if ninja.returncode == 0:
        return set()
    # An older program may still be there: what counts is whether a step on its way failed.
    unbuilt = set()
    for test in programs:
        target = os.path.relpath(test["cmd"][0], args.build)
        steps = subprocess.run(ninja_here + ["-t", "commands", target], capture_output=True, text=True,
                               check=False)
        if steps.returncode != 0 or not failed or failed.intersection(steps.stdout.split()):
            unbuilt.add(test["cmd"][0])
    return unbuilt


def run(test):
    """Runs one test; returns its exit status (None: timed out), output and seconds."""
    start = time.monotonic()
    with subprocess.Popen(test["cmd"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", cwd=test["workdir"],
                          env={**os.environ, **test["env"]}, start_new_session=True) as program:
        try:
            output, _ = program.communicate(timeout=test["timeout"])
            status = program.returncode
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            output, _ = program.communicate()
            status = None
    return status, output, time.monotonic() - start


def count(status, output):
    """Counts of one finished test, and what is wrong with it."""
    line = re.search(r"^cede-tests: (\d+) passed, (\d+) failed, (\d+) skipped$", output, re.MULTILINE)
    if status is None:
        return Counts(failed=1), "timed out"
    if not line:
        if status == EXIT_SKIPPED:
            return Counts(skipped=1), None
        ok = status == 0
        ended = f"signal {-status}" if status < 0 else f"exit status {status}"
        return Counts(passed=ok, failed=not ok), None if ok else ended
    found = Counts(*map(int, line.groups()))
    if found.failed:
        return found, f"{found.failed} failed"
    if status not in (0, EXIT_SKIPPED):
        # All cases passed and the program failed all the same: a sanitizer, or a crash at exit.
        return Counts(found.passed, 1, found.skipped), f"exit status {status} after the last case"
    if found.passed + found.skipped == 0:
        return Counts(failed=1), "holds no test case"
    return found, None


def run_group(name, tests, unbuilt, args, log):
    total, reasons, failures = Counts(), {}, []
    start = time.monotonic()
    progress = Progress(name)
    done = 0

    def finish(test, outcome):
        nonlocal done
        status, output, seconds = outcome
        found, wrong = count(status, output)
        log.write(f"\n=== {name}: {test['name']} ({seconds:.1f} s)\n$ {' '.join(test['cmd'])}\n{output}")
        total.add(found)
        if wrong:
            failures.append(f"{test['name']}: {wrong}")
        for reason in re.findall(r"^\[skip\] (.*)$", output, re.MULTILINE):
            reasons[reason] = reasons.get(reason, 0) + 1
        done += 1
        progress.at(done, len(tests))

    runnable = []
    for test in tests:
        if test["cmd"][0] in unbuilt:
            total.add(Counts(failed=1))
            failures.append(f"{test['name']}: does not build")
            done += 1
        else:
            runnable.append(test)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        running = {pool.submit(run, test): test for test in runnable if test["is_parallel"]}
        for future in concurrent.futures.as_completed(running):
            finish(running[future], future.result())
    for test in runnable:
        if not test["is_parallel"]:
            finish(test, run(test))

    print(f"{name}: {total} ({time.monotonic() - start:.0f} s)")
    for failure in failures:
        print(f"  FAILED {failure}")
    for reason, times in sorted(reasons.items()):
        print(f"  skipped: {reason}" + (f" ({times} times)" if times > 1 else ""))
    sys.stdout.flush()
    return total


def main():
    parser = argparse.ArgumentParser()
    for option in ("--root", "--build", "--log", "--meson", "--only"):
        parser.add_argument(option, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--match", default="")
    parser.add_argument("--json")
    args = parser.parse_args()
    selected = args.only.split(",")
    unknown = set(selected) - set(GROUPS)
    if unknown:
        sys.exit(f"unknown group: {', '.join(sorted(unknown))}; there are: {', '.join(GROUPS)}")

    measured_on = context(pathlib.Path(args.root))
    listed = subprocess.run([args.meson, "introspect", "--tests", args.build], capture_output=True,
                            text=True, check=True)
    tests = json.loads(listed.stdout)
    for test in tests:
        test["group"] = test["suite"][0].split(":")[-1]
    tests = [test for test in tests if test["group"] in selected and re.search(args.match, test["name"])]

    total, groups = Counts(), []
    with open(args.log, "a", encoding="utf-8") as log:
        unbuilt = build(args, tests, log)
        for name in GROUPS:
            members = [test for test in tests if test["group"] == name]
            if not members:
                continue
            found = run_group(name, members, unbuilt, args, log)
            total.add(found)
            groups.append({"name": name, "passed": found.passed, "failed": found.failed,
                           "skipped": found.skipped})
    if args.json:
        record = {"context": measured_on, "groups": groups}
        pathlib.Path(args.json).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")

    if total.failed:
        print(f"Some tests failed; their output is in {args.log}", file=sys.stderr, flush=True)
    elif not tests:
        print("No test has that name.", file=sys.stderr, flush=True)
    print(total, flush=True)
    sys.exit(1 if total.failed or not tests else 0)


main()
