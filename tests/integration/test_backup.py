"""A store that is copied while it runs, moved, or brought back from yesterday; and two copies of one at a time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import shutil
import subprocess
import time
import uuid

import pytest

import missing
from crema.collect import _client
from kept_records import PROGRAMS, run_lives, wait_for
from service_kit import ANY, Service, run

pytestmark = pytest.mark.timeout(180)
RUNS = 20
RATE = 400  # records per second of one writer


class Facility(run_lives.Life):
    """Many runs at a time, one writer each."""

    def __init__(self, *where: pathlib.Path):
        super().__init__(*where)
        (agent,) = self.agents
        agent.kill(restart=False)
        agent.command += ["--heartbeat-interval", "200ms"]  # what is waited for follows from it
        agent.start()

    def begin(self, n: int):
        began_ns = time.time_ns()
        opened = [run_lives.Run(self, len(self.runs) + i) for i in range(n)]
        self.runs += opened

        def are_open() -> bool:
            for each in opened:
                if each.phase < _client.OPEN:
                    each.say(_client.RUN_OPEN, t_start_ns=began_ns)
            return all(each.phase >= _client.OPEN for each in opened)

        self.wait(are_open, "RUN_OPEN")
        for each in opened:
            self.look_at(each)
            self.start_writer(self.spools[0], RATE)

    def look_at(self, each: run_lives.Run):
        self.run_id, self.ledger = each.run_id, each.ledger

    def wait_for_records(self, each: run_lives.Run, n: int = 5) -> int:
        """Until the journal has that many of the run's writer; how many it has."""
        self.look_at(each)

        def are_there() -> bool:
            with contextlib.suppress(AssertionError):  # no books before the writer has begun both
                return self.books().records >= n
            return False

        self.wait(are_there, n)
        return self.books().records

    def copy_store(self, to: str, *command: str) -> pathlib.Path:
        subprocess.run([*(command or ("cp", "-a")), f"{self.store}/.", self.work / to], check=True)
        return self.work / to

    def serve(self, store: pathlib.Path, *options: str):
        """The sink's place is taken by one with that store."""
        self.sink.kill(restart=False)
        self.sink.command = self.sink_command("--flush-interval", "50ms", *options, store=store)
        self.store = store
        self.sink.start()

    def end_all(self):
        self.stop_writers()
        self.ended = len(self.runs)
        self.wait(lambda: all(r.phase == _client.SEALED for r in self.runs), "sealing")


@pytest.fixture
def facility(tmp_path):
    made = Facility(PROGRAMS, tmp_path)
    yield made
    made.destroy()


@pytest.mark.parametrize("tool", ["cp -a", pytest.param("rsync -a", marks=pytest.mark.slow)])
def test_a_copy_of_a_running_store_starts_and_what_it_lacks_comes_or_is_counted(facility, tool):
    """What was acknowledged before the copy began is in it, whole; the spools bring the rest, or /gaps counts it."""
    if not shutil.which(tool.split()[0]):
        pytest.skip(missing.RSYNC)
    facility.begin(RUNS)
    before = {each.run_id: facility.wait_for_records(each) for each in facility.runs}
    copy = facility.copy_store("copy", *tool.split())
    for each in facility.runs:
        facility.wait_for_records(each, before[each.run_id] + 5)  # what the copy lacks
    facility.serve(copy)
    facility.end_all()
    lost = 0
    for each in facility.runs:
        facility.look_at(each)
        books = facility.books()
        assert (books.twice, books.wrong) == (0, 0), books
        assert books.lost == books.regressed
        assert books.records >= before[each.run_id]
        lost += books.lost
        assert sum(run_lives.gaps(each.path).values()) == books.lost
    assert lost == 0  # no segment of a spool was full, so all of it could be asked for again
    checked = run("crema-sink", "check", *(each.path for each in facility.runs))
    assert checked.returncode == 0, checked.stdout


def content(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def listed_paths(store: pathlib.Path) -> set[str]:
    listed = json.loads(run("crema-sink", "store", store, "--json").stdout)
    return {each["path"] for each in listed}


def kept_files(facility) -> dict[str, str]:
    """Content of the run files by name; live files come and go."""
    files = (path for path in facility.output.glob("*.h5") if not path.name.endswith(".live.h5"))
    return {path.name: content(path) for path in files}


def test_a_store_of_yesterday_replaces_no_run_file_that_holds_more(facility, tmp_path):
    facility.begin(2)
    before = [facility.wait_for_records(each) for each in facility.runs]
    yesterday = facility.copy_store("yesterday")
    for each, n in zip(facility.runs, before, strict=True):
        facility.wait_for_records(each, n + 5)
    facility.end_all()
    files = kept_files(facility)
    assert len(files) == 2
    for program in (*facility.agents, facility.aggregator):
        program.kill(restart=False)  # nobody brings anything: the store alone decides
    facility.serve(yesterday, "--orphan-after", "1s")
    log = facility.sink.log
    wait_for(lambda: log.read_text().count("run_file_kept") == 2, 30, "two files that are kept")
    assert kept_files(facility) == files
    # The sink notes the file in its store after the process that made it has logged it and ended.
    paths = {str(each.path) for each in facility.runs}
    wait_for(lambda: listed_paths(yesterday) == paths, 30, "both files in the list of the store")
    # By hand it is the same, and another name makes the file all the same.
    path, journal = facility.runs[0].path, yesterday / str(uuid.UUID(facility.runs[0].run_id))
    done = run("crema-sink", "rebuild", journal, "--output", path)
    assert done.returncode == 0 and "is kept" in done.stdout, done
    assert kept_files(facility) == files
    done = run("crema-sink", "rebuild", journal, "--output", tmp_path / "older.h5")
    assert done.returncode == 0 and "PARTIAL" in done.stdout, done


@pytest.mark.slow
def test_records_that_only_a_restored_store_has_lie_beside_the_file(facility, tmp_path):
    """Neither of the two holds what the other does: both are there."""
    facility.begin(1)
    before = facility.wait_for_records(facility.runs[0])
    yesterday = facility.copy_store("yesterday")
    facility.wait_for_records(facility.runs[0], before + 5)
    facility.stop_writers()
    facility.drain()
    facility.aggregator.kill(restart=False)
    facility.serve(facility.store, "--orphan-after", "1s")
    each = facility.runs[0]
    path = facility.output / f"{uuid.UUID(each.run_id)}.h5"
    wait_for(path.exists, 20, "the file of the first store")
    first = content(path)
    facility.aggregator.start()
    facility.serve(yesterday)
    facility.start_writer(facility.spools[0], RATE)  # one that the first store never had
    facility.wait_for_records(each, facility.books().records + 5)
    facility.stop_writers()
    facility.drain()
    facility.aggregator.kill(restart=False)
    facility.serve(yesterday, "--orphan-after", "1s")
    beside = path.with_suffix(".restored.h5")
    wait_for(beside.exists, 20, "the file of the second store")
    assert content(path) == first
    checked = run("crema-sink", "check", path, beside)
    assert checked.returncode == 0, checked.stdout


def test_a_copy_in_which_a_freed_run_is_half_there_costs_no_file(short_minute, facility):
    """The copy met a run's directory while it was being removed: its first segments are gone, its tombstone is not there."""
    facility.begin(1)
    facility.wait_for_records(facility.runs[0])
    facility.sink.kill()  # the next start begins another segment
    each = facility.runs[0]
    segment = facility.journal() / "000002.journal"
    facility.wait_for_records(each, facility.wait_for_records(each) + 5)
    assert segment.exists()
    facility.end_all()
    files = kept_files(facility)
    copy = facility.copy_store("copy")
    (copy / facility.journal().name / "000001.journal").unlink()
    facility.serve(copy)
    facility.begin(1)  # the service is none the worse for it
    facility.end_all()
    assert {name: kept_files(facility)[name] for name in files} == files
    done = run("crema-sink", "rebuild", copy / str(uuid.UUID(each.run_id)), "--output", each.path)
    assert done.returncode == 0 and "is kept" in done.stdout, done
    assert content(each.path) == files[each.path.name]


def test_one_of_two_copies_that_live_is_fenced(tmp_path):
    """Both would write files and live files of the same names; the copy waits for its turn, or has a place of its own."""
    store, copy, output = tmp_path / "store", tmp_path / "copy", tmp_path / "out"
    first = Service("crema-sink", "--bind", ANY, "--store", store, "--output", output)
    shutil.copytree(store, copy)
    second = "--bind", ANY, "--store", copy, "--output"
    refused = run("crema-sink", *second, output)
    assert refused.returncode == 1
    assert "a copy of this store" in refused.stderr and str(output) in refused.stderr
    Service("crema-sink", *second, tmp_path / "other").stop()
    other = Service("crema-sink", "--bind", ANY, "--store", tmp_path / "new", "--output", output)
    first.kill()
    taken = Service("crema-sink", *second, output)
    refused = run("crema-sink", "--bind", ANY, "--store", store, "--output", output)
    assert refused.returncode == 1, "the one that came back must not serve beside its copy"
    for service in (taken, other):
        assert service.stop()[0] == 0
