#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chooses one configuration for each body and size from a measured curve.

usage: bench/adapters/configurations.py CURVE.csv [--bound US] > bench/adapters/configurations.csv

CURVE.csv is what "bench-adapters --curve" prints: body, size, form, workers per SM, tiles per claim,
chunk, overlap, ratio to native, turnaround P50, turnaround P99 (us), yields. Of the configurations whose
turnaround P99 is within the bound, the one with the smallest ratio; where none is, the one with the
smallest turnaround. What the file holds for a body that the curve lacks is not kept.
"""
import argparse
import collections
import csv
import pathlib
import sys

SIZES = ["small", "medium", "large"]
Point = collections.namedtuple("Point", "body size form workers claim chunk overlap ratio p50 p99 yields")


def read(lines):
    """The points of a curve; lines that are something else (progress, messages) are left out."""
    points = []
    for fields in csv.reader(lines):
        if len(fields) != len(Point._fields) or fields[1] not in SIZES:
            continue
        body, size, form = fields[:3]
        workers, claim, chunk, overlap = map(int, fields[3:7])
        points.append(Point(body, size, form, workers, claim, chunk, overlap,
                            *map(float, fields[7:10]), int(fields[10])))
    return points


def best(points, bound):
    within = [p for p in points if p.p99 <= bound]
    if within:
        # Ratios below 1 count as 1 in the suite's mean: among those, the quickest to leave.
        return min(within, key=lambda p: (max(p.ratio, 1.0), p.p99))
    return min(points, key=lambda p: p.p99)


def choose(points, bound):
    """Lines of configurations.csv."""
    lines = ["body,size,workers_per_sm,tiles_per_claim,overlap,chunk"]
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for p in points:
        groups[p.body, SIZES.index(p.size)][p.form].append(p)
    for (body, size), forms in sorted(groups.items()):
        workers, claim, overlap, chunk = 0, 0, 0, 0
        if forms["persistent"]:
            p = best(forms["persistent"], bound)
            workers, claim, overlap = p.workers, p.claim, p.overlap
        if forms["gated"]:
            chunk = best(forms["gated"], bound).chunk
        lines.append(f"{body},{SIZES[size]},{workers},{claim},{overlap},{chunk}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("curve", type=pathlib.Path)
    parser.add_argument("--bound", type=float, default=29.0,
                        help="turnaround P99 in us; default 29, a little under the 31.6 asked for")
    args = parser.parse_args()
    points = read(args.curve.read_text(encoding="utf-8").splitlines())
    if not points:
        sys.exit(f"{args.curve} holds no point of a curve; it is what bench-adapters --curve prints")
    print("\n".join(choose(points, args.bound)))


if __name__ == "__main__":
    main()
