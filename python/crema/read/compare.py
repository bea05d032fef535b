"""Two runs, or two groups of repeats, side by side: what changed, and which cause changed by more than the noise.

Every number of a run comes from its file; only differences are computed here.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..hook._printable import printable
from ._numbers import readable
from .reader import RunFile
from .reader import open as open_run

LEAST = 0.03  # of the capacity: a smaller change is not named, however certain it is
ONE_SHOT_LEAST = (
    0.10  # the same of a cause that a run has only once, and its seconds at least double or halve
)
ONE_SHOT_LEAST_S = 1.25  # and by so much of the run: repeats on a busy machine differed by 1.1 s in start-up and tail
_OF_HOSTS = (
    "cores"  # what else runs there lasts longer than a run, whose chunks then show no noise of it
)
_SLICES = 8  # of a run's busy time, from which its own noise is taken
_T_SLICES = (
    4.5  # two-sided 5 %, shared by some twenty causes: Student's t with 7 degrees of freedom
)
_T_REPEATS = {
    1: 250.0,
    2: 28.3,
    3: 12.9,
    4: 8.6,
    5: 6.9,
    6: 6.0,
    7: 5.4,
    8: 5.0,
}  # the same by degrees of freedom

# Metrics that are compared: name -> label.
METRICS = {
    "wall_time": "wall time",
    "total_events": "events",
    "event_rate_wall_clock": "event rate",
    "total_cores": "threads, average",
    "num_chunks": "chunks",
    "core_efficiency": "threads in process()",
    "cpu_efficiency": "threads on CPU",
    "slot_busy_pct": "slots busy",
    "process_cpu_time": "CPU of process()",
    "total_bytes_read_coffea": "bytes read",
    "peak_memory_per_worker": "memory per worker, peak",
}

# What differs on purpose, and explains the changes.
SETTINGS = (
    "processor_name", "git_commit", "chunksize", "n_files", "n_datasets", "backend", "facility", "data_source",
    "requested_workers", "cores_per_worker", "host_sink", "python_version", "coffea_version", "dask_version",
    "uproot_version", "awkward_version", "distributed_version", "numpy_version", "hist_version", "container_image",
    "site", "executor",
)  # fmt: skip

# Causes whose seconds are spread over the chunks, by the part of a chunk they are in; a run has the others once.
_PART = {
    "compute": "cpu",
    "garbage_collection": "cpu",
    "input": "waiting",
    "service": "waiting",
    "file": "waiting",
    "lock": "waiting",
    "sleep": "waiting",
    "native": "waiting",
    "children": "waiting",
    "page_fault": "waiting",
    "waiting": "waiting",
    "slow_servers": "waiting",
    "gil": "waiting",
    "cores": "waiting",
    "opening": "waiting",
    "user_metered": "waiting",
    "chunk_overhead": "both",
    "slow_files": "both",
    "slow_workers": "both",
    "spill": "waiting",
    "serialization": "both",
}


# Causes among which opening is divided, and the metrics of process() alone: not comparable if one run does not know when process() began.
_WITH_OPENING = {"opening", "input", "waiting", "compute", "garbage_collection", "chunk_overhead"}
_OF_PROCESS = {"core_efficiency"}


@dataclasses.dataclass(frozen=True)
class Change:
    """A cause in two runs. Seconds are thread-seconds per million events of each side's runs, or per run if there are no events."""

    name: str
    before_s: float
    after_s: float
    noise_s: (
        float  # half of the interval of the difference; NaN where a run has the cause only once
    )
    moved: bool
    share: float  # of the difference in the larger capacity

    @property
    def difference_s(self) -> float:
        """After less before."""
        return self.after_s - self.before_s

    @property
    def unknown(self) -> bool:
        """Whether its noise would come from the chunks, of which a run has too few."""
        return self.name in _PART and math.isnan(self.noise_s)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The result of `compare`."""

    before: list[str]  # labels of the runs
    after: list[str]
    unit: str  # of the seconds of the changes
    noise: str  # what the noise is from, as a sentence
    settings: dict[str, tuple[str, str]]  # attribute -> values, where they differ
    metrics: dict[str, tuple[float, float, str]]  # metric -> means and unit
    changes: list[Change]  # all causes, largest difference first
    partial: list[str]  # runs whose verdict is not COMPLETE

    @property
    def moved(self) -> list[Change]:
        """Causes that changed by more than the noise, largest first."""
        return [change for change in self.changes if change.moved]

    def _though_wall_time_did(self) -> str:
        """What else explains a wall time that differs: threads, events, or what differs most."""
        before, after, _ = self.metrics.get("wall_time", (0.0, 0.0, ""))
        if not _differ(before, after):
            return ""
        text = f", but the wall time did: {readable(before)} s before, {readable(after)} s after"
        for name, what in (("total_cores", "threads on average"), ("total_events", "events")):
            before, after, _ = self.metrics.get(name, (0.0, 0.0, ""))
            if _differ(before, after):
                return f"{text}, with {readable(before)} and {readable(after)} {what}"
        most = max(self.changes, key=lambda c: c.share, default=None)
        if most is None or most.share == 0:
            return text
        return (
            f"{text}. The largest difference is in {most.name.replace('_', ' ')}: "
            f"{readable(most.before_s)} and {readable(most.after_s)} {self.unit}"
        )

    def sentence(self) -> str:
        """Sentence that names the cause that changed most, or says that none did, or that this is not known."""
        if not self.moved:
            unknown = [c for c in self.changes if c.unknown and c.share > LEAST]
            if not unknown:
                return f"No cause changed by more than the noise{self._though_wall_time_did()}."
            first, more = unknown[0], "more" if unknown[0].difference_s > 0 else "less"
            return (
                f"Noise unknown: {first.name.replace('_', ' ')} took {readable(abs(first.difference_s))} {self.unit} {more} "
                f"({readable(first.before_s)} before, {readable(first.after_s)} after), but a run has fewer than {2 * _SLICES} chunks; "
                "repeats of each side would show whether that is chance."
            )
        first = self.moved[0]
        way = "more" if first.difference_s > 0 else "less"
        bound = f" ± {readable(first.noise_s, 2)}" if math.isfinite(first.noise_s) else ""
        return (
            f"{first.name.replace('_', ' ')} changed most: {readable(abs(first.difference_s))}{bound} {self.unit} {way} "
            f"({readable(first.before_s)} before, {readable(first.after_s)} after)."
        )


def compare(
    before: Sequence[str | os.PathLike] | str | os.PathLike,
    after: Sequence[str | os.PathLike] | str | os.PathLike,
) -> Comparison:
    """Compare two runs, or two groups of repeats.

    Parameters
    ----------
    before, after : path or sequence of paths
        Sealed run files. With one run per side the noise is estimated from its chunks; repeats show the noise between runs.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If a side has no run.
    FileNotFoundError, RunFileError
        As `crema.open` does.
    KeyError
        If a file has no summaries: it is live.

    Notes
    -----
    With one run per side, a cause has changed if its seconds differ by more than 4.5 standard errors and 3 % of the capacity. The
    error is that of eight slices of the run, of what chunks take beyond what their events explain. A cause that a run has only
    once (start-up, tail, ...) shows no noise of its own: it has changed only if it differs by 10 % of the capacity, by a factor
    of two, and by 1.25 s of the run; so has waiting for a core, which depends on what else the hosts do. Of repeats it is Welch's test, shared by all causes.
    """
    sides = [[s] if isinstance(s, (str, os.PathLike)) else list(s) for s in (before, after)]
    if not all(sides):
        raise ValueError("each side needs a run file")
    runs = [[_read(path) for path in side] for side in sides]
    events = [np.mean([r["events"] for r in side]) for side in runs]
    per_event = min(events) > 0 and abs(events[0] - events[1]) > 0.01 * max(events)
    scales = [[1e6 / r["events"] if per_event else 1.0 for r in side] for side in runs]
    repeats = min(map(len, sides)) >= 2
    unknown = [r["label"] for side in runs for r in side if not r["knows_opening"]]
    names = sorted(
        {name for side in runs for r in side for name in r["causes"]}
        - (_WITH_OPENING if unknown else set())
    )
    capacity = max(
        np.mean([r["capacity_s"] * k for r, k in zip(side, scale, strict=True)])
        for side, scale in zip(runs, scales, strict=True)
    )
    second = max(
        np.mean([r["threads"] * k for r, k in zip(side, scale, strict=True)])
        for side, scale in zip(runs, scales, strict=True)
    )
    least = max(ONE_SHOT_LEAST * float(capacity), ONE_SHOT_LEAST_S * float(second))
    changes = [_change(name, runs, scales, float(capacity), repeats, least) for name in names]
    return Comparison(
        before=[r["label"] for r in runs[0]],
        after=[r["label"] for r in runs[1]],
        unit="thread-seconds per million events" if per_event else "thread-seconds",
        noise=(
            f"Noise: between {len(sides[0])} and {len(sides[1])} repeats."
            if repeats
            else "Within-run noise only: repeats of each side would show the noise between runs."
        )
        + (
            f" Not compared: {', '.join(sorted(_WITH_OPENING))}, since it is unknown when process() began in {', '.join(unknown)}."
            if unknown
            else ""
        ),
        settings=_settings(runs),
        metrics=_metrics(runs),
        changes=sorted(changes, key=lambda c: (-c.moved, -abs(np.nan_to_num(c.difference_s)))),
        partial=[r["label"] for side in runs for r in side if r["verdict"] != "COMPLETE"],
    )


def _read(path: str | os.PathLike) -> dict[str, Any]:
    with open_run(path) as file:
        run = file.as_shown()
        metrics = {row.name: row for row in run.rows("summary/workflow")}
        causes = {row.name: row.thread_seconds for row in run.rows("summary/bottlenecks")}
        knows_opening = _knows_opening(metrics, causes)
        if not knows_opening:
            metrics = {name: row for name, row in metrics.items() if name not in _OF_PROCESS}
        capacity_s = sum(r.thread_seconds for r in run.rows("summary/waterfall"))
        wall_s = metrics["wall_time"].value if "wall_time" in metrics else math.nan
        label = run.attributes.get("run_label") or run.run_id
        return {
            "label": f"{label} ({printable(run.path.name)})",
            "verdict": run.verdict,
            "attributes": run.attributes,
            "metrics": metrics,
            "causes": causes,
            "knows_opening": knows_opening,
            "capacity_s": capacity_s,
            "threads": capacity_s / wall_s if wall_s > 0 else 0.0,
            "events": metrics["total_events"].value if "total_events" in metrics else 0.0,
            "noise_s": _own_noise(run),
        }


def _knows_opening(metrics: dict[str, Any], causes: dict[str, float]) -> bool:
    """Whether each chunk's opening is known apart from its process(); files of before 0.2.0 show it only in `open_time`."""
    if not metrics or metrics["num_chunks"].value > 0:
        opened = metrics["open_time"].value if "open_time" in metrics else math.nan
        return math.isfinite(opened) and not math.isnan(causes.get("opening", 0.0))
    return True


def _own_noise(run: RunFile) -> dict[str, float]:
    """Standard error of the run's seconds on CPU and not on CPU in chunks, from slices of its time; NaN of fewer than 16 chunks."""
    names = ["t_end_ns", "wall_s", "open_s", "cpu_s", "n_events", "dataset_id", "status", "quality"]
    rows = run.arrays("chunks", names)
    good = (rows["status"] == run.labels("chunks", "status")["ok"]) & (rows["quality"] & 8 == 0)
    good &= np.isfinite(rows["wall_s"]) & np.isfinite(rows["cpu_s"]) & (rows["n_events"] > 0)
    if good.sum() < 2 * _SLICES:
        return dict.fromkeys(("cpu", "waiting", "both"), math.nan)
    rows = {name: values[good] for name, values in rows.items()}
    whole = rows["wall_s"] + np.nan_to_num(rows["open_s"])
    order = np.argsort(rows["t_end_ns"], kind="stable")
    slices = np.empty(len(order), dtype=int)
    slices[order] = np.arange(len(order)) * _SLICES // len(order)
    parts = {"cpu": rows["cpu_s"], "waiting": np.maximum(0, whole - rows["cpu_s"]), "both": whole}
    return {part: _error_of_sum(seconds, rows, slices) for part, seconds in parts.items()}


def _error_of_sum(seconds: np.ndarray, rows: Any, slices: np.ndarray) -> float:
    """Of the sum of seconds, less what each dataset's events explain, from the spread of the slices' sums."""
    rest = seconds.astype(float)
    for dataset in np.unique(rows["dataset_id"]):
        of = rows["dataset_id"] == dataset
        rest[of] -= rest[of].sum() / rows["n_events"][of].sum() * rows["n_events"][of]
    sums = np.bincount(slices, rest, _SLICES)
    return float(np.sqrt(_SLICES * np.var(sums, ddof=1)))


def _change(
    name: str,
    runs: list[list[Any]],
    scales: list[list[float]],
    capacity: float,
    repeats: bool,
    one_shot_least: float,
) -> Change:
    seconds = [
        np.array([k * r["causes"].get(name, math.nan) for r, k in zip(side, scale, strict=True)])
        for side, scale in zip(runs, scales, strict=True)
    ]
    before, after = (float(np.mean(s)) for s in seconds)
    difference = after - before
    if repeats:
        noise = _welch(*seconds)
        moved = abs(difference) > max(noise, LEAST * capacity)
        return _change_of(name, before, after, noise, moved, capacity)
    least, most = sorted((abs(before), abs(after)))
    moved = abs(difference) > one_shot_least and most > 2 * least
    noise = math.nan
    if name in _PART:
        errors = [k * r["noise_s"][_PART[name]] for side, scale in zip(runs, scales, strict=True)
                  for r, k in zip(side, scale, strict=True)]  # fmt: skip
        noise = _T_SLICES * math.sqrt(sum(e * e for e in errors)) if errors else math.nan
        beyond = abs(difference) > max(noise, LEAST * capacity)
        moved = beyond and (moved or name != _OF_HOSTS)
    return _change_of(name, before, after, noise, moved, capacity)


def _change_of(
    name: str, before: float, after: float, noise: float, moved: bool, capacity: float
) -> Change:
    share = abs(after - before) / capacity if capacity else 0.0
    return Change(name, before, after, noise, bool(moved), share)


def _welch(a: np.ndarray, b: np.ndarray) -> float:
    """Half of the interval of the difference of two means."""
    va, vb = (np.var(x, ddof=1) / len(x) for x in (a, b))
    if va + vb == 0:
        return 0.0
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    known = max((n for n in _T_REPEATS if n <= freedom), default=1)
    return float(_T_REPEATS[known] * math.sqrt(va + vb))


def _differ(before: float, after: float) -> bool:
    """Whether two positive numbers differ by more than a tenth of the larger one."""
    return min(before, after) > 0 and abs(after - before) > 0.1 * max(before, after)


def _settings(runs: list[list[Any]]) -> dict[str, tuple[str, str]]:
    found = {}
    for name in SETTINGS:
        values = [sorted({str(r["attributes"].get(name, "")) for r in side}) for side in runs]
        if values[0] != values[1]:
            found[name] = (", ".join(values[0]), ", ".join(values[1]))
    return found


def _metrics(runs: list[list[Any]]) -> dict[str, tuple[float, float, str]]:
    found = {}
    for name in METRICS:
        values = [[r["metrics"][name].value for r in side if name in r["metrics"]] for side in runs]
        if all(values) and np.isfinite(np.concatenate(values)).all():
            unit = runs[0][0]["metrics"][name].units
            found[name] = (float(np.mean(values[0])), float(np.mean(values[1])), unit)
    return found
