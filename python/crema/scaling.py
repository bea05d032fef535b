"""Runs of the same work on different numbers of threads, side by side: how much of each thread was of use.

Every number of a run is read from its file; only what needs two files is computed here.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import os
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich import box
from rich.table import Table
from rich.text import Text

from .reader import RunFile
from .reader import open as open_run
from .report import percent, quantity, seconds

_SAME_THREADS = 0.05  # runs whose threads differ by no more from the fewest are the reference too


class MixedRunsError(ValueError):
    """The runs did not do the same work, so their times cannot be compared."""


@dataclasses.dataclass
class Point:
    """One run of a series; what is not known is NaN."""

    file: str
    run_id: str
    verdict: str
    workers: float  # time-averaged
    threads: float  # time-averaged: N
    wall_s: float  # T, the whole run
    events: float
    throughput_hz: float  # events / T
    steady_hz: float  # the same while at least nine tenths of the threads were busy
    efficiency: float  # T_ref N_ref / (T N)
    core_occupancy: float  # share of the threads in process()
    cpu_efficiency: float  # share of the threads on CPU in process()


def scaling(paths: Iterable[str | os.PathLike], *, mixed: bool = False) -> list[Point]:
    """Throughput and strong-scaling efficiency of runs of the same work.

    Parameters
    ----------
    paths : iterable of paths
        Sealed run files.
    mixed : bool, optional
        True: take runs that differ in input, chunk size or processor all the same.

    Returns
    -------
    list of Point
        By number of threads. The reference of the efficiency is the run with the fewest threads; of several of those their
        mean thread-seconds.

    Raises
    ------
    MixedRunsError
        If the runs differ in what they did.
    FileNotFoundError, RunFileError
        As `crema.open` does.
    KeyError
        If a file has no summaries: it is live.
    """
    points: list[Point] = []
    first: dict[str, object] = {}
    for path in paths:
        with open_run(path) as run:
            work = _work(run)
            if not mixed:
                _refuse_other_work(first, work, run)
            first = first or {**work, "path": run.path}
            points.append(_point(run))
    points.sort(key=lambda point: (point.threads, point.run_id))
    _set_efficiency(points)
    return points


def _work(run: RunFile) -> dict[str, object]:
    """What runs of a strong series share."""
    files = sorted({(row.name, row.uuid) for row in run.rows("dict/file")})
    attributes = run.attributes
    return {
        "events": run.summary().get("total_events", math.nan),
        "input files": files,
        "chunk size": attributes.get("chunksize"),
        "processor": attributes.get("processor_name"),
        "git commit": attributes.get("git_commit"),
        "coffea": attributes.get("coffea_version"),
        "dask": attributes.get("dask_version"),
    }


def _refuse_other_work(first: dict[str, object], work: dict[str, object], run: RunFile) -> None:
    for what, value in work.items():
        if first and first[what] != value:
            told = (
                ""
                if isinstance(value, list)
                else f" ({_plain(first[what])} there, {_plain(value)} here)"
            )
            raise MixedRunsError(
                f"{run.path} is of another series than {first['path']}: {what} differ{told}"
            )


def _plain(value: object) -> str:
    return f"{value:,.0f}" if isinstance(value, float) else str(value) or "none"


def _point(run: RunFile) -> Point:
    metrics = run.summary()
    steady = run.rows("summary/efficiency")
    wall_s = metrics.get("wall_time", math.nan)
    events = metrics.get("total_events", math.nan)
    return Point(
        file=run.path.name,
        run_id=run.run_id,
        verdict=run.verdict,
        workers=metrics.get("time_avg_workers", math.nan),
        threads=metrics.get("total_cores", math.nan),
        wall_s=wall_s,
        events=events,
        throughput_hz=events / wall_s if wall_s > 0 else math.nan,
        steady_hz=steady[0].x_steady_hz if steady else math.nan,
        efficiency=math.nan,
        core_occupancy=metrics.get("core_occupancy", math.nan),
        cpu_efficiency=metrics.get("cpu_efficiency", math.nan),
    )


def _set_efficiency(points: Sequence[Point]) -> None:
    known = [p for p in points if p.threads > 0 and p.wall_s > 0]
    if not known:
        return
    fewest = min(p.threads for p in known)
    references = [p for p in known if p.threads <= (1 + _SAME_THREADS) * fewest]
    thread_s = sum(p.wall_s * p.threads for p in references) / len(references)
    for point in known:
        point.efficiency = thread_s / (point.wall_s * point.threads)


def render(points: Sequence[Point]) -> Table:
    """The points as a table for a terminal."""
    events = {p.events for p in points}
    title = (
        f"Strong scaling, {quantity(max(events), 'count')} events" if len(events) == 1 else "Runs"
    )
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("threads", "wall s", "throughput", "steady", "efficiency", "occupancy"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for p in points:
        table.add_row(
            seconds(p.threads),
            seconds(p.wall_s),
            quantity(p.throughput_hz, "Hz"),
            quantity(p.steady_hz, "Hz"),
            percent(p.efficiency),
            percent(p.core_occupancy),
            Text(p.verdict, style="green" if p.verdict == "COMPLETE" else "yellow"),
        )
    table.caption = "throughput: events a second of the whole run; steady: while nine tenths of the threads were busy"
    table.caption_justify = "left"
    return table


def write_csv(points: Sequence[Point], file: TextIO) -> None:
    """The points as CSV: a line a run; seconds, Hz, fractions of 1; what is not known is empty."""
    names = [field.name for field in dataclasses.fields(Point)]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    for point in points:
        values = (getattr(point, name) for name in names)
        writer.writerow(["" if isinstance(v, float) and math.isnan(v) else v for v in values])
