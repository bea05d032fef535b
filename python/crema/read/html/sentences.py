"""The diagnosis in sentences. Every number comes from the file: the sink made the diagnosis, this module words it."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from .._numbers import readable
from ..report import quantity

if TYPE_CHECKING:
    from ..reader import RunFile

LEAST = 0.01  # of the capacity: below, a cause is not worth a sentence
SHOWN = 3
_WORK = "compute"  # what the threads are there for

_UNDIVIDED = "went to tasks of which nothing says whether they are the analysis itself"

# Cause -> where the seconds went, after "NN % of your thread-seconds".
_WENT = {
    "compute": "went to computing in process(): the work itself",
    "garbage_collection": "went to Python's garbage collector",
    "input": "were process() waiting, mostly for input",
    "gil": "were threads waiting for Python's lock (the GIL)",
    "cores": "were threads that were ready to run and found no free core",
    "user_metered": "went to what your own code metered in tasks",
    "chunk_overhead": "were paid for each chunk whatever its size",
    "opening": "went to opening files",
    "slow_files": "were lost to files that take longer than others",
    "slow_workers": "were lost to workers that are slower than others",
    "spill": "went to spilling to disk, or to workers that Dask paused: memory was full",
    "serialization": "went to packing and unpacking data between tasks",
    "preprocessing": "went to coffea's preprocessing",
    "merging": "went to merging outputs",
    "other_tasks": "went to tasks that are neither chunks nor preprocessing nor merging",
    "wasted": "went to attempts that failed, or were done twice",
    "startup": "passed before the first task began, or while the executor started its processes",
    "drained": "passed after the last task had ended",
    "tail": "were threads with nothing left to do while the last chunks ran",
    "scaling": "were of threads that came late or left early",
    "starved": "were threads with nothing to do in the middle of the run",
    "latency": "were threads waiting for the scheduler though there was work",
    "imbalance": "were threads without work while others had a queue",
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One cause in words."""

    name: str
    fraction: float  # of the capacity
    finding: str
    saving: str  # empty: the file does not say
    evidence: str
    advice: str  # empty: nothing to be tried
    doubt: str  # empty: none


def findings(run: RunFile, *, shown: int = SHOWN) -> list[Finding]:
    """The causes that hold the run back, most expensive first; empty if the data support none.

    The work itself, ``compute``, is included: if it comes first, nothing else matters as much.

    Raises
    ------
    KeyError
        If the file has no summaries: it is live.
    """
    wall_s = run.summary().get("wall_time", math.nan)
    rows = sorted(run.rows("summary/bottlenecks"), key=lambda row: row.rank)
    rows = [r for r in rows if r.status != "unavailable" and r.fraction >= LEAST]
    spent = {r.category: r.thread_seconds for r in run.rows("summary/waterfall")}
    return [_finding(run, row, spent, wall_s) for row in rows[:shown]]


def _finding(run: RunFile, row: Any, spent: dict[str, float], wall_s: float) -> Finding:
    capacity_s = sum(spent.values())
    share = f"{100 * row.fraction:.0f} %" if row.fraction >= 0.1 else f"{100 * row.fraction:.1f} %"
    went = _WENT.get(row.name, f"went to {row.name.replace('_', ' ')}")
    saving = "" if row.name == _WORK else _saving(row, wall_s)
    # Without a processor, as in dask-awkward's graphs, the tasks may be what the threads are there for.
    if row.name == "other_tasks" and spent.get("unattributed", 0) > spent.get("overhead", 0):
        went, saving = _UNDIVIDED, ""
    doubt = {
        "ambiguous": "Ambiguous: another cause explains the same seconds as well.",
        "estimated": "Estimated from samples and a model, not measured directly.",
        "incomplete": "Incomplete: records are missing.",
    }.get(row.status, "")
    return Finding(
        row.name,
        row.fraction,
        f"{share} of your {readable(capacity_s, 4)} thread-seconds {went}.",
        saving,
        row.evidence,
        _advice(run, row),
        doubt,
    )


def _saving(row: Any, wall_s: float) -> str:
    saving_s, lo, hi = (getattr(row, name, math.nan) for name in ("saving_s", "lo", "hi"))
    if not math.isfinite(saving_s) or saving_s <= 0:
        return ""
    of = f" of {readable(wall_s)} s" if math.isfinite(wall_s) else ""
    text = f"Without it the run{of} would be about {readable(saving_s)} s shorter"
    if math.isfinite(lo) and math.isfinite(hi):
        return f"{text}: between {readable(lo)} and {readable(hi)} s."
    return f"{text}; one run gives no interval for this."


def _advice(run: RunFile, row: Any) -> str:
    """A suggestion; with the number of events if chunks are too small."""
    if row.name in ("chunk_overhead", "opening"):
        best = {m.n_opt_events for m in run.rows("summary/chunk_model")}
        best = {n for n in best if math.isfinite(n) and n > 0}
        now = run.attributes.get("chunksize", -1)
        if best and isinstance(now, int) and 0 < now < 0.8 * max(best):
            best_events = float(f"{max(best):.2g}")
            return f"chunks of {best_events:,.0f} events instead of {now:,} (makespan of the chunk model)"
    return row.advice


def headline(run: RunFile) -> list[tuple[str, str, str]]:
    """Numbers of the first line: label, value, and a mark if the value is uncertain."""
    rows = {row.name: row for row in run.rows("summary/workflow")}

    def entry(name: str, label: str, *, scale: float = 1.0, unit: str | None = None) -> Any:
        row = rows.get(name)
        if row is None or not math.isfinite(row.value):
            return label, "–", "unavailable"
        mark = "" if row.status == "ok" else row.status
        return label, quantity(scale * row.value, unit or row.units), mark

    return [
        entry("total_events", "events"),
        entry("event_rate_wall_clock", "event rate", scale=1000, unit="Hz"),
        entry("total_cores", "threads, average"),
        entry("wall_time", "wall time"),
        entry("core_efficiency", "of the threads in process()", scale=100, unit="%"),
        entry("num_chunks", "chunks"),
    ]
