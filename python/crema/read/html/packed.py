"""Tasks and chunks for the canvas of the page: columns of integers, byte planes apart, deflated, base64."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plots._style import SIDES, NothingToDrawError, since, window
from ..plots.tasks import slots

if TYPE_CHECKING:
    from ..reader import RunFile

TASKS_MAX = 1_000_000  # all of them up to here
CHUNKS_MAX = 1_000_000
NONE = 0xFFFFFFFF
_SLOWEST = 0.01


def pack(run: RunFile, *, tasks_max: int = TASKS_MAX) -> tuple[str, str]:
    """Data for the canvas.

    Returns
    -------
    str
        Base64 of the deflated columns; empty if no task was recorded.
    str
        What is left out, as a sentence; empty if nothing is.
    """
    try:
        tasks = slots(run)
    except NothingToDrawError:
        return "", ""
    said = ""
    n = len(tasks["slot"])
    if n > tasks_max:
        slowest = max(1, int(_SLOWEST * n))
        keep = np.argpartition(tasks["start_ns"] - tasks["stop_ns"], slowest - 1)[:slowest]
        tasks = {name: values[keep] for name, values in tasks.items()}
        said = (
            f"{n:,} tasks are too many for a page: drawn are the slowest 1 % ({len(keep):,}); "
            "the busy threads above are of all of them."
        )
    order = np.lexsort((tasks["start_ns"], tasks["slot"]))
    tasks = {name: values[order] for name, values in tasks.items()}
    window_ns = window(run)
    unit_s = max(1e-6, (window_ns[1] - window_ns[0]) * 1e-9 / 4e9)
    start = np.round(since(tasks["start_ns"], window_ns) / unit_s).astype(np.int64)
    stop = np.round(since(tasks["stop_ns"], window_ns) / unit_s).astype(np.int64)
    n_slots = int(tasks["slot"].max()) + 1
    counts = np.bincount(tasks["slot"], minlength=n_slots)
    first = np.append(0, np.cumsum(counts)[:-1])
    step = np.diff(start, prepend=0)
    step[first[counts > 0]] = start[first[counts > 0]]
    side_labels = {code: label for label, code in run.labels("task_events", "side").items()}
    chunks = _chunks(run, tasks, window_ns, unit_s)
    header = {
        "unit_s": unit_s,
        "end": round((window_ns[1] - window_ns[0]) * 1e-9 / unit_s),
        "sides": [side_labels.get(i, "") for i in range(max(side_labels) + 1)],
        "colours": [
            SIDES.get(side_labels.get(i, ""), "#888888") for i in range(max(side_labels) + 1)
        ],
        "prefixes": run.names("task_prefix"),
        "workers": run.names("worker"),
        "datasets": run.names("dataset"),
        "slot_worker": tasks["worker"][first].tolist(),
        "ok": run.labels("task_events", "status")["ok"],
        "statuses": list(run.labels("task_events", "status")),
        "chunk_statuses": list(run.labels("chunks", "status")),
    }
    columns = {
        "count": counts,
        "step": step,
        "took": stop - start,
        "side": tasks["side"],
        "status": tasks["status"],
        "prefix": tasks["prefix"],
        **chunks,
    }
    return encode(header, columns), said


def _chunks(run: RunFile, tasks: Any, window_ns: tuple[int, int], unit_s: float) -> dict[str, Any]:
    """Attempts at chunks, each with the row of its task, NONE where there is none."""
    names = [
        "t_start_ns",
        "t_end_ns",
        "n_events",
        "wall_s",
        "dataset_id",
        "status",
        "task_key",
        "worker_id",
    ]
    rows = run.arrays("chunks", names)
    if len(rows["wall_s"]) > CHUNKS_MAX:
        slowest = int(_SLOWEST * len(rows["wall_s"]))
        keep = np.argpartition(-np.nan_to_num(rows["wall_s"]), slowest)[:slowest]
        rows = {name: values[keep] for name, values in rows.items()}
    by_key = np.argsort(tasks["key"], kind="stable")
    keys = tasks["key"][by_key]
    at = np.searchsorted(keys, rows["task_key"])
    task = np.full(len(at), NONE, dtype=np.int64)
    for later in range(4):  # attempts at one key: the one whose interval holds the chunk's end
        row = by_key[np.minimum(at + later, len(keys) - 1)]
        same = (at + later < len(keys)) & (tasks["key"][row] == rows["task_key"])
        same &= (tasks["worker"][row] == rows["worker_id"]) & (
            tasks["stop_ns"][row] >= rows["t_end_ns"]
        )
        task = np.where((task == NONE) & same, row, task)
    started = since(rows["t_start_ns"], window_ns) / unit_s
    return {
        "c_start": np.round(started).astype(np.int64),
        "c_events": np.where(rows["n_events"] >= 0, np.minimum(rows["n_events"], NONE - 1), NONE),
        "c_wall": np.minimum(np.round(np.nan_to_num(rows["wall_s"], nan=0) * 1e5), NONE - 1),
        "c_dataset": rows["dataset_id"],
        "c_status": rows["status"],
        "c_task": task,
    }


def encode(header: dict[str, Any], columns: dict[str, Any]) -> str:
    """Length of the header, header as JSON with name, width and length of each column, then byte plane after byte plane."""
    described, planes = [], []
    for name, values in columns.items():
        values = np.asarray(values).astype(np.int64)
        top = int(values.max(initial=0))
        width = next(w for w in (1, 2, 4) if top < 1 << 8 * w)
        described.append([name, width, len(values)])
        raw = values.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
        planes.append(np.ascontiguousarray(raw.T).tobytes())
    head = json.dumps({**header, "columns": described}).encode()
    body = struct.pack("<I", len(head)) + head + b"".join(planes)
    return base64.b64encode(zlib.compress(body, 6)).decode()
