"""A picture of each plot with the question that it answers, from real run files: docs/gallery.md and docs/gallery/.

    python tests/study/gallery.py [--run RUN.h5] [SERIES.h5 ...]

Without RUN a run is made for it (`gallery_run.py`). Plots across runs are drawn where files of a series are given, such as
those of `make_runs.py`; otherwise their pictures stay as they are.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

import gallery_run
import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

import crema
from crema.read import plots

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
DPI = 55  # small: they are many


def page(across: bool) -> list[str]:
    """The lines that show the plots, those of a run or those across runs."""
    lines: list[str] = []
    group = ""
    for name, entry in plots.REGISTRY.items():
        if entry.across != across or name != entry.name:
            continue
        if entry.group != group:
            group = entry.group
            lines += ["", f"## {group}"]
        also = f" (also {', '.join(f'`{other}`' for other in entry.also)})" if entry.also else ""
        lines += ["", f"**{entry.question}** `{name}`{also}", "", f"![{name}](gallery/{name}.png)"]
    return lines


def draw(of, directory: pathlib.Path, *, across: bool) -> None:
    """Draw every plot of a run, or of a series."""
    for name, entry in plots.REGISTRY.items():
        if entry.across != across or name != entry.name:
            continue
        ax = getattr(of.plot, name)()
        ax.figure.savefig(directory / f"{name}.png", dpi=DPI)
        plt.close(ax.figure)


def main() -> int:
    """Draw all of them and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("series", nargs="*", type=pathlib.Path)
    parser.add_argument("--run", type=pathlib.Path)
    options = parser.parse_args()
    directory = DOCS / "gallery"
    directory.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        crema.open(options.run or gallery_run.make(pathlib.Path(scratch))) as run,
    ):
        draw(run, directory, across=False)
    if options.series:
        draw(crema.scaling(options.series), directory, across=True)
    lines = [
        "# Gallery",
        "",
        "<!-- Written by tests/study/gallery.py. -->",
        "",
        "Each figure is `run.plot.NAME()`, or `series.plot.NAME()` for figures across runs; pass your own axes as `ax`. The figures show",
        "real runs; the first one has a slow file, an attempt that failed, and a worker that was killed.",
        *page(across=False),
        *page(across=True),
    ]
    (DOCS / "gallery.md").write_text("\n".join(lines) + "\n")
    known = {f"{name}.png" for name in plots.REGISTRY}
    for picture in directory.iterdir():
        if picture.name not in known:
            picture.unlink()
    print(f"{len(list(directory.glob('*.png')))} pictures in {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
