#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the files of a folder that match a pattern, one a line, sorted.

Meson calls it while configuring: a test or header that exists is built, and none can be forgotten in
a list. tests/run.sh configures anew when files came or went; by hand: meson setup --reconfigure.

usage: list_files.py FOLDER PATTERN...   (patterns as in pathlib: *.cpp, **/*.hpp)
"""
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
found = {path for pattern in sys.argv[2:] for path in folder.glob(pattern) if path.is_file()}
for path in sorted(found):
    print(path.relative_to(folder).as_posix())
