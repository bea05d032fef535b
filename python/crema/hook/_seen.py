"""What the scheduler knows about a worker, read from Dask's state of it; each value that is missing costs its column only."""

from __future__ import annotations

import functools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from . import _records
from ._dask import or_else, text, u16
from ._records import MEMBERSHIP, WORKER_SAMPLES

_STATUS = {n: WORKER_SAMPLES.label("status", n) for n in ("running", "paused", "closing", "lost")}
_EVENT = {
    n: MEMBERSHIP.label("event", n) for n in ("join", "leave", "lost", "retire", "pause", "resume")
}
_SOURCE = WORKER_SAMPLES.label("source", "scheduler")
_UNKNOWN = _records.UNKNOWN_U16

Read = Callable[[str, Callable[[], Any], Any], Any]  # `_recorder.Recorder.read`


def nthreads(read: Read, state: Any) -> int:
    """Task slots."""
    return read("membership.nthreads", lambda: int(state.nthreads), _records.UNKNOWN_U16)


def limit_b(read: Read, state: Any) -> int:
    """Memory limit; Dask's 0 means none."""
    return read("membership.memory_limit_b", lambda: int(state.memory_limit) or -1, -1)


def membership(read: Read, state: Any, worker_id: int, event: str, evidence: int) -> dict[str, Any]:
    """Columns of a row of /membership, for now."""
    return {
        "t_ns": time.time_ns(),
        "memory_limit_b": limit_b(read, state),
        "worker_id": worker_id,
        "nthreads": nthreads(read, state),
        "event": _EVENT[event],
        "evidence": evidence,
        "t_uncertainty_ns": 0,
    }


def sharing(states: Iterable[Any]) -> Counter[str]:
    """Workers by process, for `sample`: those inside one have addresses like ``inproc://host/pid/number``."""
    return Counter(_process_of(state) for state in states)


def _process_of(state: Any) -> str:
    address = text(or_else(lambda: state.address, ""))
    return address.rpartition("/")[0] if address.startswith("inproc://") else address


def sample(
    read: Read, state: Any, worker_id: int, t_ns: int, sharing: Counter[str]
) -> _records.Row:
    """Row of /worker_samples; CPU and memory are from the worker's last heartbeat, of its process without children."""
    among = max(sharing[_process_of(state)], 1)
    memory = or_else(lambda: state.memory, None)
    try:
        values = {column: get(state, memory) for column, (get, _) in _SAMPLED.items()}
    except Exception:  # each column on its own, which takes longer
        values = {
            c: read(f"worker_samples.{c}", functools.partial(get, state, memory), otherwise)
            for c, (get, otherwise) in _SAMPLED.items()
        }
    values["cpu_pct"] /= among
    values["rss_b"] = values["rss_b"] if values["rss_b"] < 0 else values["rss_b"] // among
    return WORKER_SAMPLES.row(
        t_ns=t_ns,
        process_workers=among,
        memory_limit_b=limit_b(read, state),
        worker_id=worker_id,
        nthreads=nthreads(read, state),
        source=_SOURCE,
        **values,
    )


# By column: what reads it from Dask's state of a worker and from the memory there, and the value for "unknown".
_SAMPLED: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "cpu_pct": (lambda s, memory: float(s.metrics.get("cpu", math.nan)), math.nan),
    "rss_b": (lambda s, memory: int(memory.process), -1),
    "managed_b": (lambda s, memory: int(memory.managed), -1),
    "spilled_b": (lambda s, memory: int(memory.spilled), -1),
    "occupancy_s": (lambda s, memory: float(s.occupancy), math.nan),
    "executing": (lambda s, memory: len(s.executing) + len(s.long_running), _UNKNOWN),
    "processing": (lambda s, memory: u16(len(s.processing)), _UNKNOWN),
    "status": (
        lambda s, memory: _STATUS.get(text(s.status.name), _STATUS["closing"]),
        _STATUS["running"],
    ),
}
