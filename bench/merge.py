#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merges what benchmark programs wrote into one record.

usage: bench/merge.py RECORD PART...

RECORD and PART are JSON as Google Benchmark writes it. The record's context is that of the newest
part. A row that a later part has as well replaces the earlier one; rows that RECORD holds already are
kept where no part has them. Rows whose part ran on another tree, commit, GPU or day than the record's
context says carry a context of their own.

       bench/merge.py --rest RECORD TREE PLAN

Prints the parts of PLAN, lines of part and name as a program's --plan writes them, of which RECORD lacks
a row, or has one that failed or was measured with other headers than those of TREE.
"""
import csv
import json
import pathlib
import sys

KEYS = ("gpu", "driver", "cuda", "date", "commit", "tree", "samples")


def read(path):
    try:
        record = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        return record["context"], record["benchmarks"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        sys.exit(f"{path} is no JSON of a benchmark program: {e}")


def merge(parts):
    """Rows by name, each with the context it was measured in; the newest context."""
    rows = {}
    newest = {}
    for context, benchmarks in parts:
        if context.get("date", "") >= newest.get("date", ""):
            newest = context
        for row in benchmarks:
            rows[row["name"]] = ({**context, **row.pop("context", {})}, row)
    merged = []
    for context, row in rows.values():
        own = {k: context[k] for k in KEYS if k in context}
        same = all(own.get(k) == newest.get(k) for k in KEYS if k != "date")
        merged.append(row if same else {**row, "context": own})
    # Nothing of the machine but what was measured on.
    return {"context": {k: newest[k] for k in KEYS if k in newest}, "benchmarks": merged}


def rest(record, tree, plan):
    """The parts of the plan with rows that are still to be measured, in order."""
    done = set()
    if pathlib.Path(record).exists():
        context, rows = read(record)
        done = {
            row["name"].split("/iterations:")[0]
            for row in rows
            if {**context, **row.get("context", {})}.get("tree") == tree
            and not row.get("error_occurred")
        }
    with open(plan, encoding="utf-8", newline="") as file:
        missing = [r["part"] for r in csv.DictReader(file) if r["name"] not in done]
    return list(dict.fromkeys(missing))


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--rest":
        print("".join(part + "\n" for part in rest(*sys.argv[2:])), end="")
        return
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    record, *parts = sys.argv[1:]
    if pathlib.Path(record).exists():
        parts.insert(0, record)
    merged = merge([read(p) for p in parts])
    pathlib.Path(record).write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
