"""A run under the names that roastcoffea gives its numbers, measurements and plots: `docs/roastcoffea.md` has what differs and why."""

from __future__ import annotations

import json
import math
import os
import pathlib
import shutil
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from . import access
from ._attempts import counted
from .reader import RunFile
from .reader import open as open_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMAT = "roastcoffea_measurement_v1"

# its name -> ours, and what ours is multiplied by
_NAMES = {
    "avg_memory_per_worker_bytes": ("avg_memory_per_worker", 1),
    "chunk_duration_max": ("chunk_wall_max", 1),
    "chunk_duration_mean": ("chunk_wall_mean", 1),
    "chunk_duration_min": ("chunk_wall_min", 1),
    "elapsed_time_seconds": ("wall_time", 1),
    "event_rate_core_khz": ("event_rate_core_averaged", 1e-3),
    "event_rate_cpu_total_khz": ("event_rate_aggregated", 1),
    "event_rate_elapsed_khz": ("event_rate_wall_clock", 1),
    "num_failed_chunks": ("num_failed_attempts", 1),
    "num_successful_chunks": ("num_chunks", 1),
    "overhead_io_wait_time_seconds": ("overhead_noncpu_time_seconds", 1),
    "peak_memory_bytes": ("peak_memory_per_worker", 1),
    "processor_cpu_percent": ("processor_cpu_percentage", 1),
    "processor_io_wait_percent": ("processor_noncpu_percentage", 1),
    "processor_io_wait_time_seconds": ("processor_noncpu_time_seconds", 1),
    "speedup_factor": ("speedup", 1),
    "total_bytes_memory_read": ("total_bytes_memory_read_dask", 1),
    "total_bytes_read": ("total_bytes_read_coffea", 1),
    "total_events_from_chunks": ("total_events", 1),
}

_IN_BYTES = frozenset(("disk-read", "disk-write", "memory-read"))  # roastcoffea prints them as MB

SpanMetrics = Mapping[tuple[str, ...], float]


def metrics(run: RunFile) -> dict[str, Any]:
    """Metrics of a run under our names and roastcoffea's.

    Returns
    -------
    dict
        Name to number, in the units of ``summary/workflow``, NaN where they are not known; ``per_dataset`` and ``sections`` hold a
        dictionary for each dataset and section: seconds, events, counts; ``bytes_read_percent_per_file`` a percentage for each file.
    """
    found: dict[str, Any] = run.summary()
    for name, (ours, factor) in _NAMES.items():
        if ours in found:
            found[name] = found[ours] * factor
    found |= _read_percent(run)
    found["per_dataset"] = _per_dataset(run)
    found["sections"] = _sections(run)
    return found


def _sums(run: RunFile, rows: Mapping[str, np.ndarray], by: str, *columns: str) -> dict[str, list]:
    """Name of an id to the number of its rows and the sum of each column."""
    if not len(rows[by]):
        return {}
    ids, position = np.unique(rows[by], return_inverse=True)
    counts = np.bincount(position)
    totals = [np.bincount(position, weights=rows[column]) for column in columns]
    names = _named(run, by, ids)
    return {
        str(name): [int(counts[i]), *(float(total[i]) for total in totals)]
        for i, name in enumerate(names)
        if name is not None
    }


def _named(run: RunFile, column: str, ids: np.ndarray) -> list[str | None]:
    """Names of ids; None where one is unknown."""
    known = run.names(column.removesuffix("_id"))
    return [known[i] if i < len(known) else None for i in ids]


def _read_percent(run: RunFile) -> dict[str, Any]:
    """What was read of the trees of the files: bytes by file, and both means."""
    names = ("avg_bytes_read_percent", "avg_branches_read_percent")
    unknown: dict[str, Any] = dict.fromkeys(names, math.nan)
    if "chunks" not in run:
        return unknown | {"bytes_read_percent_per_file": {}}
    rows = counted(run, *access.NEEDED)
    trees = access.trees(run)
    by_file = access.bytes_percent(rows, trees, np.arange(len(trees["dataset"])))
    together = access.branches_percent(rows, trees, np.zeros(len(trees["dataset"]), int))
    files = run.names("file")
    return {
        names[0]: float(np.mean(list(by_file.values()))) if by_file else math.nan,
        names[1]: together.get(0, math.nan),
        "bytes_read_percent_per_file": {files[i]: percent for i, percent in by_file.items()},
    }


def _per_dataset(run: RunFile) -> dict[str, dict[str, float]]:
    if "chunks" not in run:
        return {}
    rows = counted(run, "dataset_id", "wall_s", "n_events")
    sums = _sums(run, rows, "dataset_id", "wall_s", "n_events")
    return {
        name: {
            "num_chunks": count,
            "total_duration": seconds,
            "total_events": int(events),
            "mean_duration": seconds / count,
            "mean_events_per_chunk": events / count,
        }
        for name, (count, seconds, events) in sums.items()
    }


def _sections(run: RunFile) -> dict[str, dict[str, float]]:
    if "sections" not in run:
        return {}
    rows = run.arrays("sections", ["section_id", "wall_s"])
    return {
        name: {"count": count, "total_duration": seconds, "mean_duration": seconds / count}
        for name, (count, seconds) in _sums(run, rows, "section_id", "wall_s").items()
    }


# ---------------------------------------------------------------- what Dask metered


def span_metrics(run: RunFile) -> dict[tuple[str, ...], float]:
    """What Dask metered, in the keys that its spans have.

    Returns
    -------
    dict
        ``("execute", prefix, activity, unit)``, for transfers ``("gather-dep", activity, unit)`` and their like, to the sum over all
        workers, in that unit.
    """
    if "activities" not in run:
        return {}
    fields = ["value", "task_prefix_id", "activity_id", "unit_id", "context"]
    dataset = run.file["activities"]
    rows = dataset.fields(fields)[:]
    contexts = {c: n for n, c in h5py.check_enum_dtype(dataset.dtype["context"]).items()}
    rows = rows[[contexts.get(int(c), "busy") not in ("busy", "other") for c in rows["context"]]]
    keys, position = np.unique(rows[fields[1:]], return_inverse=True)
    totals = np.bincount(position, weights=rows["value"], minlength=len(keys))
    names = {field: _named(run, field, keys[field]) for field in fields[1:4]}
    found: dict[tuple[str, ...], float] = {}
    for i, key in enumerate(keys):
        context = contexts[int(key["context"])].replace("_", "-")
        activity = (str(names["activity_id"][i]), str(names["unit_id"][i]))
        prefix = (str(names["task_prefix_id"][i]),) if context == "execute" else ()
        whole = (context, *prefix, *activity)
        found[whole] = found.get(whole, 0.0) + float(totals[i])
    return found


def extract_per_task_metrics(span_metrics: SpanMetrics) -> dict[str, dict[str, float]]:
    """Activities of each task prefix, from `MetricsCollector.span_metrics` or ``cumulative_worker_metrics`` of a Dask span.

    Returns
    -------
    dict
        Prefix to activity to seconds; of what was read or written (``disk-read``, ``disk-write``, ``memory-read``) to bytes, as in
        roastcoffea. An activity without that unit has bytes, else its count.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for key, value in span_metrics.items():
        if len(key) == 4 and key[0] == "execute":
            prefix, activity, unit = map(str, key[1:])
            found.setdefault(prefix, {}).setdefault(activity, {})[unit] = value
    return {
        prefix: {activity: _in_its_unit(activity, values) for activity, values in of.items()}
        for prefix, of in found.items()
    }


def _in_its_unit(activity: str, values: Mapping[str, float]) -> float:
    """The value of an activity, by unit, that stands for it."""
    first, second = ("bytes", "seconds") if activity in _IN_BYTES else ("seconds", "bytes")
    unit = next((u for u in (first, second, "count") if u in values), next(iter(values)))
    return values[unit]


def _bytes_by_task(span_metrics: SpanMetrics, activity: str) -> dict[str, float]:
    wanted = [key for key in span_metrics if len(key) == 4 and key[0] == "execute"]
    return {
        str(key[1]): span_metrics[key]
        for key in wanted
        if key[2:] == (activity, "bytes") and span_metrics[key] > 0
    }


# ---------------------------------------------------------------- measurements


def save_measurement(
    path: str | os.PathLike, output_dir: str | os.PathLike, measurement_name: str | None = None
) -> pathlib.Path:
    """Write a run as a measurement of roastcoffea: metrics, start and end, and the run file itself.

    Parameters
    ----------
    path : path
        The run file.
    output_dir : path
        Directory of the measurement's own one.
    measurement_name : str, optional
        Name of that; the time now if it is not given.

    Returns
    -------
    pathlib.Path
        The measurement's directory.

    Raises
    ------
    OSError
        If something cannot be written.
    """
    name = measurement_name or time.strftime("%Y-%m-%d_%H-%M-%S")
    directory = pathlib.Path(output_dir) / name
    directory.mkdir(parents=True, exist_ok=True)
    with open_run(path) as run:
        values = {name: _json(value) for name, value in metrics(run).items()}
        start_s, end_s = (1e-9 * run.attributes[f"t_run_{end}_ns"] for end in ("start", "end"))
    (directory / "metrics.json").write_text(json.dumps(values, indent=2), encoding="utf-8")
    (directory / "start_end_time.txt").write_text(f"{start_s!r},{end_s!r}\n", encoding="utf-8")
    metadata = {
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "elapsed_time_seconds": end_s - start_s,
        "format": FORMAT,
        "run_file": pathlib.Path(path).name,
    }
    (directory / "metadata.json").write_text(json.dumps(metadata, indent=2), encoding="utf-8")
    shutil.copy2(path, directory)
    return directory


def _json(value: Any) -> Any:
    """JSON has no NaN: what is not known is null, at any depth."""
    if isinstance(value, dict):
        return {name: _json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def load_measurement(
    measurement_path: str | os.PathLike,
) -> tuple[dict[str, Any], float, float]:
    """Metrics, start and end of a measurement that `save_measurement` or roastcoffea wrote; the times in seconds.

    Raises
    ------
    FileNotFoundError
        If the directory, or one of its files, is not there.
    ValueError
        If one of them cannot be understood.
    """
    directory = pathlib.Path(measurement_path)
    if not directory.is_dir():
        raise FileNotFoundError(f"there is no measurement {directory}")
    values = json.loads((directory / "metrics.json").read_text(encoding="utf-8"))
    line = (directory / "start_end_time.txt").read_text(encoding="utf-8").strip()
    try:
        start_s, end_s = map(float, line.split(","))
    except ValueError as error:
        raise ValueError(
            f"{directory / 'start_end_time.txt'}: {line!r} is not two times"
        ) from error
    return values, start_s, end_s


# ---------------------------------------------------------------- plots


def plot_per_task_cpu_io(
    span_metrics: SpanMetrics,
    output_path: str | os.PathLike | None = None,
    title: str = "CPU and non-CPU time per task",
    figsize: tuple[float, float] = (12, 6),
) -> tuple[Figure, Axes]:
    """Seconds of thread CPU, and of the rest, of the tasks of each prefix.

    Raises
    ------
    ValueError
        If Dask metered no task.
    """
    per_task = extract_per_task_metrics(span_metrics)
    bars = {
        label: {name: found.get(activity, 0.0) for name, found in per_task.items()}
        for label, activity in (("CPU", "thread-cpu"), ("not CPU", "thread-noncpu"))
    }
    return _bars(bars, "s", "Dask metered no task", output_path, title, figsize)


def plot_per_task_bytes_read(
    span_metrics: SpanMetrics,
    output_path: str | os.PathLike | None = None,
    title: str = "Bytes read per task",
    figsize: tuple[float, float] = (12, 6),
) -> tuple[Figure, Axes]:
    """GB of spilled data that the tasks of each prefix read back; where nothing was spilled, of what they found in memory.

    Raises
    ------
    ValueError
        If there is neither.
    """
    for activity in ("disk-read", "memory-read"):
        found = _bytes_by_task(span_metrics, activity)
        if found:
            break
    bars = {activity: {name: value / 1e9 for name, value in found.items()}}
    return _bars(bars, "GB", "Dask metered no bytes of tasks", output_path, title, figsize)


def plot_per_task_overhead(
    span_metrics: SpanMetrics,
    output_path: str | os.PathLike | None = None,
    title: str = "Compression and serialization per task",
    figsize: tuple[float, float] = (12, 6),
) -> tuple[Figure, Axes]:
    """Seconds of compression and serialization, both ways, of the tasks of each prefix.

    Raises
    ------
    ValueError
        If Dask metered none.
    """
    per_task = extract_per_task_metrics(span_metrics)
    bars = {
        activity: {name: found.get(activity, 0.0) for name, found in per_task.items()}
        for activity in ("decompress", "compress", "deserialize", "serialize")
    }
    missing = "Dask metered no compression or serialization"
    return _bars(bars, "s", missing, output_path, title, figsize)


def _bars(
    bars: Mapping[str, Mapping[str, float]],
    unit: str,
    missing: str,
    output_path: str | os.PathLike | None,
    title: str,
    figsize: tuple[float, float],
) -> tuple[Figure, Axes]:
    """A group of bars for each task, one for each label; tasks of which nothing is known are left out."""
    import matplotlib.pyplot as plt

    names = sorted({n for row in bars.values() for n, v in row.items() if v > 0 and n != "N/A"})
    if not names:
        raise ValueError(missing)
    figure, axes = plt.subplots(figsize=figsize, layout="constrained")
    at, width = np.arange(len(names)), 0.8 / len(bars)
    for i, (label, row) in enumerate(bars.items()):
        axes.bar(at + (i + 0.5) * width - 0.4, [row.get(n, 0.0) for n in names], width, label=label)
    axes.set(title=title, ylabel=unit, xlabel="task")
    axes.set_xticks(at, names, rotation=30, ha="right")
    axes.legend()
    if output_path is not None:
        figure.savefig(output_path, dpi=150)
    return figure, axes
