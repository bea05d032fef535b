"""Chunks and the user's sections for a trace: within the events of their tasks, on the same threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..reader import RunFile

EVENTS_MAX = 100_000  # of chunks, and of sections: the slowest ones
_NO_THREAD = 0xFFFF


def left_out(run: RunFile) -> dict[str, int]:
    """How many chunks and sections are not in a trace, because others took longer; only what is not 0."""
    more = {name: len(run.file[name]) - EVENTS_MAX for name in ("chunks", "sections")}
    return {name: n for name, n in more.items() if n > 0}


def events(run: RunFile, start_ns: int) -> Iterator[dict[str, Any]]:
    """Opening and process() of each chunk, and entries into sections; times are microseconds since `start_ns`."""
    columns = ["t_start_ns", "t_end_ns", "open_s", "wall_s", "n_events", "dataset_id"]
    columns += ["chunk_id", "stream_id", "worker_id", "thread"]
    chunks = run.arrays("chunks", columns)
    placed = (chunks["thread"] != _NO_THREAD) & (chunks["t_start_ns"] > 0)
    datasets = run.names("dataset")
    for i in _slowest(np.where(placed, chunks["wall_s"], np.nan)):
        dataset = int(chunks["dataset_id"][i])
        event = {
            "ph": "X",
            "cat": "chunk",
            "pid": int(chunks["worker_id"][i]),
            "tid": int(chunks["thread"][i]),
            "args": {
                "dataset": datasets[dataset] if dataset < len(datasets) else "?",
                "events": int(chunks["n_events"][i]),
            },
        }
        began_us = (int(chunks["t_start_ns"][i]) - start_ns) * 1e-3
        open_us, took_us = 1e6 * float(chunks["open_s"][i]), 1e6 * float(chunks["wall_s"][i])
        if open_us > 0:
            at = {"ts": round(began_us - open_us, 3), "dur": round(open_us, 3)}
            yield {**event, "name": "opening", **at}
        yield {**event, "name": "process()", "ts": round(began_us, 3), "dur": round(took_us, 3)}
    yield from _sections(run, chunks, placed, start_ns)


def _sections(
    run: RunFile, chunks: dict[str, np.ndarray], placed: np.ndarray, start_ns: int
) -> Iterator[dict[str, Any]]:
    """Entries into sections, each on the thread of its attempt at a chunk."""
    columns = ["t_start_ns", "wall_s", "cpu_s", "chunk_id", "stream_id", "section_id"]
    rows = run.arrays("sections", columns)
    names = run.names("section")
    attempts: dict[tuple[int, int], list[int]] = {}
    for i in np.flatnonzero(placed).tolist():
        attempts.setdefault((int(chunks["chunk_id"][i]), int(chunks["stream_id"][i])), []).append(i)
    for i in _slowest(rows["wall_s"]):
        t_ns = int(rows["t_start_ns"][i])
        of = attempts.get((int(rows["chunk_id"][i]), int(rows["stream_id"][i])), ())
        at = next((c for c in of if chunks["t_start_ns"][c] <= t_ns <= chunks["t_end_ns"][c]), None)
        if at is None:  # outside a chunk: its thread is not known
            continue
        section = int(rows["section_id"][i])
        yield {
            "ph": "X",
            "name": names[section] if section < len(names) else "?",
            "cat": "section",
            "ts": round((t_ns - start_ns) * 1e-3, 3),
            "dur": round(1e6 * float(rows["wall_s"][i]), 3),
            "pid": int(chunks["worker_id"][at]),
            "tid": int(chunks["thread"][at]),
            "args": {"cpu_s": round(float(np.nan_to_num(rows["cpu_s"][i])), 6)},
        }


def _slowest(seconds: np.ndarray) -> list[int]:
    """Rows with the most seconds, in their order in the table; without those whose seconds are unknown."""
    known = np.flatnonzero(np.isfinite(seconds))
    if len(known) > EVENTS_MAX:
        known = np.sort(known[np.argpartition(-seconds[known], EVENTS_MAX)[:EVENTS_MAX]])
    return known.tolist()
