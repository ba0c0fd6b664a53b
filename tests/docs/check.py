#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the code of one Markdown file, and looks whether its links lead somewhere.

```cpp blocks:  one with "int main(" is a program: compiled, linked and run, as it stands.
                The others are fragments of a function body; all of a file are compiled together,
                behind prelude.hpp, which declares the names they use.
```cuda blocks: compiled by nvcc where there is one.

usage: check.py FILE.md --mode host|cuda -- COMPILER ARGS...
  host: the ```cpp blocks, and the links
  cuda: the ```cuda blocks, and README's first program changed as its text says for the GPU
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HOST = "{cede::host_device{}}"


def fail(text, output=""):
    print(text)
    if output:
        print(output)
    sys.exit(1)


def blocks(text, language):
    """Yields (line number of the first line inside, code)."""
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, found.start(1)) + 1, found[1]


def located(path, line, code):
    return f'#line {line} "{path}"\n{code}'


def compile_code(compiler, code, suffix, extra):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / f"code{suffix}"
        source.write_text(code, encoding="utf-8")
        program = pathlib.Path(folder) / "program"
        command = compiler + extra + [str(source), "-o", str(program)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            fail("does not compile:", built.stdout + built.stderr)
        if "-c" in extra:
            return
        ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=False)
        print(ran.stdout)
        if ran.returncode != 0:
            fail(f"exit status {ran.returncode}", ran.stderr)


def host(path, text, compiler, here):
    fragments = []
    count = 0
    for line, code in blocks(text, "cpp"):
        count += 1
        if "int main(" in code:
            compile_code(compiler, located(path, line, code), ".cpp", ["-pthread"])
        else:
            fragments.append((line, code))
    if fragments:
        unit = (here / "prelude.hpp").read_text(encoding="utf-8")
        for line, code in fragments:
            includes = "".join(re.findall(r"^#include .*\n", code, re.MULTILINE))
            code = re.sub(r"^#include .*$", "", code, flags=re.MULTILINE)
            unit += f"{includes}void fragment_{line}() {{\n{located(path, line, code)}}}\n"
        compile_code(compiler, unit, ".cpp", ["-c"])
    print(f"{count} blocks of C++")

    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) + re.findall(r'src="([^"]+)"', text):
        if "://" not in target and not (path.parent / target).exists():
            fail(f"{path}: the link to {target} leads nowhere")


def cuda(path, text, compiler):
    units = [located(path, line, code) for line, code in blocks(text, "cuda")]
    if path.name == "README.md":
        line, program = next(b for b in blocks(text, "cpp") if "int main(" in b[1])
        if HOST not in program:
            fail(f"{path}: the first program does not say {HOST}")
        units.append(located(path, line, program.replace(HOST, "")))
    for unit in units:
        compile_code(compiler, unit, ".cu", ["-c"])
    print(f"{len(units)} blocks of CUDA")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--mode", choices=["host", "cuda"], required=True)
    split = sys.argv.index("--")
    args = parser.parse_args(sys.argv[1:split])
    compiler = sys.argv[split + 1 :]
    text = args.file.read_text(encoding="utf-8")
    if args.mode == "host":
        host(args.file, text, compiler, pathlib.Path(__file__).parent)
    else:
        cuda(args.file, text, compiler)


main()
