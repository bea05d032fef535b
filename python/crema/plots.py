"""Pictures of a run. Every number is read from the run file; a function draws one question's answer and returns its axes.

One colour means one side of the time budget in every picture; red is only ever what was lost.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .reader import RunFile

# Side of the time budget -> colour.
SIDES = {
    "processor": "#2b6ca3",
    "runtime": "#7a5ea8",
    "preprocess": "#2a9d8f",
    "merge": "#8ab17d",
    "overhead": "#e9a23b",
    "unattributed": "#a3916f",
    "transfer": "#8d6e63",
    "wasted": "#c1272d",
    "idle": "#c8ccd2",
    "absent": "#eceef1",
    "residual": "#4a4a4a",
}
LOST = "#c1272d"
DATASETS = ("#2b6ca3", "#e9a23b", "#2a9d8f", "#7a5ea8", "#8d6e63", "#8ab17d", "#5c6773", "#b86f9c")
INK, FAINT = "#222222", "#6b7280"

# Category of the waterfall -> colour, where its side has more than one; others have that of their first word.
_SHADES = {
    "processor_cpu": "#2b6ca3",
    "processor_noncpu": "#8fb3d1",
    "user_metered": "#bcd2e4",
}
_SMALL = 0.001  # of the capacity: such a category is named below the picture, not drawn


def waterfall(run: RunFile, ax: Axes | None = None) -> Axes:
    """Where the thread-seconds of the run went: from what there was to what nobody can explain.

    Parameters
    ----------
    run : RunFile
        Sealed; a live file has no summaries.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's if not given.

    Returns
    -------
    matplotlib.axes.Axes
        x: thread-seconds, a bar for each category, from the end of the one before; they add up to peak threads x wall time.

    Raises
    ------
    KeyError
        If the file has no summaries.

    Notes
    -----
    Source: ``summary/waterfall``.
    """
    rows = sorted(run.rows("summary/waterfall"), key=lambda row: row.rank)
    capacity_s = sum(row.thread_seconds for row in rows)
    large = [row for row in rows if _is_large(row)]
    small = [row.category for row in rows if not _is_large(row)]
    ax = ax or _axes(height=1.2 + 0.36 * max(3, len(large)))
    start = 0.0
    for y, row in enumerate(large):
        width = row.thread_seconds
        ax.barh(y, width, left=start, height=0.72, **_bar_style(row.category))
        label = f"  {width:z,.2f} s · {100 * row.fraction:z.1f} %  "
        end = start + max(width, 0)
        if end < 0.75 * capacity_s:
            place = {"x": end, "ha": "left", "color": FAINT}
        elif start > 0.25 * capacity_s:
            place = {"x": start, "ha": "right", "color": FAINT}
        else:  # room is in the bar only
            place = {"x": end, "ha": "right", "color": INK}
        ax.text(y=y, s=label, va="center", fontsize="small", **place)
        start += width
        ax.plot([start, start], [y + 0.36, y + 0.64], color=FAINT, linewidth=0.7)
    ax.set_yticks(range(len(large)), [_words(row.category) for row in large])
    ax.set_ylim(len(large) - 0.4, -0.6)
    ax.set_xlim(0, capacity_s or 1.0)
    note = f"each below {100 * _SMALL:.1f} %: {', '.join(map(_words, small))}" if small else ""
    ax.set_xlabel("thread-seconds [s]\n" + textwrap.fill(note, 100))
    ax.set_title(f"Where did {capacity_s:,.4g} thread-seconds go?", loc="left")
    return _tidy(ax, grid="x")


def timeline(run: RunFile, ax: Axes | None = None) -> Axes:
    """How many threads there were, how many of them worked, and when something was lost.

    Parameters
    ----------
    run : RunFile
        Sealed; a live file has no grid.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's if not given.

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
    if "grid" not in run.file:
        raise KeyError(f"{run.path} has no grid: it is not sealed yet")
    window_ns = run.attributes["t_run_start_ns"], run.attributes["t_run_end_ns"]
    end_s = (window_ns[1] - window_ns[0]) * 1e-9
    ax = ax or _axes(height=3.2)

    counts = run.rows("worker_count")
    t_s = np.array([*(_since(row.t_ns, window_ns) for row in counts), end_s])
    threads = np.array([row.n_threads for row in counts] + [counts[-1].n_threads if counts else 0])
    ax.fill_between(t_s, threads, step="post", color=SIDES["idle"], linewidth=0)

    edges_s = (run.file["grid/time"][:] - window_ns[0]) * 1e-9
    busy = run.file["grid/busy_threads_total"][:]
    edges_s, busy = np.append(edges_s, end_s), np.append(busy, busy[-1:])
    ax.fill_between(edges_s, busy, step="post", color=SIDES["processor"], linewidth=0)
    ax.step(t_s, threads, where="post", color=INK, linewidth=1.6)

    entries = [
        Line2D([], [], color=INK, label="threads"),
        Patch(color=SIDES["processor"], label="busy"),
        Patch(color=SIDES["idle"], label="idle"),
        *_mark_losses(run, ax, window_ns),
    ]
    ax.legend(handles=entries, **_LEGEND)
    ax.set_xlim(0, end_s)
    ax.set_ylim(0, 1.08 * max(1, threads.max()))
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("time since the run began [s]")
    ax.set_ylabel("threads")
    ax.set_title("Were the workers fed?", loc="left", pad=_TITLE_PAD)
    return _tidy(ax, grid="y")


def chunk_wall(run: RunFile, ax: Axes | None = None) -> Axes:
    """Time of a chunk against its events: what a chunk costs anyhow, what an event costs, and which chunks are slow.

    Parameters
    ----------
    run : RunFile
        Sealed or live; the fit is in a sealed file only.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's if not given.

    Returns
    -------
    matplotlib.axes.Axes
        x: events. y: seconds in process(). One dot an attempt, coloured by dataset; a line a + b n where the file has one;
        circles: stragglers; crosses: attempts that failed.

    Notes
    -----
    Source: ``chunks``, ``summary/chunk_model``, ``summary/stragglers``. Attempts whose events or time nobody knows (their
    worker was lost) are counted in the legend.
    """
    ax = ax or _axes(height=4.0)
    chunks = run["chunks"]
    models = {m.dataset: m for m in run["summary/chunk_model"].itertuples()} if _sealed(run) else {}
    known = (chunks.n_events >= 0) & np.isfinite(chunks.wall_s)
    ok = known & (chunks.status == "ok")
    datasets = sorted(chunks.dataset.dropna().unique()) if len(chunks) else []
    n_max = max([0, *chunks.n_events[known]])
    entries = []
    for i, dataset in enumerate(datasets):
        colour = DATASETS[i % len(DATASETS)]
        of = chunks[ok & (chunks.dataset == dataset)]
        ax.scatter(of.n_events, of.wall_s, s=18, color=colour, alpha=0.65, linewidth=0)
        entries.append(Line2D([], [], color=colour, marker="o", linestyle="", label=dataset))
        model = models.get(dataset)
        if model and np.isfinite(model.b_s_per_event):
            n = np.array([0, n_max])
            ax.plot(n, model.a_s + model.b_s_per_event * n, color=colour, linewidth=1.2)
            entries[-1].set_label(
                f"{dataset}: {model.a_s:.2g} s + {1e6 * model.b_s_per_event:.3g} µs an event"
            )
    entries += _mark_attempts(run, ax, chunks, known)
    if entries:
        ax.legend(handles=entries[: 2 * len(DATASETS)], **(_LEGEND | {"ncols": 2}))
    ax.set_xlim(0, 1.05 * n_max or 1.0)
    ax.set_ylim(0, 1.08 * max([0, *chunks.wall_s[known]]) or 1.0)
    ax.set_xlabel("events in the chunk")
    ax.set_ylabel("process() [s]")
    rows = (len(entries[: 2 * len(DATASETS)]) + 1) // 2
    ax.set_title("What does a chunk cost?", loc="left", pad=_TITLE_PAD + 15 * max(0, rows - 1))
    ax.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
    return _tidy(ax, grid="both")


# ---------------------------------------------------------------- marks


def _mark_losses(run: RunFile, ax: Axes, window_ns: tuple[int, int]) -> list[Any]:
    """Red where records are missing and where workers were lost; what the legend says of them."""
    entries: list[Any] = []
    gaps = run.rows("gaps")
    for gap in gaps:
        start = _since(gap.t_from_ns or window_ns[0], window_ns)
        end = _since(gap.t_to_ns or window_ns[1], window_ns)
        ax.axvspan(start, end, facecolor=LOST, alpha=0.25, edgecolor=LOST, hatch="///", zorder=3)
    if gaps:
        n = sum(max(0, gap.n_lost) for gap in gaps)
        entries.append(
            Patch(facecolor=LOST, alpha=0.3, hatch="///", label=f"gap: {n:,} records lost")
        )
    lost = [row for row in run.rows("membership") if row.event == "lost"]
    for row in lost:
        ax.axvline(_since(row.t_ns, window_ns), color=LOST, linestyle=(0, (4, 2)), linewidth=1.4)
    if lost:
        label = f"worker lost ({len(lost)})"
        entries.append(Line2D([], [], color=LOST, linestyle=(0, (4, 2)), label=label))
    return entries


def _mark_attempts(run: RunFile, ax: Axes, chunks: Any, known: Any) -> list[Any]:
    """Stragglers, attempts that failed, attempts that cannot be drawn; what the legend says of them."""
    entries: list[Any] = []
    slow = [row.chunk_row for row in run.rows("summary/stragglers")] if _sealed(run) else []
    if slow:
        ax.scatter(
            chunks.n_events.iloc[slow],
            chunks.wall_s.iloc[slow],
            s=90,
            facecolors="none",
            edgecolors=INK,
            linewidth=1.0,
        )
        entries.append(
            Line2D([], [], color=INK, marker="o", markersize=9, fillstyle="none", linestyle="")
        )
        entries[-1].set_label(f"straggler ({len(slow)})")
    failed = chunks[known & (chunks.status != "ok")]
    if len(failed):
        ax.scatter(failed.n_events, failed.wall_s, s=36, marker="x", color=LOST, linewidth=1.4)
        label = f"failed or lost ({len(failed)})"
        entries.append(Line2D([], [], color=LOST, marker="x", linestyle="", label=label))
    if not known.all():
        label = f"not drawn, events unknown: {(~known).sum():,}"
        entries.append(Line2D([], [], linestyle="", label=label))
    return entries


# ---------------------------------------------------------------- style

_TITLE_PAD = 26  # points: the legend is between title and axes
_LEGEND: dict[str, Any] = {
    "loc": "lower left",
    "bbox_to_anchor": (-0.01, 1.0),
    "ncols": 5,
    "frameon": False,
    "fontsize": "small",
    "handlelength": 1.3,
    "columnspacing": 1.4,
    "borderaxespad": 0.2,
}


def _axes(*, height: float) -> Axes:
    _, ax = plt.subplots(figsize=(9.0, height), layout="constrained")
    return ax


def _tidy(ax: Axes, *, grid: str) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.tick_params(colors=FAINT, labelcolor=INK, length=3)
    ax.grid(axis=grid, color="#e5e7eb", linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def _bar_style(category: str) -> dict[str, Any]:
    side = category.partition("_")[0]
    style: dict[str, Any] = {"color": _SHADES.get(category) or SIDES.get(side, SIDES["residual"])}
    if side == "absent":
        style |= {"edgecolor": SIDES["idle"], "hatch": "//", "linewidth": 0}
    return style


def _is_large(row: Any) -> bool:
    return row.category == "residual" or abs(row.fraction) >= _SMALL


def _words(category: str) -> str:
    words = category.replace("_", " ")
    return words.replace(" noncpu", ", not on CPU").replace(" cpu", ", on CPU")


def _since(t_ns: int, window_ns: tuple[int, int]) -> float:
    """Seconds into the run, within it."""
    return (min(max(t_ns, window_ns[0]), window_ns[1]) - window_ns[0]) * 1e-9


def _sealed(run: RunFile) -> bool:
    return "summary/workflow" in run.file
