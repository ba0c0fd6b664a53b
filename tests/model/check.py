#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one check of a Spin model: spin -a, the C compiler, then the verifier.

Each check is one line at the top of the model, before anything else:

  /* run: NAME; spin: -DWORKERS=2; cc: -DSAFETY; pan: -m100000; expect: errors 0 */

NAME   names the check, unique in its file. The other fields may be left out.
spin   arguments of "spin -a": -D macros of the model
cc     arguments of the C compiler for pan.c (-O2 is always there)
pan    arguments of the verifier: -a for liveness, -N PROPERTY for one ltl block
expect "errors 0" (also when left out): the search is complete and finds nothing;
       "errors 1": the search finds a violation; for models with a mistake built in, which show that
       the property can fail

usage: check.py --list FILE         names of the checks, one a line
       check.py FILE FILE_STEM.NAME run one; exit 0 passed, 1 failed, 77 spin is not installed
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def checks_of(model):
    found = {}
    for line in model.read_text(encoding="utf-8").splitlines():
        match = re.match(r"/\* run:\s*(.*?)\s*\*/$", line)
        if not match:
            if found or not line.startswith("/*"):
                break
            continue
        name, *rest = [part.strip() for part in match[1].split(";")]
        fields = dict(part.split(":", 1) for part in rest)
        unknown = set(fields) - {"spin", "cc", "pan", "expect"}
        name = f"{model.stem}.{name}"
        if unknown or name in found:
            sys.exit(f"{model}: bad run line: {line}")
        found[name] = {key: value.split() for key, value in fields.items()}
    if not found:
        sys.exit(f"{model}: no run line at the top")
    return found


def step(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    print("$", " ".join(map(str, command)))
    print(done.stdout + done.stderr)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with exit status {done.returncode}")
    return done.stdout


def run(model, check):
    if not shutil.which("spin"):
        print("[skip] spin is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        step(["spin", *check.get("spin", []), "-a", model.resolve()], folder)
        step(["cc", "-O2", "-w", *check.get("cc", []), "-o", "pan", "pan.c"], folder)
        output = step(["./pan", *check.get("pan", [])], folder)
    errors = re.search(r"errors: (\d+)", output)
    if not errors:
        sys.exit("the verifier printed no result")
    expected = check.get("expect", ["errors", "0"])
    if expected == ["errors", "0"]:
        # A search that was cut short has proved nothing.
        if int(errors[1]) != 0:
            sys.exit("the verifier found a violation")
        if "Search not completed" in output or "max search depth too small" in output:
            sys.exit("the search was not complete: raise -m or the memory limit")
    elif expected == ["errors", "1"]:
        if int(errors[1]) == 0:
            sys.exit("the verifier found nothing, but this model has a mistake built in")
    else:
        sys.exit(f"unknown expectation: {' '.join(expected)}")


def main():
    if sys.argv[1] == "--list":
        print("\n".join(checks_of(pathlib.Path(sys.argv[2]))))
    else:
        model = pathlib.Path(sys.argv[1])
        run(model, checks_of(model)[sys.argv[2]])


main()
