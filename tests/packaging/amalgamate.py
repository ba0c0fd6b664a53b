#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cede as a single header: what the given headers include, each once, lowest first.

A header that is reached under a condition alone (the CUDA device: under nvcc) stands in the result
under that condition. Headers of others (<vector>, <cuda_runtime.h>) stay #include lines.

Port regions are opened and closed by including two headers, as often as there are regions. In a single
header they become two sections at its end, outside its include guard, each chosen by a macro:

    #include "cede.hpp"
    #define CEDE_PORT_BEGIN
    #include "cede.hpp"
    __global__ void kernel(...) { ... }
    #define CEDE_PORT_END
    #include "cede.hpp"

<cede/rtc.hpp> is refused: it hands cede's headers to NVRTC as files.

usage: amalgamate.py [-o FILE] [HEADER...]   (default: cede/cede.hpp; a g++ program that wants the GPU
                                              names cede/cuda_device.hpp before it)
"""
import argparse
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
PORT = {"CEDE_PORT_BEGIN": "cede/port/begin.hpp", "CEDE_PORT_END": "cede/port/end.hpp"}


class Header:
    """Its text without what the single header says once, and what it includes of cede."""

    def __init__(self, name):
        self.name = name
        path = INCLUDE / name
        if not path.is_file():
            sys.exit(f"amalgamate.py: there is no {name} in {INCLUDE}; name it as in #include <{name}>")
        self.includes = []  # (header, its condition or None), in order
        self.lines = []
        conditions = []
        opened = False  # a namespace: from there on an #include could not be moved to the front
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            where = f"{path}:{number}"
            included = re.match(r"#\s*include\s*<(cede/[^>]+)>", line)
            if included:
                if opened:
                    sys.exit(f"{where}: an #include below code; move it to the top of the header")
                self.includes.append((included[1], all_of(conditions)))
                continue
            if re.match(r"#\s*pragma once|// SPDX", line):
                continue
            if re.match(r"#\s*if", line):
                conditions.append(condition_of(line))
            elif re.match(r"#\s*(else|elif)", line):
                conditions[-1] = None  # what an include would stand under is not worked out
            elif re.match(r"#\s*endif", line):
                conditions.pop()
            elif line.startswith("CEDE_BEGIN_NAMESPACE"):
                opened = True
            self.lines.append(line)


def condition_of(line):
    """None for an #ifdef or #ifndef: not worked out either."""
    plain = re.match(r"#\s*if\s+(.+)", line)
    return plain[1] if plain else None


def all_of(conditions):
    """None: always."""
    if None in conditions:
        sys.exit("amalgamate.py: an #include of cede under #else, #elif, #ifdef or #ifndef; write it under an #if")
    # NVRTC reads the headers, never this file.
    wanted = sorted({c for c in conditions if c != "!CEDE_RTC"})
    return " && ".join(wanted) or None


def in_order(entries):
    """Yields (header, condition), each header once, behind all that it includes: the order in which a
    compiler sees their text, since a header includes nothing below its first line of code."""
    headers, reached, order = {}, {}, []

    def visit(name, condition, path):
        if name in path:
            sys.exit("amalgamate.py: headers include each other: " + " -> ".join(path + [name]))
        if name == "cede/rtc.hpp":
            sys.exit("amalgamate.py: <cede/rtc.hpp> cannot be in a single header, since it hands cede's "
                     "headers to NVRTC as files; copy include/cede instead")
        if name in reached and reached[name] in (None, condition):
            return
        # Reached in two ways: under the one that asks less. There is one condition, so that is "always".
        reached[name] = None if name in reached else condition
        if name not in headers:
            headers[name] = Header(name)
        for included, local in headers[name].includes:
            visit(included, all_of([c for c in (reached[name], local) if c]), path + [name])
        if name not in order:
            order.append(name)

    for entry in entries:
        visit(entry, None, [])
    return [(headers[name], reached[name]) for name in order]


def trimmed(lines):
    text = "\n".join(lines).strip("\n")
    text = re.sub(r"^#if .*\n+#endif.*\n?", "", text, flags=re.MULTILINE)  # held includes of cede alone
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"


def version():
    text = (INCLUDE / "cede/config.hpp").read_text(encoding="utf-8")
    return ".".join(re.search(rf"#define CEDE_VERSION_{part} (\d+)", text)[1]
                    for part in ("MAJOR", "MINOR", "PATCH"))


def amalgamation(entries):
    yield f"""\
// SPDX-License-Identifier: Apache-2.0
// cede {version()} in one header: {', '.join(entries)}. Made by tests/packaging/amalgamate.py; not to be edited.
// Port regions: #define CEDE_PORT_BEGIN, then include this again; CEDE_PORT_END likewise.
#if !defined(CEDE_SINGLE_HEADER)
#define CEDE_SINGLE_HEADER 1
"""
    for header, condition in in_order(entries):
        yield f"\n// {header.name}\n"
        if condition:
            yield f"#if {condition}\n"
        yield trimmed(header.lines)
        if condition:
            yield "#endif\n"
    yield "\n#endif  // CEDE_SINGLE_HEADER\n"
    for macro, name in PORT.items():
        yield f"\n// {name}\n#if defined({macro})\n#undef {macro}\n{trimmed(Header(name).lines)}#endif\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("headers", nargs="*", default=["cede/cede.hpp"])
    parser.add_argument("-o", dest="output", type=pathlib.Path)
    args = parser.parse_args()
    text = "".join(amalgamation(args.headers))
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
