"""Work that a killed worker had done twice: the summary's seconds are those of Dask's task stream and of the processor's own notes.

The oracle is written from docs/metrics.md alone. It takes from Dask what each task took (`client.get_task_stream`), from the processor
what each attempt took by the clocks of its thread, and from the run file nothing but the summary that is judged, and `/chunks`.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import signal
import threading
import time

import pytest
from coffea import processor
from distributed import Client
from distributed.utils import key_split

import crema
import measured_runs
import workloads
from clusters import LocalCluster
from crema._demo_data import make_fileset
from crema._demo_processor import Schema
from losses import nothing_lost_or_twice
from waiting import wait_for

pytestmark = [pytest.mark.timing, pytest.mark.long, pytest.mark.timeout(250)]
CHUNK, CHUNKS, BUSY_S = 200, 10, 1.6


class Noted(workloads.SlowCounter):
    """Notes of each attempt, by the clocks of its own thread; the file is empty until it ends."""

    def __init__(self, busy_s: float, directory: str):
        super().__init__(busy_s)
        self.directory = directory

    def process(self, events):
        began, cpu = time.time(), time.thread_time()
        start = events.metadata["entrystart"]
        with open(f"{self.directory}/{os.getpid()}-{start}-{began}", "x") as note:
            out = super().process(events)
            note.write(f"{time.time()} {time.thread_time() - cpu}")
        return out


@dataclasses.dataclass
class Attempt:
    pid: int
    start: int
    began: float
    ended: float | None
    cpu_s: float

    @property
    def wall_s(self) -> float:
        return self.ended - self.began


def attempts(directory: pathlib.Path) -> list[Attempt]:
    found = []
    for path in directory.iterdir():
        pid, start, began = path.name.split("-")
        ended, cpu_s = (*map(float, path.read_text().split()),) or (None, math.nan)
        found.append(Attempt(int(pid), int(start), float(began), ended, cpu_s))
    return sorted(found, key=lambda attempt: attempt.began)


@dataclasses.dataclass
class Task:
    """A task that returned, as Dask's scheduler heard of it."""

    key: str
    worker: str
    start: float
    stop: float
    again: bool  # the same key was computed later: the first result was lost

    @property
    def prefix(self) -> str:
        return key_split(self.key)

    @property
    def wall_s(self) -> float:
        return self.stop - self.start


def tasks(stream: list[dict]) -> list[Task]:
    found, seen = [], set()
    for entry in reversed(stream):
        spans = [span for span in entry["startstops"] if span["action"] == "compute"]
        assert entry["status"] == "OK" and len(spans) == 1, entry
        key = str(entry["key"])
        span = spans[0]
        found.append(Task(key, entry["worker"], span["start"], span["stop"], key in seen))
        seen.add(key)
    return found[::-1]


def in_time(some: list[Task]) -> float:
    return sum(task.wall_s for task in some)


@dataclasses.dataclass
class Seen:
    """What happened, and what crema says of it."""

    attempts: list[Attempt]
    tasks: list[Task]
    victim: str
    victim_pid: int
    pids: dict[int, str]  # those at the beginning, with their addresses
    killed_at: float
    result: dict
    mc: crema.MetricsCollector
    dask: dict  # its own metrics of the run's span: (prefix, activity, unit) -> total

    @property
    def chunks(self) -> list[Task]:
        return [task for task in self.tasks if task.prefix == "Noted"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> Seen:
    place = tmp_path_factory.mktemp("repeated")
    (notes := place / "notes").mkdir()
    fileset = make_fileset(place / "files", 4 * CHUNK * CHUNKS, lambda n: None)
    dataset, files = next(iter(fileset.items()))
    path, tree = next(iter(files["files"].items()))
    instance, killed = Noted(BUSY_S, str(notes)), []

    def kill():
        """One that has a result, in the last part of its next chunk: a sample was taken while it ran."""

        def victim():
            now, done = time.time(), attempts(notes)
            finished = {attempt.pid for attempt in done if attempt.ended}
            running = [a for a in done if a.ended is None and now - a.began > BUSY_S * 0.7]
            return next((a.pid for a in running if a.pid in finished), None)

        pid = wait_for(victim, 90, "a worker with a result and a running chunk", 0.01)
        os.kill(pid, signal.SIGKILL)
        killed.extend((pid, time.time()))

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        addresses = {pid: address for address, pid in client.run(os.getpid).items()}
        client.get_task_stream()  # from here on the scheduler keeps it
        with crema.MetricsCollector(client, instance, output=place, quiet=True) as mc:
            began = time.time()
            killer = threading.Thread(target=kill)
            killer.start()
            runner = processor.Runner(
                executor=processor.DaskExecutor(client=client, status=False),
                schema=Schema,
                chunksize=CHUNK,
                savemetrics=True,
                checkpointer=mc.checkpointer,
                metadata_cache={},
            )
            with measured_runs.span("measured") as span_id:
                result = runner.run(
                    {dataset: {"files": {path: tree}}},
                    processor_instance=instance,
                    treename="Events",
                )
            killer.join()
            mc.set_coffea_report(result["metrics"])
            stream = client.get_task_stream(start=began)
        dask = measured_runs.span_metrics(client, span_id)
    pid, at = killed
    return Seen(
        attempts(notes), tasks(list(stream)), addresses[pid], pid, addresses, at, result, mc, dask
    )


def of(seen: Seen, table: str, key: str, value: str) -> dict[str, float]:
    with crema.open(seen.mc.path) as run:
        return {str(getattr(row, key)): float(getattr(row, value)) for row in run.rows(table)}


def again(seen: Seen) -> list[Task]:
    """The victim's tasks whose results died with it."""
    return [task for task in seen.tasks if task.again]


def lost(seen: Seen) -> list[Attempt]:
    """Its attempts that had no end."""
    return [a for a in seen.attempts if a.pid == seen.victim_pid and a.ended is None]


def show(name: str, ours: float, theirs: float) -> None:
    print(f"{name}: crema {ours:.3f} s, oracle {theirs:.3f} s, {ours - theirs:+.3f} s")


def must_be(name: str, ours: float, theirs: float, slack_s: float = 0.1) -> None:
    show(name, ours, theirs)
    assert ours == pytest.approx(theirs, rel=0.03, abs=slack_s), name


def test_story_is_the_one_that_was_planned(seen):
    """Else the tests below compare nothing: a worker died with results, in the middle of a chunk, and only for that something is missing."""
    assert len(lost(seen)) == 1
    assert again(seen) and {task.worker for task in again(seen)} == {seen.victim}
    assert {task.prefix for task in again(seen)} == {"Noted"}
    assert seen.mc.verdict == "PARTIAL"
    assert {reason["code"] for reason in seen.mc.reasons} == {"writer_killed"}
    assert len({attempt.start for attempt in seen.attempts}) == CHUNKS
    with nothing_lost_or_twice():
        chunks = measured_runs.counted_chunks(seen.mc.path)
        assert sorted(chunks.entry_start) == [CHUNK * i for i in range(CHUNKS)]
        assert int(chunks.n_events.sum()) == seen.result["metrics"]["entries"]


def notes_of(seen: Seen, task: Task) -> Attempt:
    """The attempt of that task, by time: no two run at once on a worker of one thread."""
    (found,) = (
        attempt
        for attempt in seen.attempts
        if attempt.ended
        and task.start - 0.01 <= attempt.began
        and attempt.ended <= task.stop + 0.01
        and (attempt.pid == seen.victim_pid) == (task.worker == seen.victim)
        and seen.pids.get(attempt.pid, task.worker) == task.worker
    )
    return found


def test_wasted_seconds_are_those_of_lost_and_repeated_chunks(seen):
    """metrics.md: `wasted` is attempts that were lost with their worker or computed again; a lost attempt ends when its worker left;
    `/summary/wasted` has it by worker, kind and reason. Whether the part of a repeated task that is in no row of `/chunks` (imports in
    a worker's first one) is wasted too, the page says in two ways: both are accepted."""
    of_repeated = in_time(again(seen))
    noted_s = sum(notes_of(seen, task).wall_s for task in again(seen))
    (unfinished,) = lost(seen)
    before = max(task.stop for task in seen.tasks if task.worker == seen.victim)
    with crema.open(seen.mc.path) as run:
        rows = run.rows("summary/wasted")
    print(*rows, sep="\n")
    by_reason = {str(row.reason): row for row in rows}
    assert set(by_reason) == {"lost", "superseded"}
    assert {row.worker for row in rows} == {seen.victim}
    assert {str(row.what) for row in rows} == {"chunk"}
    assert by_reason["superseded"].n_attempts == len(again(seen))
    assert by_reason["superseded"].n_recovered == len(again(seen))
    assert by_reason["superseded"].n_events == CHUNK * len(again(seen))
    assert (by_reason["lost"].n_attempts, by_reason["lost"].n_recovered) == (1, 1)
    show("superseded", by_reason["superseded"].wall_s, of_repeated)
    assert noted_s - 0.05 <= by_reason["superseded"].wall_s <= of_repeated + 0.05
    # It began between the end of the task before and process(), and its worker was seen to leave within a second.
    show("lost", by_reason["lost"].wall_s, seen.killed_at - unfinished.began)
    least_s = seen.killed_at - unfinished.began
    assert least_s - 0.05 <= by_reason["lost"].wall_s <= seen.killed_at - before + 1
    waterfall = of(seen, "summary/waterfall", "category", "thread_seconds")
    must_be("wasted", waterfall["wasted"], sum(row.wall_s for row in rows))


def test_processor_seconds_and_repeated_ones_are_those_of_its_tasks(seen):
    """metrics.md: `processor_cpu` is thread CPU of the processor's tasks, opening of files included, `processor_noncpu` the rest of
    them; what was computed again is taken out of both and is in `wasted`. Every second is in exactly one row."""
    waterfall = of(seen, "summary/waterfall", "category", "thread_seconds")
    with crema.open(seen.mc.path) as run:
        (repeated,) = (row for row in run.rows("summary/wasted") if str(row.reason) == "superseded")
        chunks = run["chunks"]
    count = [task for task in seen.chunks if not task.again]
    assert len(count) == CHUNKS
    ours = waterfall["processor_cpu"] + waterfall["processor_noncpu"]
    must_be("processor and repeated", ours + repeated.wall_s, in_time(seen.chunks), 0.15)
    assert ours >= in_time(count) - 0.15, "seconds of chunks that count are missing"
    last = [notes_of(seen, task) for task in count]
    assert sorted(attempt.start for attempt in last) == [CHUNK * i for i in range(CHUNKS)]
    cpu_s = sum(attempt.cpu_s for attempt in last)
    wall_s = sum(attempt.wall_s for attempt in last)
    outside_s = in_time(count) - wall_s  # opening, imports, and what coffea does besides
    of_repeated_s = in_time(again(seen)) - repeated.wall_s
    show("processor_cpu", waterfall["processor_cpu"], cpu_s)
    most_s = cpu_s + outside_s + of_repeated_s
    assert cpu_s - 0.1 <= waterfall["processor_cpu"] <= most_s + 0.1
    metrics = measured_runs.workflow(seen.mc.path)
    must_be("process_wall_time", metrics["process_wall_time"], wall_s)
    assert cpu_s - 0.05 <= metrics["process_cpu_time"] <= cpu_s + outside_s + 0.05
    whole = chunks[(chunks.status == "ok") & ((chunks.quality & 8) == 0)]
    must_be("process_cpu_time", metrics["process_cpu_time"], whole.cpu_s.sum(), 1e-6)
    must_be("wall_s of counted attempts", float(whole.wall_s.sum()), wall_s)


def test_task_seconds_are_at_least_what_dasks_scheduler_heard_of(seen):
    """metrics.md: `cpu_time_seconds` and `io_time_seconds` are Dask's thread-cpu and thread-noncpu of all tasks, from the workers' own
    totals, which a lost heartbeat does not reduce. Together they are what the tasks took that returned."""
    metrics = measured_runs.workflow(seen.mc.path)
    both = 0.0
    for name, activity in (("cpu_time_seconds", "cpu"), ("io_time_seconds", "noncpu")):
        heard = sum(
            value
            for (_, what, unit), value in seen.dask.items()
            if (what, unit) == (f"thread-{activity}", "seconds")
        )
        show(name, metrics[name], heard)
        assert metrics[name] >= heard - 1e-6
        both += metrics[name]
    must_be("both", both, in_time(seen.tasks), 0.15)


def test_overhead_is_what_all_other_tasks_took(seen):
    """metrics.md: `overhead_*` is all other tasks: preprocessing, merging and the rest; the waterfall has them apart, by the names
    `automatic_retries` and `reduce`."""
    waterfall = of(seen, "summary/waterfall", "category", "thread_seconds")
    others = [task for task in seen.tasks if task.prefix != "Noted"]
    print(sorted((task.prefix, round(task.wall_s, 4)) for task in others))
    by_row = {"preprocess": "automatic_retries", "merge": "reduce"}
    for row, prefix in by_row.items():
        must_be(row, waterfall[row], in_time([t for t in others if t.prefix == prefix]), 0.05)
    rest = [task for task in others if task.prefix not in by_row.values()]
    must_be("overhead", waterfall["overhead"], in_time(rest), 0.05)
    metrics = measured_runs.workflow(seen.mc.path)
    both = metrics["overhead_cpu_time_seconds"] + metrics["overhead_noncpu_time_seconds"]
    must_be("overhead_*", both, in_time(others), 0.1)


def test_waterfall_of_the_run_adds_up_to_its_capacity(seen):
    """metrics.md: thread-seconds add up to Cap, the highest number of threads at one time, times W; the rest is `residual`, and beyond
    0.02 the budget does not close."""
    waterfall = of(seen, "summary/waterfall", "category", "thread_seconds")
    metrics = measured_runs.workflow(seen.mc.path)
    capacity = metrics["wall_time"] * metrics["peak_cores"]
    must_be("capacity", sum(v for v in waterfall.values() if v == v), capacity, 1e-3)
    print(f"residual {waterfall['residual'] / capacity:+.4f}")
    assert abs(waterfall["residual"]) <= 0.02 * capacity
    busy = in_time(seen.tasks) + sum(seen.killed_at - a.began for a in lost(seen))
    ours = sum(
        waterfall[name]
        for name in ("processor_cpu", "processor_noncpu", "user_metered", "preprocess", "merge")
    )
    ours += waterfall["overhead"] + waterfall["unattributed"] + waterfall["wasted"]
    must_be("all tasks", ours, busy, 1.0)
