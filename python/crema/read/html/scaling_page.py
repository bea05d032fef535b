"""A series of runs as a page: how far the analysis scales, and what limits it there."""

from __future__ import annotations

import html
import os
import pathlib
from typing import TYPE_CHECKING

from .. import _output
from ..fits import SAME, FitError
from ..parts import BESIDE
from ..plots import REGISTRY
from ..report import percent, quantity
from ..scaling_report import laws, outlook
from . import figures
from .page import document, write_text
from .tables import Text, table

if TYPE_CHECKING:
    from ..series import Point, Series

_TITLES = {"strong": "How far does it scale?", "weak": "How far does it scale? (weak)"}
_FIRST = "scaling_throughput"
_ENDS = ("threads", "speedup", "efficiency", "wall_s")


def write_scaling(series: Series, path: str | os.PathLike) -> pathlib.Path:
    """Write the page; an existing file is replaced.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    page = _output.file(path)  # said before the figures are drawn
    title = _TITLES.get(series.kind, "Runs of different work")
    write_text(page, document(title, _body(series, title)))
    return page


def _body(series: Series, title: str) -> str:
    points = series.points
    threads = series.column("threads")
    partial = [p.file for p in points if p.verdict != "COMPLETE"]
    missing = "".join(
        f'<p class="missing">records are missing from {html.escape(name)}: its numbers may be too small</p>'
        for name in partial
    )
    missing += "".join(
        f'<p class="missing">{html.escape(warning)}</p>' for warning in series.warnings
    )
    try:
        ahead = outlook(series.parts)
    except (FitError, ImportError) as reason:
        ahead = [f"Nothing is predicted beyond the largest run: {reason}."]
    said = "".join(f"<li><b>{html.escape(line)}</b></li>" for line in ahead)
    said += "".join(f"<li>{html.escape(line)}</li>" for line in laws(series))
    return (
        f"<header><h1>{html.escape(title)}</h1>"
        f"<p class=faint>{len(points):,} runs on {threads.min():.3g} to {threads.max():.3g} threads: a "
        f"{html.escape(series.kind)} series</p>{missing}</header>"
        f'<div class="tiles">{_tiles(series)}</div><ol class="findings">{said}</ol>'
        + "".join(_figure(series, name) for name in _names())
        + table("Runs", _RUNS, (_run(p) for p in points), _RUNS_NOTE)
        + _parts(series)
    )


_RUNS = ("file", "threads", "wall s", "rate", "steady", "speedup", "efficiency", "busy", "verdict")
_RUNS_NOTE = (
    "rate: events per second of the whole run; steady: while nine tenths of the threads were busy; "
    "busy: share of the threads in chunks."
)


def _run(p: Point) -> tuple:
    return (
        Text(p.file), p.threads, p.wall_s, quantity(p.throughput_hz, "Hz"),
        quantity(p.steady_hz, "Hz"), p.speedup, percent(p.efficiency), percent(p.core_occupancy), p.verdict,
    )  # fmt: skip


def _tiles(series: Series) -> str:
    """Means of the repeats with the fewest and with the most threads."""
    threads = series.column("threads")
    ends = (threads <= (1 + SAME) * threads.min(), threads >= threads.max() / (1 + SAME))
    (fewest, most) = ([series.column(name)[end].mean() for name in _ENDS] for end in ends)
    plural = "" if round(fewest[0], 2) == 1 else "s"
    tiles = [
        ("threads of the largest runs", f"{most[0]:.3g}"),
        (f"times as fast as {fewest[0]:.3g} thread{plural}", f"{most[1]:,.3g}"),
        ("efficiency there", percent(most[2])),
        ("wall time there", quantity(most[3], "s")),
        ("wall time of the smallest", quantity(fewest[3], "s")),
    ]
    return "".join(
        f'<div class="tile"><b>{html.escape(value)}</b>{html.escape(label)}</div>'
        for label, value in tiles
    )


def _names() -> list[str]:
    names = [name for name, e in REGISTRY.items() if e.across and name == e.name]
    return sorted(names, key=lambda name: name != _FIRST)


def _figure(series: Series, name: str) -> str:
    entry = REGISTRY[name]
    svg, why = figures.draw(entry, series)
    if why:
        return f"<p class=faint><b>{html.escape(entry.question)}</b> {html.escape(why)}.</p>"
    return f'<figure data-name="{name}">{svg}</figure>'


def _parts(series: Series) -> str:
    try:
        model = series.parts
    except (FitError, ImportError):
        return ""
    largest = float(model.threads.max())
    now, then = model.predict(largest), model.predict(10 * largest)
    rows = []
    for name, part in sorted(model.parts.items(), key=lambda item: -then.parts[item[0]][0]):
        value, lo, hi = then.parts[name]
        beside = " (beside the tasks)" if name == BESIDE else ""
        rows.append((Text(name + beside), Text(str(part)), now.parts[name][0], value, lo, hi))
    head = ("part", "model", f"at {largest:.0f}", f"at {10 * largest:.0f}", "from", "to")
    note = "Thread-seconds of each part as a function of the threads p; from, to: 90 %."
    return table("Parts of the budget", head, rows, note)
