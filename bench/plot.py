#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/measurements.md from the records.

usage: bench/plot.py [RECORDS] [PICTURES]

RECORDS: folder of the records, default bench/results/h200; PICTURES: folder to write SVG files into,
default docs. Needs matplotlib (pip install matplotlib). Records that are not there are left out.
"""
import json
import math
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

BOUND_US = 31.6
COLOURS = {"persistent": "#1f77b4", "gated": "#ff7f0e", "sliced": "#999999", "priorities": "#d62728"}

plt.rcParams.update({
    "svg.hashsalt": "cede",  # the same picture from the same record
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
})


def rows(record, prefix):
    """{(part, part, ...): row} of the rows whose name begins with prefix/."""
    found = {}
    for row in record["benchmarks"]:
        parts = row["name"].split("/")
        # Google Benchmark appends how a row was run.
        parts = [p for p in parts if not p.startswith(("iterations:", "manual_time", "real_time"))]
        if parts[0] == prefix and not row.get("error_occurred"):
            found[tuple(parts[1:])] = row
    return found


def save(figure, path):
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    print(f"wrote {path}")


def adapters(record, path):
    found = rows(record, "adapters")
    sizes = ["medium", "large"]
    bodies = sorted({k[0] for k in found})
    if not bodies:
        return
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), sharex=True)
    for column, size in enumerate(sizes):
        for line, (counter, title) in enumerate(
            [("ratio_to_native", "time / native"), ("turnaround_p99_us", "turnaround P99, us")]
        ):
            ax = axes[line][column]
            for form in ["sliced", "gated", "persistent"]:
                points = [
                    (i, found[b, size, form][counter])
                    for i, b in enumerate(bodies)
                    if counter in found.get((b, size, form), {})
                ]
                ax.plot(*zip(*points), "o", ms=5, color=COLOURS[form], label=form)
            if counter == "ratio_to_native":
                ax.axhline(1, color="black", lw=0.8)
                ax.axhline(1.05, color="black", lw=0.6, ls=":")
                ax.set_ylim(0.6, 1.6)
            else:
                ax.axhline(BOUND_US, color="black", lw=0.6, ls=":")
                ax.set_yscale("log")
            ax.set_ylabel(title)
            ax.set_title(size if line == 0 else "")
            ax.set_xticks(range(len(bodies)), bodies, rotation=60, ha="right")
    axes[0][0].legend(frameon=False)
    save(figure, path)


def preemption(record, path):
    found = rows(record, "preemption")
    if not found:
        return
    lengths = sorted({k[0] for k in found}, key=lambda t: float(t.removesuffix("ms")))
    figure, ax = plt.subplots(figsize=(6, 3.5))
    for form, colour in COLOURS.items():
        points = [
            (float(n.removesuffix("ms")), found[n, form]["latency_p99_us"])
            for n in lengths
            if "latency_p99_us" in found.get((n, form), {})
        ]
        if points:
            ax.plot(*zip(*points), "o-", color=colour, label=form)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("length of the kernel, ms")
    ax.set_ylabel("preemption latency P99, us")
    ax.axhline(10, color="black", lw=0.6, ls=":")
    ax.legend(frameon=False)
    save(figure, path)


def summary(record):
    """What the documents quote: the better preemptible form of each body at medium and large."""
    found = rows(record, "adapters")
    ratios = []
    for body, size in sorted({k[:2] for k in found if k[1] != "small"}):
        choices = [
            (max(row["ratio_to_native"], 1), form, row)
            for form in ("persistent", "gated")
            if (row := found.get((body, size, form))) and row["turnaround_p99_us"] <= BOUND_US
        ]
        if not choices:
            shown = ", ".join(
                f"{form} {row['ratio_to_native']:.3f} at {row['turnaround_p99_us']:.1f} us, "
                f"tiles {row['tile_p99_us']:.1f} us"
                for form in ("persistent", "gated")
                if (row := found.get((body, size, form)))
            )
            print(f"{body}/{size}: none within {BOUND_US} us ({shown})")
            continue
        ratio, form, row = min(choices, key=lambda c: c[0])
        ratios.append(ratio)
        print(
            f"{body}/{size}: {form} {row['ratio_to_native']:.4f}, "
            f"turnaround P99 {row['turnaround_p99_us']:.1f} us, tiles {row['tile_p99_us']:.1f} us"
        )
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} rows: geometric mean {mean:.4f}, worst {max(ratios):.4f}")


def main():
    root = pathlib.Path(__file__).resolve().parents[1]
    records = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else root / "bench/results/h200")
    pictures = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else root / "docs")
    path = records / "adapters.json"
    if path.exists():
        record = json.loads(path.read_text(encoding="utf-8"))
        adapters(record, pictures / "adapters.svg")
        preemption(record, pictures / "preemption.svg")
        summary(record)


if __name__ == "__main__":
    main()
