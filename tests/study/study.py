"""The study of docs/study.md: makes the missing runs, draws them, predicts those held back, writes the page.

python tests/study/study.py DIR [--repeats 3] [--no-runs]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

import held_back
import make_runs
import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

import crema
from crema.read.scaling_report import laws, outlook

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
FIGURES = {
    "input": ("scaling_throughput", "scaling_efficiency", "budget_models"),
    "cpu": ("scaling_efficiency",),
}
TITLES = {"input": "Bound by its input", "cpu": "Bound by the CPU"}
MEANING = {
    "input": "What it means: the threads wait for a server, so another thread adds another concurrent request and needs no core. "
    "Time is lost at the ends: 48 chunks on 16 threads are three rounds, so the tail grows with the number of threads, and start-up takes as long for many threads as for one. "
    "More and smaller chunks shorten the tail, but each opens its file again.",
    "cpu": "What it means: each thread needs a core, so the number of cores is the limit; the replay refuses more threads.",
}
DPI = 60


def section(kind: str, directory: pathlib.Path, figures: pathlib.Path) -> list[str]:
    """Table, laws and pictures of one kind of run."""
    files = sorted(directory.glob(f"{kind}-*.h5"))
    if not files:
        return []
    series = crema.scaling(files)
    lines = [
        "",
        f"## {TITLES[kind]}",
        "",
        "| threads | wall s | speedup | efficiency |",
        "|---|---|---|---|",
    ]
    for p in series.points:
        lines.append(
            f"| {p.threads:.3g} | {p.wall_s:.2f} | {p.speedup:.2f} | {100 * p.efficiency:.0f} % |"
        )
    said = laws(series)
    try:
        said += outlook(series.parts)
    except Exception as reason:
        said.append(f"Parts of the budget: {reason}.")
    lines += ["", *(f"- {line}" for line in said), "", MEANING[kind], ""]
    for name in FIGURES[kind]:
        ax = getattr(series.plot, name)()
        ax.figure.savefig(figures / f"{kind}_{name}.png", dpi=DPI)
        plt.close(ax.figure)
        lines.append(f"![{name}]({figures.name}/{kind}_{name}.png)")
    return lines


def main() -> int:
    """Runs, figures, page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-runs", action="store_true", help="Only of runs that are there.")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if not options.no_runs:
        for kind in TITLES:
            make_runs.series(kind, options.repeats, options.directory)
    figures = DOCS / "study"
    figures.mkdir(exist_ok=True)
    lines = [
        "# A scaling study with real runs",
        "",
        "<!-- Written by tests/study/study.py. -->",
        "",
        f"Made by `python tests/study/study.py DIR` on {len(os.sched_getaffinity(0))} cores; "
        f"when the page was written, the load average was {os.getloadavg()[2]:.0f}. "
        "[scaling.md](scaling.md) explains laws, parts and predictions.",
    ]
    for kind in TITLES:
        found = section(kind, options.directory, figures)
        lines += found or ["", f"## {TITLES[kind]}", "", "No runs: too few cores were free."]
    predicted, worst = held_back.predictions(options.directory)
    lines += ["", "## Runs held back", ""]
    lines += [f"- {line}" for line in predicted]
    kept = "kept" if worst <= held_back.BOUND else "exceeded"
    lines += ["", f"The bound of {100 * held_back.BOUND:.0f} % was {kept} in these runs."]
    (DOCS / "study.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
