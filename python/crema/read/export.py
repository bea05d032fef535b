"""A run file in other formats: tables as CSV or Parquet, the task stream as a trace for Perfetto and Chrome."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _output
from .code import trace_chunks

if TYPE_CHECKING:
    from .reader import RunFile

_NO_THREAD = 0xFFFF


def tables(
    run: RunFile,
    directory: str | os.PathLike,
    *,
    kind: str,
    names: Sequence[str] = (),
) -> list[pathlib.Path]:
    """Write tables, one file each: ``chunks.csv``, ``summary-workflow.csv``.

    Parameters
    ----------
    run : RunFile
        Sealed or live.
    directory : path
        Created if it does not exist; existing files are replaced.
    kind : str
        ``csv`` or ``parquet``. Parquet keeps the types, and units in the metadata of the frame; it needs pyarrow.
    names : sequence of str, optional
        All tables, if empty.

    Returns
    -------
    list of pathlib.Path
        In the order of the tables.

    Raises
    ------
    KeyError
        If there is no such table.
    ImportError
        If pyarrow is missing.
    OSError
        If a file cannot be written.
    """
    for name in names:
        run.units(name)  # before anything is written
    where = _output.directory(directory)
    written = []
    for name in names or run.keys():
        frame = run.table(name, times=True)
        path = where / f"{name.strip('/').replace('/', '-')}.{kind}"
        if kind == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path, index=False, engine="pyarrow")
        written.append(path)
    return written


def trace(run: RunFile, path: str | os.PathLike) -> int:
    """Write the task stream as a Chrome trace (JSON), which https://ui.perfetto.dev and chrome://tracing open.

    A process is a worker, a thread is one of its slots; an event is a task on its thread, in microseconds since the run began, and
    within it opening and process() of its chunk and the user's sections: the slowest 100,000 of each. Memory and CPU of the workers
    are counters.

    Parameters
    ----------
    run : RunFile
        Sealed or live.
    path : path
        Path of the file, which is replaced; compressed if it ends with ``.gz``.

    Returns
    -------
    int
        Events written.
    """
    n = 0
    with _output.opened(path) as file:
        file.write('{"displayTimeUnit":"ms","otherData":')
        about = {"run_id": run.run_id, "verdict": run.verdict}
        if missing := trace_chunks.left_out(run):
            about["left_out"] = ", ".join(f"{n:,} of the {name}" for name, n in missing.items())
        file.write(json.dumps(about))
        file.write(',"traceEvents":[')
        for event in _events(run):
            file.write(("," if n else "") + "\n" + json.dumps(event, separators=(",", ":")))
            n += 1
        file.write("\n]}\n")
    return n


def _lanes(rows: dict[str, np.ndarray], actions: dict[int, str]) -> dict[int, str]:
    """Name of the lane of each event that has no thread, by row: those of one worker overlap, and what shares a lane must not."""
    ends: dict[tuple[int, str], list[int]] = {}  # of each lane: when its last event ends
    lanes = {}
    alone = np.flatnonzero((rows["t_start_ns"] > 0) & (rows["thread"] == _NO_THREAD))
    for i in alone[np.argsort(rows["t_start_ns"][alone], kind="stable")].tolist():
        start, stop = int(rows["t_start_ns"][i]), int(rows["t_stop_ns"][i])
        action = actions.get(rows["action"][i], "?")
        taken = ends.setdefault((int(rows["worker_id"][i]), action), [])
        free = next((n for n, end in enumerate(taken) if end <= start), len(taken))
        taken[free : free + 1] = [max(start, stop)]
        lanes[i] = f"{action} {free + 1}" if free else action
    return lanes


def _events(run: RunFile) -> Iterator[dict[str, Any]]:
    for i, name in enumerate(run.names("worker")):
        yield {"ph": "M", "name": "process_name", "pid": i, "args": {"name": name}}
    start_ns = int(run.file.attrs.get("t_run_start_ns", 0))
    columns = ["t_start_ns", "t_stop_ns", "worker_id", "thread", "side", "status", "action"]
    rows = run.arrays("task_events", [*columns, "task_prefix_id", "nbytes"])
    prefixes = run.names("task_prefix")
    labels = {
        column: {code: label for label, code in run.labels("task_events", column).items()}
        for column in ("side", "status", "action")
    }
    lanes = _lanes(rows, labels["action"])
    for i in np.flatnonzero(rows["t_start_ns"] > 0):
        prefix, action = (
            int(rows["task_prefix_id"][i]),
            labels["action"].get(rows["action"][i], "?"),
        )
        name = prefixes[prefix] if prefix < len(prefixes) else "?"
        thread = int(rows["thread"][i])
        event = {
            "ph": "X",
            "name": name if action == "compute" else f"{action} {name}",
            "cat": labels["side"].get(rows["side"][i], "?"),
            "ts": round((int(rows["t_start_ns"][i]) - start_ns) * 1e-3, 3),
            "dur": round(max(0, int(rows["t_stop_ns"][i]) - int(rows["t_start_ns"][i])) * 1e-3, 3),
            "pid": int(rows["worker_id"][i]),
            "tid": thread if thread != _NO_THREAD else lanes[i],
            "args": {
                "status": labels["status"].get(rows["status"][i], "?"),
                "bytes": int(rows["nbytes"][i]),
            },
        }
        yield event
    yield from trace_chunks.events(run, start_ns)
    samples = run.arrays("worker_samples", ["t_ns", "worker_id", "rss_b", "cpu_pct"])
    for t_ns, worker, rss, cpu in zip(*samples.values(), strict=True):
        at = {"ph": "C", "pid": int(worker), "ts": round((int(t_ns) - start_ns) * 1e-3, 3)}
        if rss >= 0:
            yield {**at, "name": "memory [MB]", "args": {"resident": round(int(rss) * 1e-6, 3)}}
        if np.isfinite(cpu):
            yield {**at, "name": "CPU [%]", "args": {"process": round(float(cpu), 1)}}
