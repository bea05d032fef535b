"""A picture of each plot with the question that it answers, from real run files: docs/gallery.md and docs/gallery/.

    python tests/study/gallery.py RUN.h5 [SERIES.h5 ...]

Plots across runs are drawn where files of a series are given.
"""

from __future__ import annotations

import pathlib
import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

import crema
from crema.read import plots

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
DPI = 55  # small: they are many


def pages(of, directory: pathlib.Path, *, across: bool) -> list[str]:
    """Draw every plot of a run, or of a series; the lines that show them."""
    lines: list[str] = []
    group = ""
    for name, entry in plots.REGISTRY.items():
        if entry.across != across or name != entry.name:
            continue
        ax = getattr(of.plot, name)()
        ax.figure.savefig(directory / f"{name}.png", dpi=DPI)
        plt.close(ax.figure)
        if entry.group != group:
            group = entry.group
            lines += ["", f"## {group}"]
        also = f" (also {', '.join(f'`{other}`' for other in entry.also)})" if entry.also else ""
        lines += ["", f"**{entry.question}** `{name}`{also}", "", f"![{name}](gallery/{name}.png)"]
    return lines


def main() -> int:
    """Draw all of them and write the page."""
    directory = DOCS / "gallery"
    directory.mkdir(exist_ok=True)
    for old in directory.glob("*.png"):
        old.unlink()
    lines = [
        "# Gallery",
        "",
        "<!-- Written by tests/study/gallery.py. -->",
        "",
        "Each figure is `run.plot.NAME()`, or `series.plot.NAME()` for figures across runs; pass your own axes as `ax`. The figures show real runs.",
    ]
    with crema.open(sys.argv[1]) as run:
        lines += pages(run, directory, across=False)
    if sys.argv[2:]:
        lines += pages(crema.scaling(sys.argv[2:]), directory, across=True)
    (DOCS / "gallery.md").write_text("\n".join(lines) + "\n")
    print(f"{len(list(directory.glob('*.png')))} pictures in {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
