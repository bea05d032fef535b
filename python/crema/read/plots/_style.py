"""The style of all plots, and their registry: a name, the question it answers, the function that draws it.

One colour means one side of the time budget in every plot; red always means lost. The colours can be distinguished
by the colour-blind, and by their lightness in print.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .. import _attempts
from .._numbers import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..reader import RunFile

# Side of the time budget -> colour.
SIDES = {
    "processor": "#2b6ca3",
    "runtime": "#4a2383",
    "preprocess": "#2a9d8f",
    "merge": "#8ab17d",
    "overhead": "#e9a23b",
    "unattributed": "#dcc878",
    "transfer": "#8d6e63",
    "wasted": "#c1272d",
    "foreign": "#5c6773",
    "idle": "#c8ccd2",
    "absent": "#eceef1",
    "residual": "#4a4a4a",
}
# State of a thread -> colour: computing blue, waiting to compute warm, waiting for others green and brown.
STATES = {
    "cpu": "#2b6ca3",
    "native": "#8fb3d1",
    "core": "#e9a23b",
    "gil": "#4a2383",
    "input": "#2a9d8f",
    "service": "#8ab17d",
    "file": "#8d6e63",
    "child": "#5c6773",
    "lock": "#e678a0",
    "sleep": "#c8ccd2",
    "page_fault": "#dcc878",
    "unknown": "#4a4a4a",
}
LOST = "#c1272d"
DATASETS = ("#2b6ca3", "#e9a23b", "#2a9d8f", "#4a2383", "#8d6e63", "#8ab17d", "#5c6773", "#e678a0")
INK, FAINT, GRID = "#222222", "#6b7280", "#e5e7eb"
NARROW = 5.0  # inches of axes: less have no room for a line beside their title, or long names
ROWS_MAX = 24  # bars and lines that can still be distinguished

LEGEND: dict[str, Any] = {
    "loc": "lower left",
    "bbox_to_anchor": (-0.01, 1.0),
    "ncols": 5,
    "frameon": False,
    "fontsize": "small",
    "handlelength": 1.3,
    "columnspacing": 1.4,
    "borderaxespad": 0.2,
}
_LEGEND_ROW = 15  # points


class NothingToDrawError(Exception):
    """Why there is nothing to draw, as a sentence, which is shown in the plot."""


@dataclasses.dataclass(frozen=True)
class Plot:
    """An entry of the registry."""

    name: str
    question: str
    group: str  # heading in the report
    draw: Callable[..., Axes]  # (run, ax=None); (series, ax=None) of those across runs
    height: float  # inches, of a figure 9 inches wide
    also: tuple[str, ...]  # other names of it
    across: bool  # drawn from a series of runs


REGISTRY: dict[str, Plot] = {}  # by name, other names too


def plot(
    question: str,
    *,
    group: str,
    height: float = 3.2,
    also: tuple[str, ...] = (),
    grid: str = "y",
    time_axis: bool = False,
    across: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., Axes]]:
    """Register a plot function, and add what all plots share.

    The function draws into the axes that it gets. Title, labels of time, marks of what was lost and style come from here;
    where the function raises `NothingToDrawError`, its sentence is the picture.

    Parameters
    ----------
    question : str
        Title.
    group : str
        Heading under which a report has it.
    height : float, optional
        Of a figure of its own, in inches.
    also : tuple of str, optional
        Other names.
    grid : str, optional
        Axis with lines: ``x``, ``y``, ``both`` or empty.
    time_axis : bool, optional
        x is seconds since the run began: gaps are shaded. Elsewhere a line below says that records are missing.
    across : bool, optional
        What is drawn is a series of runs.
    """

    def enter(body: Callable[..., None]) -> Callable[..., Axes]:
        @functools.wraps(body)
        def draw(run: Any, ax: Axes | None = None, **options: Any) -> Axes:
            if not across:
                run = run.as_shown()
            ax = ax or _axes(height=height)
            try:
                entries = list(body(run, ax, **options) or ())
            except NothingToDrawError as reason:
                return _empty(ax, question, str(reason))
            if time_axis:
                window_ns = window(run)
                entries += mark_losses(run, ax, window_ns)
                ax.set_xlim(0, (window_ns[1] - window_ns[0]) * 1e-9 or 1.0)
                ax.set_xlabel("time since the run began [s]")
            elif not across:
                say_losses(run, ax)
            _title(ax, ax.get_title(loc="left") or question, entries)
            return tidy(ax, grid=grid)

        draw.__signature__ = inspect.signature(lambda run, ax=None: None)  # type: ignore[attr-defined]
        entry = Plot(body.__name__, question, group, draw, height, also, across)
        for name in (entry.name, *also):
            assert name not in REGISTRY, name
            REGISTRY[name] = entry
        return draw

    return enter


# ---------------------------------------------------------------- what a run has


def window(run: RunFile) -> tuple[int, int]:
    """Start and end of the run, ns; of a live file the end is the newest record."""
    start = int(run.file.attrs.get("t_run_start_ns", 0))
    end = int(run.file.attrs.get("t_run_end_ns", 0))
    if end <= start:
        last = [
            int(run.arrays(name, [c])[c].max(initial=0))
            for name, c in (("chunks", "t_end_ns"), ("worker_samples", "t_ns"))
        ]
        end = max([start + 1, *last])
    return start, end


def since(t_ns: Any, window_ns: tuple[int, int]) -> Any:
    """Seconds into the run, within it."""
    return (np.clip(t_ns, *window_ns) - window_ns[0]) * 1e-9


def grid_of(run: RunFile, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Edges of the steps in seconds since the run began, and values; a step more at the end to draw up to it.

    Raises
    ------
    KeyError
        If the file has no grid.
    """
    if f"grid/{name}" not in run.file:
        raise KeyError(f"{run.path} has no grid: it is not sealed yet")
    start, end = window(run)
    values = run.file[f"grid/{name}"][:]
    edges = np.append((run.file["grid/time"][:] - start) * 1e-9, (end - start) * 1e-9)
    return edges, values


def sampled_grid(run: RunFile, name: str) -> tuple[np.ndarray, np.ndarray]:
    """As `grid_of`, of what is sampled: a sample holds until the next one, for at most three intervals of sampling."""
    edges, values = grid_of(run, name)
    interval_s = float(run.file.attrs.get("sample_interval_s", np.nan))
    step_s = edges[1] - edges[0] if len(edges) > 1 else 1.0
    most = int(3 * (interval_s if interval_s > 0 else 1.0) / max(step_s, 1e-9))
    at = np.where(np.isfinite(values), np.arange(values.shape[1]), -1)
    at = np.maximum.accumulate(at, axis=1) if values.size else at
    held = np.take_along_axis(values, np.maximum(at, 0), axis=1) if values.size else values
    return edges, np.where((at >= 0) & (np.arange(values.shape[1]) - at <= most), held, np.nan)


def need_sealed(run: RunFile) -> None:
    """Raise KeyError if the file has no summaries."""
    if "summary/workflow" not in run.file:
        raise KeyError(f"{run.path} has no summaries: it is not sealed yet")


def counted(run: RunFile, *columns: str) -> dict[str, np.ndarray]:
    """Columns of the attempts whose output is in the result.

    Raises
    ------
    NothingToDrawError
        If there is none.
    """
    rows = _attempts.counted(run, *columns)
    if not len(rows[columns[0]]):
        raise NothingToDrawError(
            "no chunk was processed to its end: /chunks has no counted attempt"
        )
    return rows


# ---------------------------------------------------------------- marks


def mark_losses(run: RunFile, ax: Axes, window_ns: tuple[int, int]) -> list[Any]:
    """Mark missing records and lost workers in red; returns the entries for the legend."""
    entries: list[Any] = []
    gaps = run.rows("gaps")
    for gap in gaps:
        start = since(gap.t_from_ns or window_ns[0], window_ns)
        end = since(gap.t_to_ns or window_ns[1], window_ns)
        ax.axvspan(start, end, facecolor=LOST, alpha=0.25, edgecolor=LOST, hatch="///", zorder=3)
    if gaps:
        n = sum(max(0, gap.n_lost) for gap in gaps)
        entries.append(
            Patch(facecolor=LOST, alpha=0.3, hatch="///", label=f"gap: {n:,} records lost")
        )
    lost = [row for row in run.rows("membership") if row.event == "lost"]
    for row in lost[:200]:
        ax.axvline(since(row.t_ns, window_ns), color=LOST, linestyle=(0, (4, 2)), linewidth=1.4)
    if lost:
        label = f"worker lost ({len(lost)})"
        entries.append(Line2D([], [], color=LOST, linestyle=(0, (4, 2)), label=label))
    return entries


def say_losses(run: RunFile, ax: Axes) -> None:
    """Add a red line above a plot without a time axis if records are missing."""
    if run.live or run.verdict == "COMPLETE":
        return
    lost = int(run.file.attrs.get("loss_total", 0))
    what = f"{lost:,} records are missing" if lost > 0 else "something is missing"
    above = (
        "\n" if ax.get_window_extent().width / ax.figure.dpi < NARROW else ""
    )  # no room beside the title
    ax.set_title(
        f"PARTIAL: {what}{above}", loc="right", fontsize="small", color=LOST, linespacing=2
    )


# ---------------------------------------------------------------- style


def _axes(*, height: float) -> Axes:
    _, ax = plt.subplots(figsize=(9.0, height), layout="constrained")
    return ax


def _title(ax: Axes, title: str, entries: list[Any]) -> None:
    rows = 0
    if entries:
        columns = 5 if sum(len(e.get_label()) for e in entries) / len(entries) < 22 else 2
        entries = entries[: 4 * columns]
        ax.legend(handles=entries, **(LEGEND | {"ncols": columns}))
        rows = -(-len(entries) // columns)
    ax.set_title(title, loc="left", color=INK, pad=8 + _LEGEND_ROW * rows + (3 if rows else 0))


def _empty(ax: Axes, question: str, reason: str) -> Axes:
    ax.set_axis_off()
    ax.crema_empty = reason  # type: ignore[attr-defined]  # a page has the sentence in place of the picture
    ax.text(0.0, 0.5, reason, transform=ax.transAxes, va="center", color=FAINT, wrap=True)
    ax.set_title(question, loc="left", color=INK)
    return ax


def tidy(ax: Axes, *, grid: str) -> Axes:
    """Quiet spines and lines."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.tick_params(colors=FAINT, labelcolor=INK, length=3)
    if grid:
        ax.grid(axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
    ax.set_axisbelow(True)
    return ax


def on_colour(colour: Any) -> str:
    """Colour of text on an area; a page does not change it with its own colours."""
    red, green, blue, _ = to_rgba(colour)
    return "#101418" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#ffffff"


def stacked(ax: Axes, names: list[str], parts: list[list[float]], colours: Any) -> None:
    """Horizontal bars, each of the parts in order, and its sum as a number."""
    left = np.zeros(len(names))
    for values, colour in zip(parts, colours, strict=False):
        widths = np.nan_to_num(np.array(values, dtype=float))
        ax.barh(range(len(names)), widths, left=left, height=0.62, color=colour)
        left = left + widths
    for y, end in enumerate(left):
        text = "  below 0.001" if 0 < end < 0.001 else f"  {readable(end)}"
        ax.text(end, y, text, va="center", fontsize="small", color=FAINT)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.12 * max([*left, 1e-12]))


def swatch(colour: str, label: str) -> Patch:
    """An entry of a legend."""
    return Patch(color=colour, label=label)


def short(name: str, length: int = 36) -> str:
    """A name cut in its middle, so that both ends can be read; no mathematics is read out of it."""
    name = str(name)
    if len(name) > length:
        name = name[: length // 2 - 1] + "…" + name[-(length // 2) :]
    return name.replace("$", r"\$")
