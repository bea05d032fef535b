"""Presence and activity of each worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D

from ._style import (
    DATASETS,
    FAINT,
    LOST,
    SIDES,
    NothingToDrawError,
    grid_of,
    need_sealed,
    plot,
    sampled_grid,
    short,
    since,
    swatch,
    window,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..reader import RunFile

_LINES_MAX = 8  # workers that can be distinguished as lines; more are drawn as rows
_BUSY = LinearSegmentedColormap.from_list("busy", [SIDES["idle"], SIDES["processor"]])
_LABELS_MAX = 30
_PIXELS = (120, 400)  # rows and columns of a picture: beyond, neighbours are averaged


@plot(
    "Which workers were busy, idle or lost?",
    group="Workers",
    height=3.2,
    time_axis=True,
    grid="",
    also=("worker_activity", "worker_activity_timeline"),
)
def worker_gantt(run: RunFile, ax: Axes) -> Any:
    """A row per worker: blue is busy, grey idle, nothing where it was not there. Source: ``grid/slot_busy_pct``, ``membership``."""
    edges, busy = grid_of(run, "slot_busy_pct")
    if not len(busy):
        raise NothingToDrawError("no worker joined the run")
    _image(ax, edges, np.clip(busy, 0, 100), cmap=_BUSY, vmin=0, vmax=100)
    _name_rows(run, ax, len(busy))
    window_ns = window(run)
    lost = [r for r in run.rows("membership") if r.event == "lost" and r.worker_id < len(busy)]
    if lost:
        at = [since(r.t_ns, window_ns) for r in lost]
        ax.plot(at, [r.worker_id + 0.5 for r in lost], "x", color=LOST, markersize=8, mew=2)
    return [swatch(SIDES["processor"], "busy"), swatch(SIDES["idle"], "idle")]


@plot("Is a node sick? Are there phases?", group="Workers", height=3.2, time_axis=True, grid="")
def cpu_heat_map(run: RunFile, ax: Axes) -> Any:
    """CPU of each worker process over time; 100 % is one core. Source: ``grid/cpu_pct``."""
    edges, cpu = sampled_grid(run, "cpu_pct")
    if not np.isfinite(cpu).any():
        raise NothingToDrawError("the CPU of the workers was not sampled")
    image = _image(ax, edges, cpu, cmap="cividis", vmin=0, vmax=max(100, np.nanpercentile(cpu, 99)))
    ax.figure.colorbar(image, ax=ax, label="CPU [% of a core]", pad=0.01)
    _name_rows(run, ax, len(cpu))


@plot(
    "Which worker computes, which waits?",
    group="Workers",
    height=2.8,
    time_axis=True,
    also=("cpu_utilization_per_worker", "cpu_utilization_per_worker_timeline"),
)
def cpu_per_worker(run: RunFile, ax: Axes) -> Any:
    """CPU of each worker process. Source: ``grid/cpu_pct``."""
    return _per_worker(run, ax, "cpu_pct", "CPU [% of a core]", "the CPU was not sampled")


@plot(
    "Which worker fills its memory?",
    group="Workers",
    height=2.8,
    time_axis=True,
    also=("memory_utilization_per_worker", "memory_utilization_per_worker_timeline"),
)
def memory_per_worker(run: RunFile, ax: Axes) -> Any:
    """Resident memory of each worker, of its limit. Source: ``grid/memory_pct``."""
    why = "no share of memory is known: the workers have no limit, or were not sampled"
    return _per_worker(run, ax, "memory_pct", "memory [% of limit]", why)


@plot("Did the workers share the work?", group="Workers", height=3.2, grid="x")
def worker_share(run: RunFile, ax: Axes) -> Any:
    """What each worker's threads did while it was there: parts of ``thread_s``. Source: ``summary/per_worker``; the 24 with most of it."""
    need_sealed(run)
    rows = [r for r in run.rows("summary/per_worker") if r.thread_s > 0]
    if not rows:
        raise NothingToDrawError("no worker was present for any time")
    shown = sorted(rows, key=lambda r: -r.thread_s)[:24]
    parts = _shares(shown)
    left = np.zeros(len(shown))
    for (_, colour), width in parts.items():
        ax.barh(range(len(shown)), width, left=left, height=0.7, color=colour)
        left = left + width
    ax.set_yticks(range(len(shown)), [short(r.worker) for r in shown], fontsize="small")
    ax.set_ylim(len(shown) - 0.4, -0.6)
    rest = f"; {len(rows) - len(shown):,} more workers in the file" if len(rows) > 24 else ""
    ax.set_xlabel("thread-seconds [s]" + rest)
    return [swatch(colour, label) for (label, colour), width in parts.items() if width.any()]


def _shares(rows: Sequence[Any]) -> dict[tuple[str, str], Any]:
    """Thread-seconds by label and colour, which add up to ``thread_s`` of each row."""
    columns = ("thread_s", "busy_s", "cpu_s", "noncpu_s", "wasted_s", "idle_s")
    known = {c: np.maximum(np.nan_to_num([getattr(r, c) for r in rows]), 0) for c in columns}
    thread = known["thread_s"]
    busy = np.minimum(known["busy_s"], thread)
    cpu = np.minimum(known["cpu_s"], busy)
    noncpu = np.minimum(known["noncpu_s"], busy - cpu)
    wasted = np.minimum(known["wasted_s"], busy - cpu - noncpu)
    idle = np.minimum(known["idle_s"], thread - busy)
    return {
        ("on CPU", SIDES["processor"]): cpu,
        ("not on CPU", "#8fb3d1"): noncpu,
        ("wasted", LOST): wasted,
        ("other runs, or not metered", FAINT): busy - cpu - noncpu - wasted,
        ("runtime around tasks", SIDES["overhead"]): thread - busy - idle,
        ("idle", SIDES["idle"]): idle,
    }


def _per_worker(run: RunFile, ax: Axes, name: str, label: str, why_empty: str) -> Any:
    """Lines for a few workers, rows of colour for many."""
    edges, grid = sampled_grid(run, name)
    if not np.isfinite(grid).any():
        raise NothingToDrawError(why_empty)
    names = run.names("worker")
    if len(grid) > _LINES_MAX:
        image = _image(ax, edges, grid, cmap="cividis", vmin=0, vmax=np.nanmax(grid))
        ax.figure.colorbar(image, ax=ax, label=label, pad=0.01)
        _name_rows(run, ax, len(grid))
        ax.grid(visible=False)
        return []
    for values, colour in zip(grid, DATASETS, strict=False):
        good = np.isfinite(values)
        ax.plot(edges[:-1][good], values[good], color=colour, linewidth=1.3)
    ax.set_ylabel(label)
    ax.set_ylim(0)
    return [
        Line2D([], [], color=colour, label=short(worker))
        for worker, colour in zip(names, DATASETS, strict=False)
    ]


def _image(ax: Axes, edges: Any, grid: Any, **style: Any) -> Any:
    extent = (edges[0], edges[-1], len(grid), 0)
    return ax.imshow(_fewer(grid), aspect="auto", interpolation="nearest", extent=extent, **style)


def _fewer(grid: Any) -> Any:
    """Means of neighbouring workers, and of neighbouring steps, where there are more than can be seen."""
    for axis, most in enumerate(_PIXELS):
        each = -(-grid.shape[axis] // most)
        if each > 1:
            starts = np.arange(0, grid.shape[axis], each)
            known = np.add.reduceat(np.isfinite(grid), starts, axis=axis, dtype=float)
            total = np.add.reduceat(np.nan_to_num(grid), starts, axis=axis)
            grid = np.where(known > 0, total / np.maximum(known, 1), np.nan)
    return grid


def _name_rows(run: RunFile, ax: Axes, n: int) -> None:
    names = run.names("worker")
    if n <= _LABELS_MAX and len(names) >= n:
        ax.set_yticks(np.arange(n) + 0.5, [short(name) for name in names[:n]], fontsize="small")
    else:
        each = -(-n // _PIXELS[0])
        ax.set_ylabel(f"{n:,} workers" + (f", means of {each}" if each > 1 else ""))
    ax.set_ylim(n, 0)
