"""Runs of one analysis on different numbers of threads: the gain per thread, and the law that the runs follow.

Every number of a run is read from its file; only comparisons are computed here.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..hook._printable import printable
from . import fits, parts
from .reader import RunFile, RunFileError
from .reader import open as open_run

if TYPE_CHECKING:
    import pandas as pd

    from .plots import Plots
    from .replay import WhatIf
    from .usl import Usl


class MixedRunsError(ValueError):
    """The runs are neither a strong nor a weak series; the message says which differ in what."""


@dataclasses.dataclass
class Point:
    """One run of a series; unknown values are NaN."""

    file: str
    run_id: str
    verdict: str
    workers: float  # time-averaged
    threads: float  # time-averaged: N
    wall_s: float  # T, the whole run
    events: float
    throughput_hz: float  # events / T
    steady_hz: float  # the same while at least nine tenths of the threads were busy
    core_occupancy: float  # share of the threads in process()
    cpu_efficiency: float  # share of the threads on CPU in process()
    useful_s: float  # thread CPU of counted attempts: U
    load_balance: float  # U / N over the most of one worker's thread
    communication: float  # the most of one worker's thread / the time it was there
    capacity_s: float  # most threads at one time x T
    efficiency: float = math.nan  # strong: T_ref N_ref / (T N); weak: T_ref / T
    speedup: float = math.nan  # N efficiency / N_ref
    karp_flatt: float = math.nan  # against the reference; NaN there
    parallel_efficiency: float = math.nan  # load_balance x communication
    computation_scaling: float = math.nan  # U_ref / U (weak: per event)
    global_efficiency: float = math.nan  # their product
    parts: dict[str, float] = dataclasses.field(
        default_factory=dict
    )  # thread-seconds by part of the budget


@dataclasses.dataclass
class Series:
    """Runs that can be compared.

    Attributes
    ----------
    kind : str
        ``strong``: the same work on different threads; ``weak``: work in proportion to the threads; ``mixed``: not checked.
    points : list of Point
        By number of threads. The reference is the runs with the fewest threads; of several, their mean.
    paths : list of pathlib.Path
        Of the run files, as they were given.
    warnings : list of str
        What the runs do not share and may not matter.
    """

    kind: str
    points: list[Point]
    paths: list[pathlib.Path]
    warnings: list[str] = dataclasses.field(default_factory=list)

    @property
    def n_different(self) -> int:
        """How many numbers of threads the runs are on."""
        return fits.different(fits.pairs(self.column("threads"), self.column("wall_s"))[0])

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """One row per run; units in ``.attrs["units"]``."""
        import pandas as pd

        frame = pd.DataFrame([{name: getattr(p, name) for name in COLUMNS} for p in self.points])
        frame.attrs["units"] = dict(COLUMNS)
        return frame

    @functools.cached_property
    def amdahl(self) -> fits.Amdahl:
        """T = Ts + Tp / N over the runs of a strong series; FitError where it cannot be."""
        self._must_be("strong", "Amdahl's law")
        return fits.amdahl(self.column("threads"), self.column("wall_s"))

    @functools.cached_property
    def gustafson(self) -> fits.Gustafson:
        """S' = N + (1 - N) s' over the runs of a weak series; FitError where it cannot be."""
        self._must_be("weak", "Gustafson's law")
        threads = self.column("threads") / self.reference_threads
        return fits.gustafson(threads, threads * self.column("efficiency"))

    @functools.cached_property
    def usl(self) -> Usl:
        """The universal scalability law over throughput; FitError where it cannot be."""
        from .usl import usl

        throughput = self.column("throughput_hz")
        if not np.isfinite(
            throughput
        ).any():  # no chunk rows: the same work, so runs an hour will do
            self._must_be("strong", "the universal scalability law without events")
            throughput = 1 / self.column("wall_s")
        return usl(self.column("threads"), throughput)

    @functools.cached_property
    def parts(self) -> parts.Model:
        """A model for each part of the budget; FitError where the runs are too few."""
        self._must_be("strong", "a model of the parts of the budget")
        names = [name for name in parts.PARTS if any(name in p.parts for p in self.points)]
        return parts.fit(
            self.column("capacity_s") / self.column("wall_s"),
            {name: np.array([p.parts.get(name, math.nan) for p in self.points]) for name in names},
        )

    def what_if(self, **different: Any) -> WhatIf:
        """Wall time of the run with the most threads if something had been different: see `crema.read.replay.Replay.what_if`."""
        from .replay import replay

        self._must_be("strong", "a replay")
        return replay(self.paths).what_if(**different)

    @property
    def plot(self) -> Plots:
        """Pictures across the runs: ``series.plot.scaling_throughput()``; `dir` lists them."""
        from .plots import Plots

        return Plots(self, across=True)

    @property
    def reference_threads(self) -> float:
        """N of the reference."""
        return _reference_of(self.points)[0] if self.points else math.nan

    def column(self, name: str) -> np.ndarray:
        """One number per run."""
        return np.array([getattr(p, name) for p in self.points], float)

    def _must_be(self, kind: str, what: str) -> None:
        if self.kind != kind:
            raise fits.FitError(f"{what} is of a {kind} series; this one is {self.kind}")


# column -> unit
COLUMNS = {
    "file": "",
    "run_id": "",
    "verdict": "",
    "workers": "count",
    "threads": "count",
    "wall_s": "s",
    "events": "count",
    "throughput_hz": "1/s",
    "steady_hz": "1/s",
    "speedup": "1",
    "efficiency": "1",
    "karp_flatt": "1",
    "core_occupancy": "1",
    "cpu_efficiency": "1",
    "load_balance": "1",
    "communication": "1",
    "parallel_efficiency": "1",
    "computation_scaling": "1",
    "global_efficiency": "1",
}


def scaling(files: Iterable[str | os.PathLike], *, mixed: bool = False) -> Series:
    """Runs of one analysis, side by side.

    Parameters
    ----------
    files : iterable of paths
        Sealed run files.
    mixed : bool, optional
        True: take runs that differ in input, processor or settings of the Runner all the same; nothing is fitted to them.

    Returns
    -------
    Series

    Raises
    ------
    MixedRunsError
        If the runs differ in more than the threads, and their work does not grow with these; or if Runners of one run differ.
    FileNotFoundError, RunFileError
        As `crema.open` does.
    KeyError
        If a file has no summaries: it is live.
    ValueError
        If no file is given.
    """
    paths = [pathlib.Path(path) for path in files]
    points: list[Point] = []
    works: list[dict[str, object]] = []
    for path in paths:
        with open_run(path) as run:
            works.append(_work(run))
            points.append(_point(run))
    if not points:
        raise ValueError("a series needs at least one run file")
    kind = "mixed" if mixed else _kind(points, works)
    warnings = [line for line in [_difference(points, works, _MAY_DIFFER)] if line]
    comparable = kind != "mixed" or not _difference(points, works, ["events"])
    points.sort(key=lambda point: (point.threads, point.run_id))
    if comparable:
        _compare(points, weak=kind == "weak")
    return Series(kind, points, paths, warnings)


# ---------------------------------------------------------------- which series


def _work(run: RunFile) -> dict[str, object]:
    """What runs of a strong series share; None where it is not known, as where no chunk was recorded."""
    files = sorted({(row.name, row.uuid) for row in run.rows("dict/file")})
    attributes = run.attributes
    events = run.summary().get("total_events", math.nan)
    return {
        **_settings(run),
        "processor": attributes.get("processor_name"),
        "git commit": attributes.get("git_commit"),
        "coffea": attributes.get("coffea_version"),
        "dask": attributes.get("dask_version"),
        "events": events if events > 0 else None,
        "input files": files or None,
    }


# settings of the Runner -> their names in a sentence
_SETTINGS = {
    "chunksize": "chunk size",
    "maxchunks": "maxchunks",
    "schema": "schema",
    "format": "format",
    "skipbadfiles": "skipbadfiles",
    "executor": "executor",
}


def _settings(run: RunFile) -> dict[str, object]:
    """What the run's Runners were set to; a `_Mixed` where they differ."""
    listed = json.loads(run.attributes.get("runner_settings") or "[]")
    if not listed:  # of an older version, or without a Runner: only what the user said
        chunksize = run.attributes.get("chunksize", -1)
        return dict.fromkeys(_SETTINGS.values()) | {
            "chunk size": "unknown" if chunksize == -1 else str(chunksize)
        }
    found: dict[str, object] = {}
    for name, called in _SETTINGS.items():
        values = list(dict.fromkeys(_plain_setting(each.get(name)) for each in listed))
        found[called] = values[0] if len(values) == 1 else _Mixed(values)
    return found


def _plain_setting(value: object) -> str:
    return "none" if value is None else str(value)


class _Mixed(list):
    """Values of a setting that differ among the Runners of one run."""


_MAY_DIFFER = ("git commit",)  # often nothing but a commit of something else
_GROWS = ("events", "input files")  # with the threads, in a weak series


def _kind(points: Sequence[Point], works: Sequence[dict[str, object]]) -> str:
    differ = _inside(points, works) or _difference(
        points, works, [what for what in works[0] if what not in _GROWS + _MAY_DIFFER]
    )
    if differ:
        raise MixedRunsError(differ)
    differ = _difference(points, works, _GROWS)
    if not differ:
        return "strong"
    load = [p.events / p.threads for p in points if p.events > 0 and p.threads > 0]
    threads = [p.threads for p in points]
    if (
        len(load) == len(points)
        and max(load) <= (1 + fits.SAME) * min(load)
        and max(threads) > (1 + fits.SAME) * min(threads)
    ):
        return "weak"
    raise MixedRunsError(
        f"{differ}, and the events do not grow with the threads, as in a weak series"
    )


def _inside(points: Sequence[Point], works: Sequence[dict[str, object]]) -> str:
    """The first setting that differs among the Runners of one run, as a sentence; empty if there is none."""
    for point, work in zip(points, works, strict=True):
        for what, value in work.items():
            if isinstance(value, _Mixed):
                return f"the Runners of {point.file} differ in {what}: {', '.join(map(str, value))}"
    return ""


def _difference(
    points: Sequence[Point], works: Sequence[dict[str, object]], names: Sequence[str]
) -> str:
    """The first thing that two runs do not share, as a sentence; empty if there is none. What is unknown differs from nothing."""
    for what in names:
        first: tuple[Point, object] | None = None
        for point, work in zip(points, works, strict=True):
            value = work[what]
            if value is None:
                continue
            first = first or (point, value)
            if first[1] != value:
                values = (
                    ""
                    if isinstance(value, list)
                    else f" ({_plain(first[1])} there, {_plain(value)} here)"
                )
                return f"{point.file} is of another series than {first[0].file}: they differ in {what}{values}"
    return ""


def _plain(value: object) -> str:
    return f"{value:,.0f}" if isinstance(value, float) else str(value) or "none"


# ---------------------------------------------------------------- numbers of a run


def _point(run: RunFile) -> Point:
    rows = run.rows("summary/efficiency")
    metrics = run.summary()
    if not (metrics.get("total_events", math.nan) > 0 or metrics.get("num_chunks", math.nan) > 0):
        raise RunFileError(f"{run.path} has no events: neither a chunk nor coffea's report has any")
    efficiency = rows[0] if rows else None
    wall_s, events = metrics.get("wall_time", math.nan), metrics.get("total_events", math.nan)

    def of_file(name: str) -> float:
        return float(getattr(efficiency, name, math.nan))

    return Point(
        file=printable(run.path.name),
        run_id=run.run_id,
        verdict=run.verdict,
        workers=metrics.get("time_avg_workers", math.nan),
        threads=metrics.get("total_cores", math.nan),
        wall_s=wall_s,
        events=events,
        throughput_hz=events / wall_s if wall_s > 0 else math.nan,
        steady_hz=of_file("x_steady_hz"),
        core_occupancy=metrics.get("core_occupancy", math.nan),
        cpu_efficiency=metrics.get("cpu_efficiency", math.nan),
        useful_s=of_file("cpu_s"),
        load_balance=of_file("lb"),
        communication=of_file("sched_e"),
        capacity_s=of_file("cap_s"),
        parts=parts.of_run(run),
    )


def _reference_of(points: Sequence[Point]) -> tuple[float, list[Point]]:
    """Mean threads of the runs with the fewest, and these runs."""
    known = [p for p in points if p.threads > 0 and p.wall_s > 0]
    if not known:
        return math.nan, []
    fewest = min(p.threads for p in known)
    runs = [p for p in known if p.threads <= (1 + fits.SAME) * fewest]
    return sum(p.threads for p in runs) / len(runs), runs


def _mean(runs: Sequence[Point], value: Any) -> float:
    return sum(map(value, runs)) / len(runs)


def _compare(points: Sequence[Point], *, weak: bool) -> None:
    """Fill in what needs the reference."""
    n_ref, reference = _reference_of(points)
    if not reference:
        return
    wall = _mean(reference, lambda p: p.wall_s)
    thread_s = _mean(reference, lambda p: p.wall_s * p.threads)
    for p in points:
        if not (p.threads > 0 and p.wall_s > 0):
            continue
        p.efficiency = wall / p.wall_s if weak else thread_s / (p.wall_s * p.threads)
        relative = p.threads / n_ref
        p.speedup = relative * p.efficiency
        if p not in reference:
            p.karp_flatt = float(fits.karp_flatt(p.speedup, relative))

    def useful(p: Point) -> float:
        return p.useful_s / p.events if weak and p.events > 0 else p.useful_s

    names = ("threads", "load_balance", "communication")
    columns = [
        [_mean(reference, lambda p, n=n: getattr(p, n))] + [getattr(p, n) for p in points]
        for n in names
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = fits.pop(*columns, [_mean(reference, useful), *map(useful, points)])[1:]
    for p, row in zip(points, rows, strict=True):
        p.parallel_efficiency = row.parallel
        p.computation_scaling = row.computation
        p.global_efficiency = row.overall
