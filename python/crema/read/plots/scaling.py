"""Pictures of a series of runs: ``crema.scaling(files).plot.scaling_throughput()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..fits import FitError
from ._style import DATASETS, FAINT, LOST, SIDES, NothingToDrawError, plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from ..series import Series

_GROUP = "Across runs"
_RUN, _LAW = SIDES["processor"], SIDES["overhead"]
_PARTS_SHOWN = 6


@plot("Where is the knee?", group=_GROUP, grid="both", across=True)
def scaling_throughput(series: Series, ax: Axes) -> Sequence[Any]:
    """Throughput against threads: the runs, the ideal line, the universal scalability law."""
    n, x = series.column("threads"), series.column("throughput_hz")
    if not np.isfinite(x).any():
        raise NothingToDrawError("no run has events: no chunk was recorded")
    ax.plot(n, x, "o", color=_RUN, label="runs")
    reference = n <= 1.05 * n.min()
    grid = np.linspace(n.min(), n.max(), 200)
    per_thread = x[reference].mean() / n[reference].mean()
    ax.plot(grid, per_thread * grid, color=FAINT, linestyle=":", label="ideal")
    try:
        fit = series.usl
        ax.plot(grid, fit.throughput(grid), color=_LAW, label="universal scalability law")
        if fit.has_peak and fit.n_max <= n.max():
            label = f"peak: {fit.n_max:.0f} threads"
            ax.axvline(fit.n_max, color=LOST, linestyle="--", label=label)
    except FitError as reason:
        ax.plot([], [], " ", label=f"no law: {reason}")
    return _finish(series, ax, "events per second [1/s]")


@plot("How much does another thread gain?", group=_GROUP, grid="both", across=True)
def scaling_efficiency(series: Series, ax: Axes) -> Sequence[Any]:
    """Efficiency of each run, in percent of the runs with the fewest threads."""
    n, percent = series.column("threads"), 100 * series.column("efficiency")
    ax.plot(n, percent, "o", color=_RUN, label="runs")
    ax.axhline(100, color=FAINT, linestyle=":", label="ideal")
    return _finish(series, ax, "efficiency [%]")


@plot("Serial part or overhead?", group=_GROUP, grid="both", across=True)
def karp_flatt(series: Series, ax: Axes) -> Sequence[Any]:
    """Karp and Flatt's serial fraction: constant is serial work, rising is overhead."""
    fraction = series.column("karp_flatt")
    if not np.isfinite(fraction).any():
        raise NothingToDrawError("all runs have the threads of the reference")
    ax.plot(series.column("threads"), fraction, "o", color=_RUN, label="runs")
    return _finish(series, ax, "serial fraction")


@plot("Which factor degrades?", group=_GROUP, grid="both", across=True)
def pop_factors(series: Series, ax: Axes) -> Sequence[Any]:
    """POP's factors: load balance, communication, computation scaling, and their product."""
    names = ("load_balance", "communication", "computation_scaling", "global_efficiency")
    for name, colour in zip(names, DATASETS, strict=False):
        threads, values = series.column("threads"), series.column(name)
        ax.plot(threads, values, "o", color=colour, label=name.replace("_", " "))
        about = np.round(threads)
        means = [(n, values[about == n].mean()) for n in np.unique(about)]
        ax.plot(*zip(*means, strict=True), color=colour, linewidth=1)
    ax.axhline(0.8, color=FAINT, linestyle=":", label="poor below 0.8")
    return _finish(series, ax, "efficiency")


@plot("What will limit?", group=_GROUP, grid="both", across=True)
def budget_models(series: Series, ax: Axes) -> Sequence[Any]:
    """Thread-seconds of the largest parts and their models, to ten times the largest run."""
    try:
        model = series.parts
    except FitError as reason:
        raise NothingToDrawError(str(reason)) from reason
    largest = float(model.threads.max())
    grid = np.geomspace(model.threads.min(), 10 * largest, 100)
    last = {name: float(part.seconds(10 * largest)) for name, part in model.parts.items()}
    shown = sorted(last, key=lambda name: -last[name])[:_PARTS_SHOWN]
    for name, colour in zip(shown, DATASETS, strict=False):
        ax.plot(model.threads, model.seconds[name], "o", color=colour)
        ax.plot(grid, model.parts[name].seconds(grid), color=colour, label=name)
    ax.axvline(largest, color=FAINT, linestyle=":", label="largest run")
    ax.set_xscale("log", base=2)
    return _finish(series, ax, "thread-seconds [s]")


def _finish(series: Series, ax: Axes, y: str) -> Sequence[Any]:
    """Labels; entries of the legend."""
    partial = sum(p.verdict != "COMPLETE" for p in series.points)
    if partial:
        ax.plot([], [], " ", label=f"{partial} runs are not COMPLETE")
    ax.set_xlabel("threads, averaged over the run")
    ax.set_ylabel(y)
    ax.set_ylim(bottom=0)
    return ax.get_legend_handles_labels()[0]
