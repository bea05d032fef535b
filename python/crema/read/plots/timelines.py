"""What happened when: threads, tasks, rates, CPU and memory over the run, and when records are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from .._numbers import readable
from ._style import (
    INK,
    LOST,
    SIDES,
    NothingToDrawError,
    grid_of,
    plot,
    sampled_grid,
    since,
    swatch,
    window,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..reader import RunFile


@plot("Were the workers fed?", group="Timelines", time_axis=True)
def timeline(run: RunFile, ax: Axes) -> Any:
    """Number of threads present and busy, and when something was lost.

    Parameters
    ----------
    run : RunFile
        Sealed; a live file has no grid.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        x: seconds since the run began. y: threads; line: there, filled: running a task, grey: idle. Red: gaps in the
        records, and workers that were lost.

    Raises
    ------
    KeyError
        If the file has no grid.

    Notes
    -----
    Source: ``worker_count``, ``grid/busy_threads_total``, ``gaps``, ``membership``. The window is
    ``t_run_start_ns`` to ``t_run_end_ns``.
    """
    edges_s, busy = grid_of(run, "busy_threads_total")
    window_ns = window(run)
    t_s, threads = _count_of(run, "n_threads", window_ns)
    ax.fill_between(t_s, threads, step="post", color=SIDES["idle"], linewidth=0)
    ax.fill_between(
        edges_s, np.append(busy, busy[-1:]), step="post", color=SIDES["processor"], linewidth=0
    )
    ax.step(t_s, threads, where="post", color=INK, linewidth=1.6)
    ax.set_ylim(0, 1.08 * max(1, threads.max()))
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel("threads")
    return [
        Line2D([], [], color=INK, label="threads"),
        swatch(SIDES["processor"], "busy"),
        swatch(SIDES["idle"], "idle"),
    ]


@plot(
    "How many workers were there, and when?",
    group="Timelines",
    height=2.4,
    time_axis=True,
    also=("worker_count_timeline",),
)
def worker_count(run: RunFile, ax: Axes) -> Any:
    """Workers and threads: change points, not samples. Source: ``worker_count``."""
    window_ns = window(run)
    t_s, workers = _count_of(run, "n_workers", window_ns)
    _, threads = _count_of(run, "n_threads", window_ns)
    ax.step(t_s, workers, where="post", color=SIDES["processor"], linewidth=1.8)
    ax.step(t_s, threads, where="post", color=SIDES["overhead"], linewidth=1.4, linestyle="--")
    ax.set_ylim(0, 1.12 * max(1, workers.max(), threads.max()))
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel("count")
    return [
        Line2D([], [], color=SIDES["processor"], label="workers"),
        Line2D([], [], color=SIDES["overhead"], linestyle="--", label="threads"),
    ]


@plot(
    "How fast do events come?",
    group="Timelines",
    height=2.8,
    time_axis=True,
    also=("throughput_timeline",),
)
def throughput(run: RunFile, ax: Axes) -> Any:
    """Events a second over the run; dashed: the mean of all of it. Source: ``grid/event_rate_total``."""
    edges, rate = grid_of(run, "event_rate_total")
    _steps(ax, edges, rate * 1e-3, SIDES["processor"], fill=True)
    mean = run.summary().get("event_rate_wall_clock", np.nan)
    entries = [swatch(SIDES["processor"], "events")]
    if np.isfinite(mean):
        ax.axhline(mean, color=INK, linestyle=(0, (4, 2)), linewidth=1.2)
        label = f"mean {readable(mean)} kHz"
        entries.append(Line2D([], [], color=INK, linestyle=(0, (4, 2)), label=label))
    ax.set_ylim(0)
    ax.set_ylabel("events [kHz]")
    return entries


@plot("Is the source the limit?", group="Timelines", height=2.8, time_axis=True)
def data_rate(run: RunFile, ax: Axes) -> Any:
    """Compressed bytes per second that chunks asked for, and busy threads: a rate that stays while threads grow is the source's.

    Source: ``grid/data_rate_total``, ``grid/busy_threads_total``.
    """
    edges, rate = grid_of(run, "data_rate_total")
    if not np.nansum(rate) > 0:
        raise NothingToDrawError("no chunk recorded what it read: /chunks.bytes_read_b")
    _steps(ax, edges, rate * 1e-6, SIDES["transfer"], fill=True)
    ax.set_ylabel("data [MB/s]")
    ax.set_ylim(0)
    other = ax.twinx()
    _steps(other, edges, grid_of(run, "busy_threads_total")[1], INK)
    other.set_ylabel("busy threads")
    other.set_ylim(0)
    other.spines[["top"]].set_visible(False)
    return [
        swatch(SIDES["transfer"], "bytes requested"),
        Line2D([], [], color=INK, label="busy threads (right)"),
    ]


@plot(
    "How many tasks run at once?",
    group="Timelines",
    height=2.6,
    time_axis=True,
    also=("executing_tasks_timeline",),
)
def executing_tasks(run: RunFile, ax: Axes) -> Any:
    """Tasks that run, as sampled on the workers, and as their intervals say. Source: ``grid/executing``, ``busy_threads_total``."""
    edges, executing = sampled_grid(run, "executing")
    _, busy = grid_of(run, "busy_threads_total")
    _steps(ax, edges, busy, SIDES["processor"], fill=True)
    _steps(ax, edges, _total(executing), INK)
    ax.set_ylabel("tasks")
    ax.set_ylim(0)
    return [
        swatch(SIDES["processor"], "from the tasks' intervals"),
        Line2D([], [], color=INK, label="sampled on the workers"),
    ]


@plot(
    "How long is the queue?",
    group="Timelines",
    height=2.6,
    time_axis=True,
    also=("total_active_tasks_timeline",),
)
def total_active_tasks(run: RunFile, ax: Axes) -> Any:
    """Tasks that the scheduler assigned to workers, queued ones too. Source: ``worker_samples.processing``, of the scheduler."""
    t_s, total = _sampled(run, "processing", unknown=0xFFFF)
    _steps(ax, t_s, total, SIDES["processor"], fill=True)
    ax.set_ylabel("assigned tasks")
    ax.set_ylim(0)


@plot(
    "How much work does Dask think is assigned?",
    group="Timelines",
    height=2.6,
    time_axis=True,
    also=("occupancy_timeline",),
)
def occupancy(run: RunFile, ax: Axes) -> Any:
    """The scheduler's estimate of the work that was assigned: seconds of tasks, not CPU. Source: ``worker_samples.occupancy_s``."""
    t_s, total = _sampled(run, "occupancy_s")
    _steps(ax, t_s, total, SIDES["overhead"], fill=True)
    ax.set_ylabel("estimated work [s]")
    ax.set_ylim(0)


@plot(
    "Do the processes use their cores?",
    group="Timelines",
    height=2.6,
    time_axis=True,
    also=("cpu_utilization_mean", "cpu_utilization_mean_timeline"),
)
def cpu_mean(run: RunFile, ax: Axes) -> Any:
    """CPU of the worker processes, mean over workers; 100 % is one core. Source: ``grid/cpu_pct``."""
    edges, cpu = sampled_grid(run, "cpu_pct")
    _band(ax, edges, cpu, SIDES["processor"], "the CPU of the workers was not sampled")
    ax.set_ylabel("CPU [% of a core]")
    ax.set_ylim(0)
    return [swatch(SIDES["processor"], "mean over workers; shaded: minimum to maximum")]


@plot(
    "Is memory running out?",
    group="Timelines",
    height=2.6,
    time_axis=True,
    also=("memory_utilization_mean", "memory_utilization_mean_timeline"),
)
def memory_mean(run: RunFile, ax: Axes) -> Any:
    """Resident memory of the workers, of their limits, mean over workers. Source: ``grid/memory_pct``."""
    edges, memory = sampled_grid(run, "memory_pct")
    why = "no share of memory is known: the workers have no limit, or were not sampled"
    _band(ax, edges, memory, SIDES["preprocess"], why)
    ax.axhline(80, color=LOST, linestyle=(0, (4, 2)), linewidth=1)
    ax.set_ylabel("memory [% of limit]")
    ax.set_ylim(0, max(100, 1.05 * np.nanmax(memory)))
    return [
        swatch(SIDES["preprocess"], "mean over workers; shaded: minimum to maximum"),
        Line2D([], [], color=LOST, linestyle=(0, (4, 2)), label="80 %: Dask pauses the worker"),
    ]


@plot("Is a worker close to its memory limit?", group="Timelines", height=2.8, time_axis=True)
def memory(run: RunFile, ax: Axes) -> Any:
    """Memory of all workers: resident, held by Dask, on disk, and the limit. Source: ``worker_samples``."""
    entries = []
    for column, colour, label in (
        ("memory_limit_b", FAINT_LIMIT, "limit"),
        ("rss_b", SIDES["processor"], "resident"),
        ("managed_b", SIDES["preprocess"], "held by Dask"),
        ("spilled_b", LOST, "spilled to disk"),
    ):
        try:
            t_s, total = _sampled(run, column, unknown=-1)
        except NothingToDrawError:
            continue
        _steps(ax, t_s, total * 1e-9, colour)
        entries.append(Line2D([], [], color=colour, label=label))
    if not entries:
        raise NothingToDrawError("the memory of the workers was not sampled")
    ax.set_ylim(0)
    ax.set_ylabel("memory, all workers [GB]")
    return entries


FAINT_LIMIT = "#6b7280"


@plot("Can this run be trusted?", group="Trust", height=2.8, time_axis=True, grid="x")
def completeness(run: RunFile, ax: Axes) -> Any:
    """Each stream from its first record to its last; red where records are missing. Source: ``dict/stream``, ``gaps``, ``clock``."""
    window_ns = window(run)
    streams = run.rows("dict/stream")
    if not streams:
        raise NothingToDrawError("no stream recorded anything")
    shown = streams[:40]
    for y, row in enumerate(shown):
        start, end = (
            since(row.t_first_ns or window_ns[0], window_ns),
            since(row.t_last_ns or window_ns[1], window_ns),
        )
        colour = SIDES["processor"] if row.closed else SIDES["overhead"]
        ax.barh(y, max(end - start, 1e-9), left=start, height=0.6, color=colour)
    for gap in run.rows("gaps"):
        if gap.stream_id < len(shown):
            start = since(gap.t_from_ns or window_ns[0], window_ns)
            end = since(gap.t_to_ns or window_ns[1], window_ns)
            ax.barh(gap.stream_id, max(end - start, 1e-9), left=start, height=0.9, color=LOST)
    ax.set_yticks(range(len(shown)), [f"{row.kind} {row.pid}" for row in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    bound = run.arrays("clock", ["uncertainty_ns"])["uncertainty_ns"]
    clock = f"; clocks within {readable(1e-6 * bound.max())} ms" if len(bound) else ""
    rest = f"; {len(streams) - len(shown):,} more streams in the file" if len(streams) > 40 else ""
    ax.set_title(f"Can this run be trusted? {run.verdict}{clock}{rest}", loc="left")
    return [
        swatch(SIDES["processor"], "last record is known"),
        swatch(SIDES["overhead"], "not closed"),
        swatch(LOST, "records missing"),
    ]


# ---------------------------------------------------------------- steps


def _count_of(run: RunFile, column: str, window_ns: tuple[int, int]) -> tuple[Any, Any]:
    rows = run.arrays("worker_count", ["t_ns", column]) if "worker_count" in run else {}
    times = rows.get("t_ns", np.empty(0))
    end_s = (window_ns[1] - window_ns[0]) * 1e-9
    if not len(times):
        return np.array([0.0, end_s]), np.array([0, 0])
    values = rows[column]
    return np.append(since(times, window_ns), end_s), np.append(values, values[-1])


def _steps(ax: Axes, edges: Any, values: Any, colour: str, *, fill: bool = False) -> None:
    """A step function: one value from each edge to the next."""
    values = np.append(values, values[-1:])[: len(edges)]
    if fill:
        ax.fill_between(edges, values, step="post", color=colour, alpha=0.85, linewidth=0)
    else:
        ax.step(edges, values, where="post", color=colour, linewidth=1.4)


def _band(ax: Axes, edges: Any, grid: Any, colour: str, why_empty: str) -> None:
    """Mean over workers, and the range of them."""
    if not np.isfinite(grid).any():
        raise NothingToDrawError(why_empty)
    with np.errstate(invalid="ignore"):
        count = np.isfinite(grid).sum(axis=0)
        mean = np.where(count, np.nansum(grid, axis=0) / np.maximum(count, 1), np.nan)
    least = np.where(count, np.min(np.where(np.isfinite(grid), grid, np.inf), axis=0), np.nan)
    most = np.where(count, np.max(np.where(np.isfinite(grid), grid, -np.inf), axis=0), np.nan)
    if len(grid) > 1:
        pad = (np.append(v, v[-1:]) for v in (least, most))
        ax.fill_between(edges, *pad, step="post", color=colour, alpha=0.25, linewidth=0)
    _steps(ax, edges, mean, colour)


def _total(grid: Any) -> Any:
    return np.where(np.isfinite(grid).any(axis=0), np.nansum(grid, axis=0), np.nan)


def _sampled(run: RunFile, column: str, *, unknown: float = np.nan) -> tuple[Any, Any]:
    """Edges and the sum over workers of each one's newest sample, in at most 1000 even steps.

    Of each worker the samples of one observer: itself, else its agent, else the scheduler.
    """
    rows = run.arrays("worker_samples", ["t_ns", "worker_id", "source", column])
    value = rows[column].astype(float)
    good = np.isfinite(value) & (value != unknown)
    labels = run.labels("worker_samples", "source")
    rank = np.select([rows["source"] == labels[name] for name in ("worker", "agent")], [2, 1])
    best = np.zeros(int(rows["worker_id"].max(initial=0)) + 1, dtype=int)
    np.maximum.at(best, rows["worker_id"][good], rank[good])
    good &= rank == best[rows["worker_id"]]
    if not good.any():
        raise NothingToDrawError(f"the workers were not sampled: /worker_samples.{column}")
    window_ns = window(run)
    edges = np.linspace(0, (window_ns[1] - window_ns[0]) * 1e-9, min(1000, max(2, good.sum())) + 1)
    t_s, worker, value = since(rows["t_ns"][good], window_ns), rows["worker_id"][good], value[good]
    order = np.lexsort((t_s, worker))
    t_s, worker, value = t_s[order], worker[order], value[order]
    total = np.zeros(len(edges) - 1)
    seen = np.zeros(len(edges) - 1, dtype=bool)
    starts = np.flatnonzero(np.append(True, worker[1:] != worker[:-1]))
    for begin, end in zip(starts, np.append(starts[1:], len(worker)), strict=True):
        at = np.searchsorted(t_s[begin:end], edges[1:], side="right") - 1
        inside = (at >= 0) & (edges[:-1] <= t_s[end - 1])
        total[inside] += value[begin:end][at[inside]]
        seen |= inside
    return edges, np.where(seen, total, np.nan)
