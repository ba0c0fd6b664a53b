#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a record was measured on: {"gpu", "driver", "cuda", "date", "commit", "tree"}.

tree = first 12 hex digits of the SHA-256 of "git ls-files -s include". Where there is no git (a copy
of the files on another machine), CEDE_COMMIT and CEDE_TREE say. As a program: prints one field, or all
as JSON.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys


def output_of(*command, cwd=None):
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return b""
    return done.stdout


def context(root):
    gpu = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    name, _, driver = gpu.decode().split("\n")[0].partition(", ")
    cuda = re.search(r"release ([\d.]+)", output_of("nvcc", "--version").decode())
    files = output_of("git", "ls-files", "-s", "include", cwd=root)
    commit = output_of("git", "rev-parse", "HEAD", cwd=root).decode().strip()
    return {
        "gpu": name or "none",
        "driver": driver or "none",
        "cuda": cuda[1] if cuda else "none",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": os.environ.get("CEDE_COMMIT") or commit or "unknown",
        "tree": os.environ.get("CEDE_TREE")
        or (hashlib.sha256(files).hexdigest()[:12] if files else "unknown"),
    }


if __name__ == "__main__":
    found = context(pathlib.Path(__file__).resolve().parents[2])
    print(found[sys.argv[1]] if len(sys.argv) > 1 else json.dumps(found, indent=2))
