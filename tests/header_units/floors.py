#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks whether the headers keep to their floors: every header stands in the table once, includes only
headers of its own floor and of lower ones, and none includes itself by a detour.

usage: floors.py TABLE INCLUDE_FOLDER
       floors.py --self-test: finds each mistake where one is made
"""
import pathlib
import re
import sys

FLOORS = ["ground", "1", "2", "3", "4", "5", "top"]


def read_table(text):
    """Floor of each header, and what is wrong with the table."""
    floors, wrong, floor = {}, [], None
    for line in text.splitlines():
        line = line.partition("#")[0]
        named = re.match(r"(\w+):", line)
        if named:
            floor = FLOORS.index(named[1])
            line = line[named.end() :]
        for header in line.split():
            if header in floors:
                wrong.append(f"{header} stands in the table twice")
            floors[header] = floor
    return floors, wrong


def read_includes(folder):
    return {path.relative_to(folder).as_posix()[:-4]:
            re.findall(r"^\s*#\s*include\s*[<\"]cede/([^>\"]+)\.hpp", path.read_text(encoding="utf-8"), re.MULTILINE)
            for path in sorted(folder.glob("**/*.hpp"))}


def circles(includes):
    """One sentence for each circle found; a header found harmless is not entered again."""
    done, path, found = set(), [], []

    def visit(header):
        if header in path:
            found.append("a circle: " + " -> ".join(path[path.index(header) :] + [header]))
            return
        if header in done:
            return
        path.append(header)
        for included in includes.get(header, []):
            visit(included)
        path.pop()
        done.add(header)

    for header in includes:
        visit(header)
    return found


def violations(table, includes):
    floors, wrong = read_table(table)
    wrong += [f"{header} is in no floor: enter it into the table" for header in includes if header not in floors]
    wrong += [f"the table names {header}, which does not exist" for header in floors if header not in includes]
    for header, included in includes.items():
        for lower in included:
            if lower not in includes:
                wrong.append(f"{header} includes {lower}, which does not exist")
            elif header in floors and lower in floors and floors[lower] > floors[header]:
                wrong.append(f"{header} (floor {FLOORS[floors[header]]}) includes {lower} "
                             f"(floor {FLOORS[floors[lower]]}): move what it needs down, or the header up")
    return wrong + circles(includes)


def self_test():
    table = "ground: a b  # comment\n1: c\n   d\ntop: e\n"
    good = {"a": [], "b": ["a"], "c": ["a", "d"], "d": ["b"], "e": ["c"]}
    assert not violations(table, good)
    for change, sentence in [
        ({"b": ["c"]}, "b (floor ground) includes c (floor 1)"),
        ({"d": ["c"]}, "a circle: c -> d -> c"),
        ({"f": []}, "f is in no floor"),
        ({"e": ["g"]}, "e includes g, which does not exist"),
    ]:
        found = violations(table, {**good, **change})
        assert any(sentence in line for line in found), (sentence, found)
    assert "a stands in the table twice" in violations(table + "a", good)
    assert violations(table + " h", good) == ["the table names h, which does not exist"]


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    table, folder = map(pathlib.Path, sys.argv[1:])
    includes = read_includes(folder / "cede")
    wrong = violations(table.read_text(encoding="utf-8"), includes)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(includes)} headers, {sum(map(len, includes.values()))} includes")


main()
