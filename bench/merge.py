#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merges what benchmark programs wrote into one record.

usage: bench/merge.py RECORD PART...

RECORD and PART are JSON as Google Benchmark writes it. The record's context is that of the newest
part. A row that a later part has as well replaces the earlier one; rows that RECORD holds already are
kept where no part has them. Rows whose part ran on another tree, commit, GPU or day than the record's
context says carry a context of their own.
"""
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


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    record, *parts = sys.argv[1:]
    if pathlib.Path(record).exists():
        parts.insert(0, record)
    merged = merge([read(p) for p in parts])
    pathlib.Path(record).write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
