"""What the scheduler knows about a worker, read from Dask's state of it; each value that is missing costs its column only."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from . import _records
from ._dask import text
from ._records import MEMBERSHIP, WORKER_SAMPLES

_STATUS = {n: WORKER_SAMPLES.label("status", n) for n in ("running", "paused", "closing", "lost")}
_EVENT = {
    n: MEMBERSHIP.label("event", n) for n in ("join", "leave", "lost", "retire", "pause", "resume")
}
_SOURCE = WORKER_SAMPLES.label("source", "scheduler")

Read = Callable[[str, Callable[[], Any], Any], Any]  # `_recorder.Recorder.read`


def nthreads(read: Read, state: Any) -> int:
    """Task slots."""
    return read("membership.nthreads", lambda: int(state.nthreads), _records.UNKNOWN_U16)


def limit_b(read: Read, state: Any) -> int:
    """Memory limit; Dask's 0 means none."""
    return read("membership.memory_limit_b", lambda: int(state.memory_limit) or -1, -1)


def membership(read: Read, state: Any, worker_id: int, event: str, evidence: int) -> _records.Row:
    """Row of /membership, for now."""
    return MEMBERSHIP.row(
        t_ns=time.time_ns(),
        memory_limit_b=limit_b(read, state),
        worker_id=worker_id,
        nthreads=nthreads(read, state),
        event=_EVENT[event],
        evidence=evidence,
        t_uncertainty_ns=0,
    )


def sample(read: Read, state: Any, worker_id: int, t_ns: int) -> _records.Row:
    """Row of /worker_samples; memory is from the worker's last heartbeat."""
    unknown = _records.UNKNOWN_U16

    def sampled(column: str, get: Callable[[Any], Any], otherwise: Any = -1) -> Any:
        return read(f"worker_samples.{column}", lambda: get(state), otherwise)

    return WORKER_SAMPLES.row(
        t_ns=t_ns,
        cpu_pct=sampled("cpu_pct", lambda s: float(s.metrics.get("cpu", math.nan)), math.nan),
        rss_b=sampled("rss_b", lambda s: int(s.memory.process)),
        memory_limit_b=limit_b(read, state),
        managed_b=sampled("managed_b", lambda s: int(s.memory.managed)),
        spilled_b=sampled("spilled_b", lambda s: int(s.memory.spilled)),
        occupancy_s=sampled("occupancy_s", lambda s: float(s.occupancy), math.nan),
        worker_id=worker_id,
        nthreads=nthreads(read, state),
        executing=sampled("executing", _n_executing, unknown),
        processing=sampled("processing", lambda s: min(len(s.processing), unknown - 1), unknown),
        status=sampled("status", _status_of, _STATUS["running"]),
        source=_SOURCE,
    )


def _n_executing(state: Any) -> int:
    return len(state.executing) + len(state.long_running)


def _status_of(state: Any) -> int:
    return _STATUS.get(text(state.status.name), _STATUS["closing"])
