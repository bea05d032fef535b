"""What recording costs a worker: microseconds a call, and how many bare appends of a record that is.

    python tests/bench/hook.py [SPOOL-DIRECTORY]

Each figure is CPU time of the calling thread, system calls included, over rounds of calls in one process: the median and the least. Rounds
of appends lie between those of what is measured; the ratio is that of the least of both, which a busy machine changes little. The chunk's
metrics name 30 columns, as a usual analysis touches.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator

import crema
from crema.hook import _recorder, _records
from crema.hook._config import HookConfig
from crema.hook._digests import ActivityTotals
from crema.hook.chunks import ChunkHook

ROUNDS, CALLS = 60, 100

Call = Callable[[int], object]


def time_us(call: Call, first: int) -> float:
    """CPU time of one of a round's calls."""
    began = time.thread_time_ns()
    for i in range(first, first + CALLS):
        call(i)
    return (time.thread_time_ns() - began) / CALLS / 1000


def measure(name: str, call: Call, append: Call) -> None:
    """Print what a call takes, against what appending a record takes."""
    rounds, appends = [], []
    for r in range(ROUNDS):
        appends.append(time_us(append, 0))
        rounds.append(time_us(call, r * CALLS))
    print(
        f"{name:44} {statistics.median(rounds):8.2f} us   best {min(rounds):8.2f}"
        f"   {min(rounds) / min(appends):6.2f} appends"
    )


def section(tracker: type[crema.Tracker]) -> Call:
    """A call that enters and leaves a section."""

    def call(i: int) -> None:
        with tracker("a section"):
            pass

    return call


def calls(top: str) -> Iterator[tuple[str, Call]]:
    """What a worker may do, by name; the first one appends a record of the smallest kind."""
    config = HookConfig(str(uuid.uuid4()), spool=f"{top}/spool", start_agent=False)
    stream = _recorder.process_recorder(config).stream
    body = _records.HEARTBEATS.one(_records.HEARTBEATS.row(t_ns=1, sent=2))
    yield "append a record", lambda i: stream.append(_records.BATCH, body)
    fd = os.open(pathlib.Path(top, "plain"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    frame = bytes(200)
    yield "write() of 200 B, nothing else", lambda i: os.write(fd, frame)

    hook = ChunkHook(config)
    metrics = {
        "processtime": 0.001,
        "entries": 100_000,
        "bytesread": 10_000_000,
        "columns": {f"Muon_branch{n}-{what}" for n in range(15) for what in ("data", "offsets")},
    }
    output = {"out": None, "metrics": metrics, "processed": set()}
    chunk = {"dataset": "dy", "filename": "root://somewhere//store/mc/file.root"}
    chunk |= {"fileuuid": str(uuid.uuid4()), "treename": "Events", "user": "metadata"}
    chunks = [{**chunk, "entrystart": i, "entrystop": i + 1} for i in range(ROUNDS * CALLS)]

    def load(i: int) -> None:
        hook.load(chunks[i], None)

    def _work_function(i: int) -> None:
        """As coffea's, which calls both: its factory is looked for there."""
        hook.load(chunks[i], None)
        hook.save(output, chunks[i], None)

    _work_function(0)
    yield "a chunk that begins behind one that failed", load
    yield "a chunk, begin and end", _work_function
    load(0)
    yield "a section", section(crema.track_time)
    yield "a section that looks at memory", section(crema.track_memory)
    yield "a metric", lambda i: crema.record_metric("a metric", i, "count")
    metrics["columns"] = {f"branch{n}-data" for n in range(2000)}
    yield "a chunk of 2000 columns, begin and end", _work_function

    totals = {("execute", "s", f"p{n // 12}", f"a{n % 12}", "seconds"): 0.0 for n in range(480)}
    activities = ActivityTotals(totals, stream, 0)
    activities.baseline()
    keys = list(totals)
    yield "look through 480 totals, none changed", lambda i: activities.changes()

    def task(i: int) -> None:
        activities.task_ends("p3", True)
        for key in keys[36:48]:
            totals[key] += 0.001

    yield "a task's end, 12 totals attributed", task


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as top:
        os.environ.pop("CREMA_SPOOL", None)
        nothing = time_us(section(crema.track_time), 0)
        print(f"{'a section where nothing is recorded':44} {nothing:8.2f} us")
        append: Call | None = None
        for name, call in calls(top):
            append = append or call
            measure(name, call, append)


if __name__ == "__main__":
    main()
