"""Two runs, or two groups of repeats, side by side: what changed, and which cause changed by more than the noise.

Every number of a run comes from its file; only differences are computed here.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..hook._printable import printable
from . import _attempts
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
    "n_requests": "requests for bytes",
    "peak_memory_per_worker": "memory per worker, peak",
}

# What a run did, not what chance made of it: metric -> words before and after how much of it. Of several that explain, the first is named.
COUNTS = {
    "total_bytes_read_coffea": ("reads", "bytes"),
    "n_requests": ("makes", "requests"),
    "num_chunks": ("has", "chunks"),
    "total_events": ("processes", "events"),
}
SAME = 0.01  # counts that differ by less are the same in a sentence
_MUCH = 1.2  # times: a smaller difference of a count explains no seconds

# Causes of which each chunk, or each byte that it reads, has its share: what more bytes or chunks make larger.
_OF_CHUNKS = {"opening", "chunk_overhead"}
_OF_BYTES = {"input", "compute", "garbage_collection", "slow_servers", "page_fault"} | _OF_CHUNKS
_OF_INPUT = ("chunksize", "maxchunks", "schema")  # settings that decide how the same input is read

# What differs on purpose, and explains the changes.
SETTINGS = (
    "processor_name", "git_commit", *_OF_INPUT, "input_format", "skipbadfiles", "n_files", "n_datasets", "backend", "facility", "data_source",
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
_WITH_OPENING = {
    "opening", "input", "service", "file", "lock", "sleep", "native", "children", "page_fault", "waiting", "compute",
    "garbage_collection", "chunk_overhead",
}  # fmt: skip
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
    workflow: dict[
        str, tuple[float, float, str]
    ]  # metric of /summary/workflow -> means and unit; only those that all runs have
    changes: list[Change]  # all causes, largest difference first
    partial: list[str]  # runs whose verdict is not COMPLETE
    per_event: bool  # the sides have different numbers of events
    capacity_s: tuple[float, float]  # in the unit of the changes
    wall_noise_s: (
        float  # of the difference between repeats, half of its interval; NaN of one run per side
    )

    @property
    def metrics(self) -> dict[str, tuple[float, float, str]]:
        """Those of the workflow that are shown."""
        return {name: self.workflow[name] for name in METRICS if name in self.workflow}

    @property
    def moved(self) -> list[Change]:
        """Causes that changed by more than the noise, largest first."""
        return [change for change in self.changes if change.moved]

    def change_percent(self, metric: str) -> float:
        """By how much a metric changed; NaN if it is not known of both sides."""
        before, after, _ = self.workflow.get(metric, (math.nan, math.nan, ""))
        if before == after:
            return 0.0
        return 100 * (after - before) / abs(before) if before else math.copysign(math.inf, after)

    def sentence(self) -> str:
        """Whether it became slower, by how much, and why: as far as the runs show it."""
        if not all(value > 0 for value in self.workflow.get("wall_time", (0.0,))[:2]):
            return self.about_causes()
        if why := self.not_comparable():
            before, after, _ = self.workflow["wall_time"]
            return f"Not comparable, {why}: {readable(before)} -> {readable(after)} s."
        times, speed = self._speed()
        differs = self._though()
        if speed == 0:
            return f"{times}{differs}."
        if (reason := self._because_of_threads(speed)) is not None:
            return f"{times}, because {reason}."
        cause = self._largest(speed)
        explains = self._explaining(cause) if cause is not None else ""
        if explains and not self._set_up(set(SETTINGS) - {*_OF_INPUT, "host_sink"}):
            how = self._set_up(_OF_INPUT)
            return f"{times}, because it {explains}{f' ({how})' if how else ''}."
        if cause is not None and cause.moved:
            seconds = f"{readable(cause.before_s)} -> {readable(cause.after_s)} {self.unit}"
            return f"{times}, because of {cause.name.replace('_', ' ')} ({seconds}){differs}."
        why = "no cause changed by more than the noise"
        if self.moved:
            why = "what changed by more than the noise explains less than half of it"
        elif self._unknown():
            why = f"a run has fewer than {2 * _SLICES} chunks, which show no noise"
        return f"{times}; the cause is not known: {why}{differs}."

    def not_comparable(self) -> str:
        """Why no sum over records says anything of the difference; empty if they do."""
        if self.partial:
            return f"since records of {' and '.join(self.partial)} are missing"
        events = self.workflow.get("total_events", (0.0, 0.0, ""))[:2]
        return "since one side has no events" if (events[0] > 0) != (events[1] > 0) else ""

    def _speed(self) -> tuple[str, float]:
        """In words; and the logarithm of how many times as long it took, per event if their numbers differ: 0 if that is nothing."""
        before, after, _ = self.workflow["wall_time"]
        took = f"{readable(before)} -> {readable(after)} s"
        events = self.workflow.get("total_events", (1.0, 1.0, ""))
        times, per_event = after / before, ""
        if self.per_event:
            times, per_event = times * events[0] / events[1], " per event"
            took += f" for {events[0]:,.0f} -> {events[1]:,.0f} events"
        if abs(times - 1) * before <= self.wall_noise_s:
            return (
                f"Not slower or faster beyond the noise of ± {readable(self.wall_noise_s, 2)} s: {took}",
                0.0,
            )
        if abs(times - 1) < LEAST:
            return f"As fast{per_event} within {100 * LEAST:.0f} %: {took}", 0.0
        if times >= 2:
            how = f"Takes {readable(times, 2)} times as long"
        elif times <= 0.5:
            how = f"{readable(1 / times, 2)} times as fast"
        else:
            how = f"{100 * abs(times - 1):.0f} % {'slower' if times > 1 else 'faster'}"
        return f"{how}{per_event}: {took}", math.log(times)

    def _because_of_threads(self, speed: float) -> str | None:
        """If their number explains half of the change or more."""
        before, after, _ = self.workflow.get("total_cores", (0.0, 0.0, ""))
        if not _differ(before, after) or not 0.5 <= math.log(before / after) / speed <= 2:
            return None
        return f"its threads were {readable(after)} on average in place of {readable(before)}"

    def _largest(self, speed: float) -> Change | None:
        """The cause that changed most in the direction of the wall time, if such causes explain half of the change or more.

        Where a run has too few chunks for a noise, a cause counts if it differs by much and follows from what has no noise.
        """
        change_s = self.capacity_s[1] - self.capacity_s[0]
        found = [
            c
            for c in self.changes
            if c.difference_s * speed > 0
            and (c.moved or (c.unknown and c.share >= ONE_SHOT_LEAST and self._explaining(c)))
        ]
        if change_s * speed <= 0 or sum(c.difference_s for c in found) / change_s < 0.5:
            return None
        return max(found, key=lambda c: abs(c.difference_s))

    def _explaining(self, cause: Change) -> str:
        """What a run did more often, or less, if the seconds of the cause follow from it."""
        names = ["total_bytes_read_coffea", "n_requests"] if cause.name in _OF_BYTES else []
        for name in ["num_chunks"] * (cause.name in _OF_CHUNKS) + names:
            times = self._times(name)
            if not times > 0 or (times if cause.difference_s > 0 else 1 / times) < _MUCH:
                continue
            ratio = cause.after_s / cause.before_s if cause.before_s > 0 else math.inf
            if ratio > 0 and abs(math.log(times)) >= 0.5 * abs(math.log(ratio)):
                return self._count(name, times)
        return ""

    def _times(self, name: str) -> float:
        """How many times as much of a count; per event if their numbers differ."""
        before, after, _ = self.workflow.get(name, (0.0, 0.0, ""))
        events = self.workflow.get("total_events", (1.0, 1.0, ""))
        scale = events[0] / events[1] if self.per_event else 1.0
        return scale * after / before if before > 0 else 0.0

    def _count(self, name: str, times: float) -> str:
        verb, what = COUNTS[name]
        if times >= 2:
            much = f"{readable(times, 2)} times as many"
        else:
            much = f"{readable(100 * abs(times - 1), 2)} % {'more' if times > 1 else 'fewer'}"
        return f"{verb} {much} {what}{' per event' * self.per_event}"

    def _though(self) -> str:
        """What else differs, at the end of a sentence that does not say that it is the cause."""
        times = {name: self._times(name) for name in COUNTS if name != "total_events"}
        did = [self._count(name, n) for name, n in times.items() if n > 0 and abs(n - 1) > SAME]
        set_up = self._set_up(set(SETTINGS) - {"host_sink"})
        parts = [f"it {', '.join(did)}" if did else "", set_up and f"set-up differs: {set_up}"]
        text = "; ".join(filter(None, parts))
        return f"; {text}" if text else ""

    def _set_up(self, names: Collection[str]) -> str:
        """Those settings that differ, the first four."""
        differ = [name for name in SETTINGS if name in names and name in self.settings]
        told = [f"{name} {' -> '.join(cut(v) for v in self.settings[name])}" for name in differ[:4]]
        return ", ".join(told) + (f" and {len(differ) - 4} more" if len(differ) > 4 else "")

    def _unknown(self) -> list[Change]:
        """Large differences of which a run has too few chunks to say whether they are noise."""
        return [c for c in self.changes if c.unknown and c.share > LEAST]

    def about_causes(self) -> str:
        """Sentence that names the cause that changed most, or says that none did, or that this is not known."""
        if not self.moved:
            if not (unknown := self._unknown()):
                return "No cause changed by more than the noise."
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
    per_event = min(events) > 0 and abs(events[0] - events[1]) > SAME * max(events)
    scales = [[1e6 / r["events"] if per_event else 1.0 for r in side] for side in runs]
    repeats = min(map(len, sides)) >= 2
    unknown = [r["label"] for side in runs for r in side if not r["knows_opening"]]
    names = sorted(
        {name for side in runs for r in side for name in r["causes"]}
        - (_WITH_OPENING if unknown else set())
    )
    capacities = [
        np.mean([r["capacity_s"] * k for r, k in zip(side, scale, strict=True)])
        for side, scale in zip(runs, scales, strict=True)
    ]
    capacity = max(capacities)
    walls = [
        np.array([r["metrics"]["wall_time"].value for r in side if "wall_time" in r["metrics"]])
        for side in runs
    ]
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
        workflow=_metrics(runs),
        changes=sorted(changes, key=lambda c: (-c.moved, -abs(np.nan_to_num(c.difference_s)))),
        partial=[r["label"] for side in runs for r in side if r["verdict"] != "COMPLETE"],
        per_event=bool(per_event),
        capacity_s=(float(capacities[0]), float(capacities[1])),
        wall_noise_s=_welch(*walls) if repeats and all(map(len, walls)) else math.nan,
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
        metrics["n_requests"] = SimpleNamespace(value=_requests(run), units="count")
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


def _requests(run: RunFile) -> float:
    """Requests to the sources of the chunks whose output is in the result; NaN if any did not count them."""
    if "n_requests" not in run.file["chunks"].dtype.names:
        return math.nan
    counted = _attempts.counted(run, "n_requests")["n_requests"]
    return float(counted.sum()) if len(counted) and (counted >= 0).all() else math.nan


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
    good = (rows["status"] == run.labels("chunks", "status")["ok"]) & (
        rows["quality"] & _attempts.SUPERSEDED == 0
    )
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
        values = [sorted({_shown(r["attributes"].get(name, "")) for r in side}) for side in runs]
        if values[0] != values[1]:
            found[name] = (", ".join(values[0]), ", ".join(values[1]))
    return found


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def cut(value: str, most: int = 60) -> str:
    """A setting for a line, a commit with eight digits; one that is not there is unknown."""
    value = re.sub(r"\b([0-9a-f]{8})[0-9a-f]{32}\b", r"\1", value)
    return (value if len(value) <= most else value[: most - 1] + "…") or "unknown"


def _metrics(runs: list[list[Any]]) -> dict[str, tuple[float, float, str]]:
    found = {}
    for name in runs[0][0]["metrics"]:
        values = [[r["metrics"][name].value for r in side if name in r["metrics"]] for side in runs]
        whole = all(len(v) == len(side) for v, side in zip(values, runs, strict=True))
        if whole and np.isfinite(np.concatenate(values)).all():
            unit = runs[0][0]["metrics"][name].units
            found[name] = (float(np.mean(values[0])), float(np.mean(values[1])), unit)
    return found


class Condition:
    """A condition such as ``wall_time>+10%``: a metric of ``/summary/workflow``, and how much it may change.

    Raises
    ------
    ValueError
        If the text is none.
    """

    _FORM = re.compile(r"\s*(\w+)\s*([<>])\s*([+-]?\d+(?:\.\d*)?)\s*%\s*")

    def __init__(self, text: str) -> None:
        parts = self._FORM.fullmatch(text)
        if parts is None:
            raise ValueError(
                f"{text!r} is not a condition: give METRIC, < or >, and a percentage, such as 'wall_time>+10%'"
            )
        self.metric, self._sign = parts[1], 1 if parts[2] == ">" else -1
        self.text, self._limit = f"{parts[1]} {parts[2]} {float(parts[3]):+g} %", float(parts[3])

    def holds(self, found: Comparison) -> bool | None:
        """Whether it does; None if that is not known."""
        percent = found.change_percent(self.metric)
        if found.not_comparable() and (self.metric != "wall_time" or not found.partial):
            return None
        return None if math.isnan(percent) else self._sign * (percent - self._limit) > 0
