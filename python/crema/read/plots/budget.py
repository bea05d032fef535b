"""Where the thread-seconds went: the budget of the run, by category, task prefix and activity."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from .._notes import STEPPED
from .._numbers import readable
from ._style import (
    DATASETS,
    FAINT,
    INK,
    LOST,
    NARROW,
    ROWS_MAX,
    SIDES,
    NothingToDrawError,
    need_sealed,
    on_colour,
    plot,
    short,
    stacked,
    swatch,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..reader import RunFile

# Category of the waterfall -> colour, where its side has more than one; others have that of their first word.
_SHADES = {
    "processor_cpu": "#2b6ca3",
    "processor_noncpu": "#8fb3d1",
    "user_metered": "#bcd2e4",
}
_NONCPU = "#8fb3d1"
_LABEL = 1.5  # inches of a bar's label
_SMALL = 0.001  # of the capacity: such a category is named below the picture, not drawn


@plot("Where did the thread-seconds go?", group="Budget", height=5.0, grid="x")
def waterfall(run: RunFile, ax: Axes) -> None:
    """Where the thread-seconds of the run went: from the capacity to what remains unexplained.

    Parameters
    ----------
    run : RunFile
        Sealed; a live file has no summaries.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; by default those of a new figure.

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
    if STEPPED in run.attributes:
        raise NothingToDrawError(
            "the wall clock was set during this run: times before and after it do not add up"
        )
    if not math.isfinite(capacity_s):
        raise NothingToDrawError("not all thread-seconds of this run are known")
    large = [row for row in rows if _is_large(row)]
    small = [row.category for row in rows if not _is_large(row)]
    wide = ax.get_window_extent().width / ax.figure.dpi  # inches
    room = max(0.25, _LABEL / wide)
    start = 0.0
    for y, row in enumerate(large):
        width = row.thread_seconds
        ax.barh(y, width, left=start, height=0.72, **_bar_style(row.category))
        label = f"  {width:z,.2f} s · {100 * row.fraction:z.1f} %  "
        end = start + max(width, 0)
        if end < (1 - room) * capacity_s:
            place = {"x": end, "ha": "left", "color": FAINT}
        elif start > room * capacity_s:
            place = {"x": start, "ha": "right", "color": FAINT}
        else:  # room is in the bar only
            place = {"x": end, "ha": "right", "color": on_colour(ax.patches[-1].get_facecolor())}
        ax.text(y=y, s=label, va="center", fontsize="small", **place)
        start += width
        ax.plot([start, start], [y + 0.36, y + 0.64], color=FAINT, linewidth=0.7)
    names = [_words(row.category) for row in large]
    if wide < NARROW:
        names = [textwrap.fill(name, 16) for name in names]
    ax.set_yticks(range(len(large)), names, fontsize="small" if wide < NARROW else None)
    ax.set_ylim(len(large) - 0.4, -0.6)
    ax.set_xlim(0, capacity_s or 1.0)
    note = f"each below {100 * _SMALL:.1f} %: {', '.join(map(_words, small))}" if small else ""
    ax.set_xlabel("thread-seconds [s]\n" + textwrap.fill(note, int(13 * wide)))
    ax.set_title(f"Where did {readable(capacity_s, 4)} thread-seconds go?", loc="left")


@plot("What would the next fix gain?", group="Budget", height=3.4, grid="x")
def savings(run: RunFile, ax: Axes) -> Any:
    """How much shorter the run would be without each cause; savings do not add up.

    Source: ``summary/bottlenecks``: ``saving_s``, whiskers from ``lo`` to ``hi`` where the data give bounds.
    """
    need_sealed(run)
    rows = [r for r in run.rows("summary/bottlenecks") if _finite(getattr(r, "saving_s", math.nan))]
    rows = [r for r in rows if r.saving_s > 0 and r.name != "compute"]  # that is the work itself
    rows = sorted(rows, key=lambda r: -r.saving_s)[:8]
    if not rows:
        raise NothingToDrawError("the file does not have what a removal saves")
    for y, row in enumerate(rows):
        doubt = row.status == "ambiguous"
        style = {"color": "none", "edgecolor": SIDES["processor"], "hatch": "///"}
        ax.barh(y, row.saving_s, height=0.62, **(style if doubt else {"color": SIDES["processor"]}))
        end = row.saving_s
        if _finite(row.lo) and _finite(row.hi):
            ax.plot([row.lo, row.hi], [y, y], color=INK, linewidth=1.4, marker="|")
            end = max(end, row.hi)
        ax.text(end, y, f"  {readable(row.saving_s)} s", va="center", fontsize="small", color=FAINT)
    ax.set_yticks(range(len(rows)), [_words(row.name) for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(0, 1.15 * max(max(r.saving_s, r.hi if _finite(r.hi) else 0) for r in rows))
    ax.set_xlabel("the run would be shorter by [s]")
    marks = [swatch(SIDES["processor"], "saving")]
    if any(row.status == "ambiguous" for row in rows):
        marks.append(swatch("none", "hatched: another cause explains the same seconds as well"))
        marks[-1].set(edgecolor=SIDES["processor"], hatch="///")
    return marks


@plot(
    "What does the framework cost?",
    group="Budget",
    height=2.8,
    grid="x",
)
def processor_and_overhead(run: RunFile, ax: Axes) -> Any:
    """Task seconds of each side: on CPU, not on CPU, Dask's own, failed. Source: ``summary/split``."""
    rows = [r for r in run.rows("summary/split") if r.in_budget and r.side != "idle"]
    rows = [r for r in rows if _sum(r.cpu_s, r.noncpu_s, r.runtime_s, r.failed_s) > 0]
    if not rows:
        raise NothingToDrawError("no task seconds were metered: /summary/split is empty")
    parts = ("cpu_s", "noncpu_s", "runtime_s", "failed_s")
    colours = (SIDES["processor"], _NONCPU, SIDES["runtime"], LOST)
    labels = ("on CPU", "not on CPU", "Dask's runtime", "failed")
    stacked(ax, [r.side for r in rows], [[getattr(r, p) for r in rows] for p in parts], colours)
    ax.set_xlabel("task seconds [s]")
    return [swatch(c, t) for c, t in zip(colours, labels, strict=True)]


@plot("Where do a task's seconds go?", group="Budget", height=3.4, grid="x")
def activities(run: RunFile, ax: Axes) -> Any:
    """Seconds of each activity of Dask and of the user, by task prefix. Source: ``summary/per_activity``."""
    rows = [
        r for r in run.rows("summary/per_activity") if r.unit in ("s", "seconds") and r.value > 0
    ]
    rows = [r for r in rows if r.context == "execute"]
    if not rows:
        raise NothingToDrawError("Dask metered no seconds in tasks: without Dask there are none")
    prefixes = sorted({r.task_prefix for r in rows}, key=lambda p: -_of(rows, "task_prefix", p))
    names = sorted({r.activity for r in rows}, key=lambda a: -_of(rows, "activity", a))
    prefixes, shown = prefixes[:ROWS_MAX], names[:7]
    known = {"thread-cpu": SIDES["processor"], "thread-noncpu": _NONCPU}
    others = iter(DATASETS[1:])
    palette = [known.get(a) or next(others) for a in shown] + ["#888888"]
    values = [[_of(rows, "task_prefix", p, a) for p in prefixes] for a in shown]
    if len(names) > len(shown):
        rest = [
            _of(rows, "task_prefix", p) - sum(v[i] for v in values) for i, p in enumerate(prefixes)
        ]
        values.append(rest)
        shown = [*shown, "other"]
    stacked(ax, [short(p) for p in prefixes], values, palette)
    ax.set_xlabel("seconds in tasks [s]")
    return [swatch(c, short(a)) for c, a in zip(palette, shown, strict=False)]


@plot("Is a task computing or waiting?", group="Budget", height=2.8, grid="x")
def per_task_cpu_io(run: RunFile, ax: Axes) -> Any:
    """CPU and other seconds of each task prefix. Source: ``summary/per_task_prefix``."""
    rows = _prefixes(run, lambda r: _sum(r.cpu_s, r.noncpu_s))
    colours = (SIDES["processor"], _NONCPU)
    values = [[r.cpu_s for r in rows], [r.noncpu_s for r in rows]]
    stacked(ax, [short(r.task_prefix) for r in rows], values, colours)
    ax.set_xlabel("task seconds [s]")
    return [swatch(colours[0], "on CPU"), swatch(colours[1], "not on CPU: input, waiting")]


@plot("Which tasks move bytes?", group="Budget", height=2.8, grid="x")
def per_task_bytes_read(run: RunFile, ax: Axes) -> Any:
    """Bytes that Dask metered for each task prefix, and input that chunks asked for.

    Source: ``summary/per_task_prefix``, ``summary/per_dataset``.
    """
    rows = [r for r in run.rows("summary/per_task_prefix") if r.bytes_b > 0]
    names = [short(r.task_prefix) for r in rows]
    values = [r.bytes_b * 1e-6 for r in rows]
    chunks = sum(max(0, r.bytes_b) for r in run.rows("summary/per_dataset"))
    if chunks:
        names, values = [*names, "input of the chunks"], [*values, chunks * 1e-6]
    if not names:
        raise NothingToDrawError("no bytes were metered")
    stacked(ax, names, [values], [SIDES["transfer"]])
    ax.set_xlabel("bytes [MB]")


@plot("What do tasks pay besides their work?", group="Budget", height=2.8, grid="x")
def per_task_overhead(run: RunFile, ax: Axes) -> Any:
    """Serialization, compression, spill and the executor, per task prefix. Source: ``summary/per_task_prefix``."""
    rows = _prefixes(run, lambda r: _sum(r.other_s))
    stacked(
        ax, [short(r.task_prefix) for r in rows], [[r.other_s for r in rows]], [SIDES["runtime"]]
    )
    ax.set_xlabel("executor, (de)serialization, (de)compression, spill [s]")


@plot("Which factor of the efficiency is poor?", group="Budget", height=2.8, grid="x")
def efficiency_summary(run: RunFile, ax: Axes) -> Any:
    """POP factors of the run and what its threads did; below 0.8 is poor. Source: ``summary/efficiency``."""
    need_sealed(run)
    rows = run.rows("summary/efficiency")
    if not rows:
        raise NothingToDrawError("/summary/efficiency is empty")
    metrics = run.summary()
    factors = {
        "parallel efficiency": rows[0].pe,
        "= load balance": rows[0].lb,
        "× scheduling": rows[0].sched_e,
        "allocation": rows[0].alloc_e,
        "threads busy with chunks": metrics.get("core_occupancy", math.nan),
        "threads on CPU": metrics.get("cpu_efficiency", math.nan),
    }
    factors = {name: value for name, value in factors.items() if _finite(value)}
    if not factors:
        raise NothingToDrawError("no factor of the efficiency is known")
    colours = [SIDES["processor"] if v >= 0.8 else SIDES["overhead"] for v in factors.values()]
    ax.barh(range(len(factors)), list(factors.values()), height=0.62, color=colours)
    for y, value in enumerate(factors.values()):
        ax.text(value, y, f"  {value:.3f}", va="center", fontsize="small", color=FAINT)
    ax.axvline(0.8, color=FAINT, linestyle=(0, (4, 2)), linewidth=1)
    ax.set_yticks(range(len(factors)), list(factors))
    ax.set_ylim(len(factors) - 0.4, -0.6)
    ax.set_xlim(0, 1.12 * max(1.0, *factors.values()))
    ax.set_xlabel("1 is ideal; below 0.8 is poor")


@plot("How much of the resources was used?", group="Budget", height=2.4, grid="x")
def resource_utilization(run: RunFile, ax: Axes) -> Any:
    """CPU, slots and memory, of what the workers had. Source: ``summary/workflow``."""
    need_sealed(run)
    metrics = run.summary()
    threads = metrics.get("cores_per_worker", math.nan)
    cpu = metrics.get("cpu_pct_avg", math.nan)
    shares = {
        "slots busy": metrics.get("slot_busy_pct", math.nan),
        "CPU of the threads": cpu / threads if threads > 0 else math.nan,
        "memory, average": metrics.get("memory_utilization_avg", math.nan),
        "memory, highest": metrics.get("memory_utilization_max", math.nan),
    }
    shares = {name: value for name, value in shares.items() if _finite(value)}
    if not shares:
        raise NothingToDrawError("the workers were not sampled")
    ax.barh(range(len(shares)), list(shares.values()), height=0.62, color=SIDES["processor"])
    for y, value in enumerate(shares.values()):
        ax.text(value, y, f"  {value:.1f} %", va="center", fontsize="small", color=FAINT)
    ax.set_yticks(range(len(shares)), list(shares))
    ax.set_ylim(len(shares) - 0.4, -0.6)
    ax.set_xlim(0, 1.15 * max(100.0, *shares.values()))
    ax.set_xlabel("of what the workers had [%]")


@plot("Which work was wasted?", group="Budget", height=2.6, grid="x")
def wasted_work(run: RunFile, ax: Axes) -> Any:
    """Thread-seconds of attempts that failed or were done twice, by reason. Source: ``summary/wasted``."""
    need_sealed(run)
    rows = [r for r in run.rows("summary/wasted") if r.wall_s > 0]
    if not rows:
        raise NothingToDrawError("nothing was wasted: every attempt counts")
    reasons = sorted({(r.reason, r.what) for r in rows})
    values = [sum(r.wall_s for r in rows if (r.reason, r.what) == key) for key in reasons]
    stacked(ax, [f"{what}s: {reason}" for reason, what in reasons], [values], [LOST])
    ax.set_xlabel("thread-seconds [s]")


@plot("Where in process() does the time go?", group="Budget", height=3.2, grid="x")
def sections(run: RunFile, ax: Axes) -> Any:
    """Seconds of the user's sections, nested ones counted once. Source: ``summary/per_section``."""
    need_sealed(run)
    rows = sorted(run.rows("summary/per_section"), key=lambda r: -r.self_s)[:ROWS_MAX]
    if not rows:
        raise NothingToDrawError("process() marks no sections: crema.track_time(name) marks one")
    stacked(ax, [short(r.section) for r in rows], [[r.self_s for r in rows]], [SIDES["processor"]])
    ax.set_xlabel("own seconds [s]")


def _prefixes(run: RunFile, weight: Any) -> list[Any]:
    rows = [r for r in run.rows("summary/per_task_prefix") if weight(r) > 0]
    if not rows:
        raise NothingToDrawError("Dask metered none of these seconds: without Dask there are none")
    return sorted(rows, key=lambda r: -weight(r))[:ROWS_MAX]


def _of(rows: list[Any], field: str, value: str, activity: str | None = None) -> float:
    """Seconds of the rows of a prefix or an activity."""
    of = (r for r in rows if getattr(r, field) == value and activity in (None, r.activity))
    return sum(r.value for r in of)


def _sum(*values: float) -> float:
    return sum(v for v in values if _finite(v))


def _finite(value: float) -> bool:
    return math.isfinite(value)


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
