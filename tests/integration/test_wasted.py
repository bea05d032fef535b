"""Work that came to nothing, with its reason: cancelled, lost with its worker, done and lost before anybody fetched it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import threading
import time
from typing import NamedTuple

import pytest
from coffea import processor
from distributed import Client, Future

import crema
import measured_runs
import workloads
from clusters import LocalCluster
from crema._demo_data import make_fileset
from crema._demo_processor import Schema
from losses import nothing_lost_or_twice
from waiting import wait_for

pytestmark = [pytest.mark.timing, pytest.mark.timeout(300)]  # seconds that were wasted
CHUNK, CHUNKS = 200, 8


class Entry(NamedTuple):
    """An attempt, as the processor itself wrote it down; `ended` is None where it never came to that."""

    pid: int
    start: int
    stop: int
    began: float
    ended: float | None


def read(diary: pathlib.Path) -> list[Entry]:
    entries = []
    for path in diary.iterdir():
        pid, start, stop, began = path.name.split("-")
        text = path.read_text()
        ended = float(text) if text else None
        entries.append(Entry(int(pid), int(start), int(stop), float(began), ended))
    return sorted(entries, key=lambda entry: entry.began)


@contextlib.contextmanager
def in_the_background(trouble):
    """Its failure is the test's."""
    failures = []

    def run():
        try:
            trouble()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()
    if failures:
        raise failures[0]


class Scene:
    """A cluster, a fileset of eight chunks in one file, and a processor that keeps a diary."""

    def __init__(self, tmp_path, workers, threads, busy_s):
        self.directory = tmp_path
        self.diary = tmp_path / "diary"
        self.diary.mkdir()
        fileset = make_fileset(tmp_path / "files", 4 * CHUNK * CHUNKS, lambda n: None)
        dataset, files = next(iter(fileset.items()))
        path = next(iter(files["files"]))
        self.fileset = {dataset: {"files": {path: files["files"][path]}}}
        self.instance = workloads.Diary(busy_s, str(self.diary))
        self.cluster = LocalCluster(
            n_workers=workers, threads_per_worker=threads, dashboard_address=None
        )
        self.client = Client(self.cluster)

    def close(self):
        self.client.close()
        self.cluster.close()

    def collector(self):
        return crema.MetricsCollector(
            self.client, processor_instance=self.instance, output=self.directory
        )

    def run(self, collector):
        runner = processor.Runner(
            executor=processor.DaskExecutor(client=self.client, status=False),
            schema=Schema,
            chunksize=CHUNK,
            savemetrics=True,
            checkpointer=collector.checkpointer,
        )
        return runner.run(self.fileset, processor_instance=self.instance, treename="Events")

    def is_forgotten(self) -> bool:
        return self.client.run_on_scheduler(lambda dask_scheduler: not dask_scheduler.tasks)

    def address_of(self, pid: int) -> str:
        pids = self.client.run(os.getpid)
        return next(address for address, found in pids.items() if found == pid)


@pytest.fixture
def scenes(tmp_path):
    made = []

    def make(**options):
        made.append(Scene(tmp_path, **options))
        return made[-1]

    yield make
    for scene in made:
        scene.close()


def wasted(path) -> dict:
    """Rows of chunks: (worker, reason) -> row."""
    with crema.open(path) as file:
        rows = [row for row in file.rows("summary/wasted") if str(row.what) == "chunk"]
    print(*rows, sep="\n")
    return {(row.worker, str(row.reason)): row for row in rows}


def must_be(
    row,
    entries: list[Entry],
    until: float | None = None,
    slack_s: float = 0.5,
    recovered: bool = True,
):
    """`row` is of these attempts, all or none of which succeeded later in the same pass; one without an end was over at `until`."""
    assert row.n_attempts == len(entries)
    assert row.n_recovered == (len(entries) if recovered else 0)
    assert row.n_events == sum(entry.stop - entry.start for entry in entries)
    seconds = sum((entry.ended or until) - entry.began for entry in entries)
    # Opening the file is before the diary begins.
    assert seconds - 0.05 <= row.wall_s <= seconds + slack_s * len(entries)


def must_have_counted_each_chunk_once(mc, result):
    with nothing_lost_or_twice():
        assert measured_runs.chunk_identities(mc.path) == measured_runs.processed_identities(result)
        assert len(measured_runs.counted_chunks(mc.path)) == CHUNKS
    with crema.open(mc.path) as file:
        waterfall = file["summary/waterfall"].set_index("category").thread_seconds
        waste = file["summary/wasted"]
    assert waterfall.wasted == pytest.approx(waste.wall_s.sum(), rel=0.1, abs=0.1)
    print(f"residual {waterfall.residual / waterfall.sum():+.4f}")
    assert abs(waterfall.residual) <= 0.02 * waterfall.sum()


def test_cancelled_chunks_are_waste_until_they_really_end(scenes):
    """Dask lets their threads run on: what they used until then came to nothing too."""
    scene = scenes(workers=1, threads=2, busy_s=0.7)
    cancelled = []

    def cancel():
        wait_for(lambda: len(read(scene.diary)) == 2, 60, "two running chunks")
        cancelled.append(time.time())
        futures = [Future(key, scene.client) for key in list(scene.client.futures)]
        print("cancelled", [future.key for future in futures if not future.done()])
        scene.client.cancel(futures)

    with scene.collector() as mc:
        with in_the_background(cancel), pytest.raises(BaseException, match=r"(?i)cancel"):
            scene.run(mc)
        wait_for(
            lambda: all(entry.ended for entry in read(scene.diary)), 60, "an end of the threads"
        )
        wait_for(scene.is_forgotten, 60, "an end of the cancelled tasks")
        result = scene.run(mc)
    in_vain = [entry for entry in read(scene.diary) if entry.began < cancelled[0]]
    assert len(in_vain) == 2 and all(entry.ended > cancelled[0] for entry in in_vain)
    rows = wasted(mc.path)
    assert {reason for _, reason in rows} == {"cancelled"}
    # The second submission is another pass: nothing of the first one came of them.
    must_be(next(iter(rows.values())), in_vain, recovered=False)
    must_have_counted_each_chunk_once(mc, result)


def test_chunks_on_a_killed_worker_are_lost(scenes):
    scene = scenes(workers=2, threads=1, busy_s=2.0)
    killed = []

    def kill():
        wait_for(lambda: len(read(scene.diary)) == 2, 60, "two running chunks")
        time.sleep(1.5)  # a sample of the hook is taken while the chunk runs
        pid = read(scene.diary)[0].pid
        address = scene.address_of(pid)
        os.kill(pid, signal.SIGKILL)
        killed.extend((pid, address, time.time()))

    with scene.collector() as mc, in_the_background(kill):
        result = scene.run(mc)
    pid, address, at = killed
    rows = wasted(mc.path)
    assert set(rows) == {(address, "lost")}
    must_be(rows[address, "lost"], [e for e in read(scene.diary) if e.pid == pid], until=at)
    must_have_counted_each_chunk_once(mc, result)


def test_results_that_died_with_their_worker_are_superseded(scenes):
    """Dask computes them again; the first time was in vain."""
    scene = scenes(workers=2, threads=1, busy_s=0.5)
    killed = []

    def kill():
        def done():
            return [entry for entry in read(scene.diary) if entry.ended]

        wait_for(lambda: len(done()) >= 4, 60, "four finished chunks")
        time.sleep(0.2)  # nobody fetches results before all are there
        pid = done()[0].pid
        address = scene.address_of(pid)
        os.kill(pid, signal.SIGKILL)
        killed.extend((pid, address, time.time()))

    with scene.collector() as mc, in_the_background(kill):
        result = scene.run(mc)
    pid, address, at = killed
    mine = [entry for entry in read(scene.diary) if entry.pid == pid]
    finished = [entry for entry in mine if entry.ended]
    again = {entry.start for entry in read(scene.diary) if entry.pid != pid}
    assert len(finished) >= 2 and {entry.start for entry in mine} <= again
    rows = wasted(mc.path)
    assert set(rows) <= {(address, "superseded"), (address, "lost")}
    must_be(rows[address, "superseded"], finished)
    if len(mine) > len(finished):
        must_be(rows[address, "lost"], mine[len(finished) :], until=at)
    must_have_counted_each_chunk_once(mc, result)
