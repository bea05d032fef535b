"""The diagnosis in sentences. Every number comes from the file: the sink made the diagnosis, this module words it."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any

from .._numbers import readable
from ..report import grows, quantity

if TYPE_CHECKING:
    from ..reader import RunFile

LEAST = 0.01  # of the capacity: below, a cause is not worth a sentence
NEIGHBOURS = 0.05  # from here on other runs come first: all other seconds depend on theirs
SHOWN = 3
_WORK = "compute"  # what the threads are there for

_UNDIVIDED = "went to tasks of which nothing says whether they are the analysis itself"

# What of the evidence says where in the analysis it was.
_LINE = re.compile(r"(.+:\d+) has \d+ % of it")
_QUOTA = re.compile(r"a CPU quota of .+ of its periods")
_SPOT = re.compile(
    rf".+:\d+ has \d+ % of it$|section .|at .|child .|dataset .+ of the events$|{_QUOTA.pattern}"
)

# Cause -> where the seconds went, after "NN % of your thread-seconds".
_WENT = {
    "compute": "went to computing in process(): the work itself",
    "garbage_collection": "went to Python's garbage collector",
    "input": "were process() waiting for its input",
    "service": "were process() waiting for a service",
    "file": "were process() waiting for a file, a pipe or a terminal that is not its input",
    "lock": "were process() waiting for a lock",
    "sleep": "were process() sleeping",
    "native": "were process() waiting for other threads of its process, which computed",
    "children": "were process() waiting for child processes",
    "page_fault": "were process() waiting for memory that had to be read from disk",
    "waiting": "were waiting, cause not seen",
    "gil": "were threads waiting for Python's lock (the GIL)",
    "cores": "were threads that were ready to run and found no free core",
    "user_metered": "went to what your own code metered in tasks",
    "chunk_overhead": "were paid for each chunk whatever its size",
    "opening": "were waiting before process(), for files to be opened",
    "slow_servers": "were lost to servers that make chunks wait longer than others",
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


# The same where there are tasks and no chunks.
_OF_TASKS = {
    "chunk_overhead": "were paid for each task whatever its length",
    "tail": "were threads with nothing left to do while the last tasks ran",
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
    rows = [r for r in rows if r.status != "unavailable" and (r.fraction >= LEAST or grows(r))]
    spent = {r.category: r.thread_seconds for r in run.rows("summary/waterfall")}
    found = [*_neighbours(spent), *(_finding(run, row, spent, wall_s) for row in rows)]
    # Memory that grows is said whatever its rank: it has cost no seconds yet.
    return found[:shown] + [each for each in found[shown:] if each.name == "memory_growth"]


def _neighbours(spent: dict[str, float]) -> list[Finding]:
    """Other runs on the same workers, which are no cause in this one."""
    capacity_s = sum(spent.values())
    taken_s = spent.get("other_runs", 0.0)
    if not taken_s >= NEIGHBOURS * capacity_s > 0:
        return []
    fraction = taken_s / capacity_s
    return [
        Finding(
            "other_runs",
            fraction,
            f"{100 * fraction:.0f} % of your {readable(capacity_s, 4)} thread-seconds went to tasks of other runs on the same"
            " workers.",
            "",
            "tasks of other clients, or of other runs, on these workers",
            "workers of its own; what follows shares what the others left",
            "",
        )
    ]


def _finding(run: RunFile, row: Any, spent: dict[str, float], wall_s: float) -> Finding:
    if grows(row):
        what = f"The memory of the workers grows from chunk to chunk: {row.evidence}."
        return Finding(row.name, 0.0, what, "", row.evidence, _advice(run, row), "")
    capacity_s = sum(spent.values())
    share = f"{100 * row.fraction:.0f} %" if row.fraction >= 0.1 else f"{100 * row.fraction:.1f} %"
    went = _WENT.get(row.name, f"went to {row.name.replace('_', ' ')}")
    if not len(run.file["chunks"]):
        went = _OF_TASKS.get(row.name, went.replace("process()", "the tasks"))
    if row.name == "cores" and _QUOTA.search(row.evidence):
        went = "were threads that were ready to run and not allowed a core"
    saving = "" if row.name == _WORK else _saving(row, wall_s)
    # Without a processor, as in dask-awkward's graphs, the tasks may be what the threads are there for.
    if row.name == "other_tasks" and spent.get("unattributed", 0) > spent.get("overhead", 0):
        went, saving = _UNDIVIDED, ""
    doubt = {
        "ambiguous": "Ambiguous: another cause may have taken more of the same seconds.",
        "estimated": "Estimated from looks at threads or by a rule, not measured directly.",
        "incomplete": "Incomplete: records are missing.",
    }.get(row.status, "")
    return Finding(
        row.name,
        row.fraction,
        f"{share} of your {readable(capacity_s, 4)} thread-seconds {went}{_where(row)}.",
        saving,
        row.evidence,
        _advice(run, row),
        doubt,
    )


def _where(row: Any) -> str:
    """Line, section, server or peer in brackets, as far as the evidence names them; and that it is ambiguous."""
    parts = [part for part in row.evidence.split("; ") if _SPOT.match(part)]
    if row.name == "slow_servers" and ": " in row.evidence:
        parts.append(row.evidence.split("; ")[-1].rpartition(": ")[2])
    if row.status == "ambiguous":
        parts.append("ambiguous")
    return f" ({', '.join(parts)})" if parts else ""


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
    """A suggestion; with the number of events if chunks are too small, and the line that computes."""
    if row.name == _WORK and (line := _LINE.match(row.evidence)):
        return row.advice.replace("profile process()", f"begin with {line[1]}")
    if row.name in ("chunk_overhead", "opening"):
        files = sum(each.n_files for each in run.rows("summary/per_dataset"))
        if 0 < files == run.summary().get("num_chunks"):  # chunks cannot be larger
            merge = (
                "merge the files: each chunk already is a whole one; fewer branches in the schema"
            )
            return merge if row.name == "chunk_overhead" else row.advice
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
