"""What recording costs a worker: microseconds a call, and the share of them that is the write itself.

    python tests/bench/hook.py [SPOOL-DIRECTORY]

Each figure is CPU time of the calling thread, system calls included: the median over rounds of calls in one process. The chunk's metrics
name 30 columns, as a usual analysis touches.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable

import crema
from crema import _recorder, _records
from crema._config import HookConfig
from crema._digests import ActivityTotals
from crema.chunks import ChunkHook

ROUNDS, CALLS = 15, 400


def measure(name: str, call: Callable[[int], None]) -> float:
    """Print and return the median over rounds of the time of a call, in microseconds."""
    rounds = []
    for r in range(ROUNDS):
        began = time.thread_time_ns()
        for i in range(CALLS):
            call(r * CALLS + i)
        rounds.append((time.thread_time_ns() - began) / CALLS / 1000)
    median = statistics.median(rounds)
    print(f"{name:44} {median:8.2f} us   best {min(rounds):8.2f}")
    return median


def sections(load: Callable[[int], None], a_chunk: float) -> None:
    """What the user's own calls cost within a chunk; the budgets are 10 us of a section and 25 of a chunk."""

    def section(tracker: type[crema.Tracker]) -> Callable[[int], None]:
        def call(i: int) -> None:
            with tracker("a section"):
                pass

        return call

    load(0)
    a_section = measure("a section", section(crema.track_time))
    print(f"{'':44} {a_section / a_chunk:8.2f} of a chunk; budget {10 / 25:.2f}")
    measure("a section that looks at memory", section(crema.track_memory))
    measure("a metric", lambda i: crema.record_metric("a metric", i, "count"))


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as top:
        os.environ.pop("CREMA_SPOOL", None)
        measure("a section where nothing is recorded", lambda i: crema.track_time("x").__enter__())
        config = HookConfig(str(uuid.uuid4()), spool=f"{top}/spool", start_agent=False)
        recorder = _recorder.process_recorder(config)
        stream = recorder.stream

        fd = os.open(pathlib.Path(top, "plain"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        frame = bytes(200)
        measure("write() of 200 B, nothing else", lambda i: os.write(fd, frame))
        body = _records.HEARTBEATS.batch([_records.HEARTBEATS.row(t_ns=1, sent=2)])
        measure("append a record", lambda i: stream.append(_records.BATCH, body))

        hook = ChunkHook(config)
        metrics = {
            "processtime": 0.001,
            "entries": 100_000,
            "bytesread": 10_000_000,
            "columns": {
                f"Muon_branch{n}-{what}" for n in range(15) for what in ("data", "offsets")
            },
        }
        output = {"out": None, "metrics": metrics, "processed": set()}
        chunk = {"dataset": "dy", "filename": "root://somewhere//store/mc/file.root"}
        chunk |= {"fileuuid": str(uuid.uuid4()), "treename": "Events", "user": "metadata"}

        def load(i: int) -> None:
            hook.load({**chunk, "entrystart": i, "entrystop": i + 1}, None)

        def both(i: int) -> None:
            load(i)
            hook.save(output, chunk, None)

        both(0)
        measure("a chunk that begins behind one that failed", load)
        a_chunk = measure("a chunk, begin and end", both)
        sections(load, a_chunk)
        metrics["columns"] = {f"branch{n}-data" for n in range(2000)}
        measure("a chunk of 2000 columns, begin and end", both)

        totals = {("execute", "s", f"p{n // 12}", f"a{n % 12}", "seconds"): 0.0 for n in range(480)}
        activities = ActivityTotals(totals, stream, 0)
        activities.baseline()
        keys = list(totals)
        measure("look through 480 totals, none changed", lambda i: activities.changes())

        def task(i: int) -> None:
            activities.task_ends("p3", True)
            for key in keys[36:48]:
                totals[key] += 0.001

        measure("a task's end, 12 totals attributed", task)


if __name__ == "__main__":
    main()
