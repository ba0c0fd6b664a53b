#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists the records in bench/results that were measured with other headers than those that are here
# now, one a line: FILE TREE. A record merged from several runs is stale if any part of it is. Exit
# status: 0 none, 1 some.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec python3 - "$root" <<'END'
import json, pathlib, sys

root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / "tests" / "support"))
from context import context


def trees(node):
    """Every context.tree in a record, at any depth."""
    if isinstance(node, dict):
        if isinstance(node.get("context"), dict):
            yield node["context"].get("tree", "unknown")
        for value in node.values():
            yield from trees(value)
    elif isinstance(node, list):
        for value in node:
            yield from trees(value)


now = context(root)["tree"]
stale = 0
for record in sorted(root.glob("bench/results/**/*.json")):
    try:
        found = set(trees(json.loads(record.read_text(encoding="utf-8")))) or {"unknown"}
    except ValueError:
        found = {"unreadable"}
    for tree in sorted(found - {now}):
        stale += 1
        print(record.relative_to(root), tree)
sys.exit(1 if stale else 0)
END
