#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks whether the single header says what the headers say: after preprocessing, its text is that of
the headers, each whole and once, behind all that it includes.

usage: same_text.py SINGLE_HEADER .cpp|.cu HEADER... -- COMPILER ARGS...
"""
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

from amalgamate import INCLUDE, in_order


def seen(compiler, suffix, includes):
    """What a compiler sees after preprocessing: for each file its lines."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / f"unit{suffix}"
        source.write_text("".join(f"#include {name}\n" for name in includes), encoding="utf-8")
        text = subprocess.run(compiler + ["-E", str(source)], capture_output=True, text=True, check=True).stdout
    files, lines = {}, []
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            lines = files.setdefault(pathlib.Path(marker[1]).resolve(), [])
        elif line.strip() and not re.match(r"\s*#pragma once", line):
            lines.append(" ".join(line.split()))
    return files


def main():
    split = sys.argv.index("--")
    single, suffix, *headers = sys.argv[1:split]
    single = pathlib.Path(single).resolve()
    compiler = sys.argv[split + 1 :]
    files = seen(compiler + [f"-I{INCLUDE}"], suffix, [f"<{name}>" for name in headers])
    order = [header for header, _ in in_order(headers)]
    names = [header.name for header in order]
    apart = []
    for header in order:
        for included, _ in header.includes:
            if names.index(included) > names.index(header.name):
                sys.exit(f"{header.name} stands before {included}, which it includes")
        apart += files.pop(INCLUDE / header.name, [])
    forgotten = [str(file) for file, lines in files.items() if INCLUDE in file.parents and lines]
    if forgotten:
        sys.exit("not in the single header: " + ", ".join(forgotten))
    together = seen(compiler, suffix, [f'"{single}"'])[single]
    if len(apart) < 1000:
        sys.exit(f"only {len(apart)} lines of cede were seen")
    difference = list(difflib.unified_diff(apart, together, "headers", single.name, lineterm="", n=1))
    if difference:
        sys.exit("\n".join(difference[:40]))
    print(f"{len(apart)} lines of cede, the same in both")


main()
