"""Predict runs that were held back, by replaying others, and compare.

    python tests/study/held_back.py DIR      # of make_runs.py

Input-bound: 8 and 16 threads from at most 4. CPU-bound: 2 threads from 1. Exit status 1 if a prediction is off by more than 10 %.
"""

from __future__ import annotations

import math
import pathlib
import statistics
import sys

import crema
from crema.read.replay import OversubscribedError, replay

BOUND = 0.10
HELD_BACK = (("input", (1, 2, 4), 8), ("input", (1, 2, 4), 16), ("cpu", (1,), 2))


def of(directory: pathlib.Path, kind: str, threads: int) -> list[pathlib.Path]:
    """Run files of one kind and number of threads."""
    return sorted(directory.glob(f"{kind}-{threads:02d}-*.h5"))


def predictions(directory: pathlib.Path) -> tuple[list[str], float]:
    """A line per prediction, and by what share the worst of them is off; NaN if there are no runs."""
    lines, worst = [], math.nan
    for kind, known, threads in HELD_BACK:
        files = [f for k in known for f in of(directory, kind, k)]
        held_back = of(directory, kind, threads)
        if not files or not held_back:
            lines.append(f"{kind}, {threads} threads: no runs")
            continue
        walls = []
        for path in held_back:
            with crema.open(path) as run:
                walls.append(run.summary()["wall_time"])
        measured = statistics.median(walls)
        spread = f"measured {measured:.2f} s ({min(walls):.2f} to {max(walls):.2f} s in {len(walls)} runs)"
        try:
            predicted = replay(files).what_if(threads=threads).wall_s
        except OversubscribedError as reason:
            lines.append(f"{kind}, {threads} threads: {reason}; {spread}")
            worst = math.inf
            continue
        error = predicted / measured - 1
        worst = max(abs(error), 0 if math.isnan(worst) else worst)
        lines.append(
            f"{kind}, {threads} threads: predicted {predicted:.2f} s, {spread}, {100 * error:+.1f} %"
        )
    files = of(directory, "cpu", 1)
    if files:
        try:
            lines.append(f"cpu, 64 threads: {replay(files).what_if(threads=64).wall_s:.2f} s")
            worst = math.inf  # there are no 64 cores
        except OversubscribedError as reason:
            lines.append(f"cpu, 64 threads: {reason}")
    return lines, worst


def main() -> int:
    """Print one line per prediction."""
    lines, worst = predictions(pathlib.Path(sys.argv[1]))
    print("\n".join(lines))
    return 0 if worst <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
