"""Faults of the machine under the real programs: calls to the disk and allocations that fail, a full disk, a wall clock that jumps.

libfaulty.so (tests/unit/faulty) makes them fail, so none of it needs privileges. The default tier takes some calls, `slow` and `long` every one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import uuid

import h5py
import pandas as pd
import pytest

from kept_records import LONG, PROGRAMS, Supervised, Tail, must_have_kept_everything, wait_for
from losses import nothing_lost_or_twice
from paths import ROOT
from service_kit import Collector, run_file

SHIM = PROGRAMS / "libfaulty.so"

pytestmark = pytest.mark.timeout(180)


def faulty(**settings) -> dict:
    """What a program whose calls fail gets in its environment: see tests/unit/faulty/faulty.c."""
    plan = {f"FAULTY_{name.upper()}": str(value) for name, value in settings.items()}
    return {"LD_PRELOAD": str(SHIM), **plan}


def restart(program: Supervised, environment: dict):
    program.stop()
    program.environment = environment
    program.start()


def must_end_cleanly(program: Supervised):
    """If it ended, then with a status of its own and not by a signal; it is started again."""
    status = program.process.poll()
    if status is None:
        return
    assert status in (1, 2, 3), f"status {status}: {program.log.read_text()[-1500:]}"
    program.start()


# ---------------------------------------------------------------- EIO and failed syncs


def test_a_failed_sync_ends_the_sink_which_says_so(pipelines, tmp_path):
    pipeline = pipelines()
    failures = tmp_path / "failures"
    journal = pipeline.store / str(uuid.UUID(pipeline.run_id))
    restart(pipeline.sink, faulty(calls="sync", dir=journal, nth=6, log=failures))
    pipeline.start_writers(1000)
    wait_for(lambda: pipeline.sink.process.poll() is not None, 30, "the end of the sink")
    assert pipeline.sink.process.returncode == 1
    (said,) = [x for x in pipeline.sink.log.read_text().splitlines() if "journal_broken" in x]
    assert f"run={pipeline.run_id}" in said
    assert str(pipeline.journal()) in said
    assert "Input/output error" in said
    assert "remedy=" in said
    assert failures.read_text().count("\n") == 1  # it was not tried again
    pipeline.sink.environment = {}
    pipeline.sink.start()
    time.sleep(1)
    must_have_kept_everything(pipeline)


def test_a_tombstone_that_may_not_be_durable_ends_the_sink(pipelines, tmp_path):
    pipeline = pipelines(sink_options=("--retain", "1s"))
    failures, tombstones = tmp_path / "failures", pipeline.store / "tombstones"
    restart(pipeline.sink, faulty(calls="sync", dir=tombstones, nth=1, log=failures))
    collector = Collector(pipeline.endpoint, bytes.fromhex(pipeline.run_id))
    collector.open()
    pipeline.start_writers(200)
    time.sleep(0.5)
    pipeline.stop_writers()
    collector.end()
    wait_for(lambda: pipeline.sink.process.poll() is not None, 30, "the end of the sink")
    assert pipeline.sink.process.returncode == 1
    (said,) = [x for x in pipeline.sink.log.read_text().splitlines() if "tombstone_broken" in x]
    assert f"run={pipeline.run_id}" in said
    assert str(tombstones) in said
    assert "remedy=" in said
    assert failures.read_text().count("\n") == 1  # it was not tried again
    assert pipeline.journal().is_dir()
    pipeline.sink.environment = {}
    pipeline.sink.start()
    wait_for(lambda: not pipeline.journal().exists(), 30, "the end of the journal")
    assert tombstones.stat().st_size >= 2 * 48  # written anew, for the first may be on no disk
    late = pipeline.start_writer(pipeline.spools[0], 200)
    time.sleep(0.5)
    late.terminate()
    wait_for(lambda: not pipeline.held(), 30, "the end of the late stream")
    assert not pipeline.journal().exists()  # nothing of a freed run begins again
    collector.close()


@pytest.mark.parametrize("victim", ["sink", "agent"])
@pytest.mark.parametrize("seconds", [4, pytest.param(120, marks=LONG)])
def test_one_call_in_ten_fails(pipelines, tmp_path, victim, seconds):
    pipeline = pipelines()
    failures = tmp_path / "failures"
    program = pipeline.sink if victim == "sink" else pipeline.agents[0]
    directory = pipeline.store if victim == "sink" else pipeline.spools[0]
    plan = faulty(calls="disk", dir=directory, percent=10, log=failures)
    restart(program, plan)
    pipeline.start_writers(500)
    endings, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)
        endings += program.process.poll() is not None
        must_end_cleanly(program)
    n_failures = len(failures.read_text().splitlines())
    assert n_failures > 0
    restart(program, {})
    books = must_have_kept_everything(pipeline)
    print(f"{victim}: {n_failures} calls failed, it ended {endings} times, {books.records} records")


# ---------------------------------------------------------------- what an agent cannot read


def unreadable_first_segment(pipelines, tmp_path, calls, error):
    """A run with a stream whose files the agent cannot read from the start, another that it can; and how to mend that."""
    pipeline = pipelines(agent_options=("--heartbeat-interval", "200ms"))
    collector = Collector(pipeline.endpoint, bytes.fromhex(pipeline.run_id))
    collector.open()
    broken = tmp_path / "broken"
    writer = pipeline.start_writer(pipeline.spools[0], 200)
    wait_for(lambda: any(pipeline.ledger.glob("*.ledger")), 20, "its ledger")
    wait_for(lambda: Tail(pipeline).records() > 0, 20, "records of it")
    agent = pipeline.agents[0]
    agent.stop()
    name = pipeline.held()[0]
    broken.touch()
    where = pipeline.spools[0] / (name if calls == "open" else "")
    restart(agent, faulty(calls=calls, dir=where, error=error, **{"while": broken}))
    other = pipeline.start_writer(pipeline.spools[0], 200)
    wait_for(lambda: "event=unreadable" in agent.log.read_text(), 20, "the agent's warning")
    time.sleep(0.5)
    for one in (writer, other):
        one.terminate()
        one.wait(20)
    pipeline.writers.clear()
    return pipeline, collector, name, broken


@pytest.mark.parametrize(("calls", "error"), [("open", "EACCES"), ("list", "EIO")])
def test_an_unreadable_segment_is_named_in_the_verdict(
    short_minute, pipelines, tmp_path, calls, error
):
    pipeline, collector, name, broken = unreadable_first_segment(pipelines, tmp_path, calls, error)
    state = collector.end()
    reasons = [reason.decode(errors="replace") for reason in state.get(10, [])]
    assert state[9] == [b"PARTIAL"], state
    if calls == "open":
        (reason,) = [text for text in reasons if "file_unreadable" in text]
        assert name in reason
        assert "Permission denied" in reason
    else:
        (reason,) = [text for text in reasons if "spool_unreadable" in text]
        assert "Input/output error" in reason
    broken.unlink()  # it has become readable: nothing was lost, and the verdict is taken back
    wait_for(lambda: collector.end()[9] == [b"COMPLETE"], 30, "COMPLETE")
    collector.close()
    books = must_have_kept_everything(pipeline)
    assert books.streams == 2


def test_a_segment_that_becomes_readable_in_time_costs_nothing(pipelines, tmp_path):
    pipeline, collector, _, broken = unreadable_first_segment(pipelines, tmp_path, "open", "EMFILE")
    mend = threading.Timer(2, broken.unlink)
    mend.start()
    began = time.monotonic()
    state = collector.end()
    took_s = time.monotonic() - began
    mend.join()
    collector.close()
    assert state[9] == [b"COMPLETE"], state
    assert state.get(11, [2]) == [2], state  # revision 1, the first file
    assert 1.5 < took_s < 20  # it is asked again soon, not once the window closes
    assert must_have_kept_everything(pipeline).streams == 2


# ---------------------------------------------------------------- what an agent cannot write


def test_a_segment_that_could_not_be_removed_is_removed_later(pipelines, tmp_path):
    pipeline = pipelines()
    broken = tmp_path / "broken"
    broken.touch()
    plan = {"calls": "unlink", "dir": pipeline.spools[0] / "sp-", "error": "EACCES"}
    agent = pipeline.agents[0]
    restart(agent, faulty(**plan, **{"while": broken}))
    pipeline.start_writers(500)
    time.sleep(0.5)
    pipeline.stop_writers()
    wait_for(lambda: "event=trim_failed" in agent.log.read_text(), 30, "a failure")
    assert "Permission denied" in agent.log.read_text()
    time.sleep(2)
    assert pipeline.held()
    assert agent.log.read_text().count("event=trim_failed") == 1
    broken.unlink()
    wait_for(lambda: not pipeline.held(), 30, "an empty spool")
    must_have_kept_everything(pipeline)


@pytest.mark.slow
def test_a_worker_is_sampled_once_there_is_room(pipelines, tmp_path):
    pipeline = pipelines()
    full = tmp_path / "full"
    full.touch()
    plan = {"calls": "write", "dir": pipeline.spools[0] / ".", "error": "ENOSPC"}
    agent = pipeline.agents[0]
    collector = Collector(pipeline.endpoint, bytes.fromhex(pipeline.run_id))
    collector.open()
    restart(agent, faulty(**plan, **{"while": full}))
    pipeline.start_writers(200)
    wait_for(
        lambda: "worker_not_sampled" in agent.log.read_text(), 60, "a stream that cannot begin"
    )
    full.unlink()
    spool = pipeline.spools[0]

    def size_of_samples() -> int:
        writers = set(pipeline.held())
        return sum(path.stat().st_size for path in spool.glob("sp-*") if path.name not in writers)

    wait_for(size_of_samples, 60, f"a stream of the agent: {agent.log.read_text()}")
    begun = size_of_samples()
    wait_for(lambda: size_of_samples() > begun + 1000, 60, "samples")
    pipeline.stop_writers()
    state = collector.end()
    collector.close()
    with h5py.File(run_file(state)) as file:
        reasons = file.attrs["verdict_reasons"]
    samples = pd.read_hdf(run_file(state), "worker_samples")
    assert len(samples) > 0, f"{reasons} {agent.log.read_text()[-1500:]}"


# ---------------------------------------------------------------- what a sink cannot read


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"calls": "read", "sector": 8192}, "Input/output error"),
        ({"calls": "open", "percent": 100, "error": "EACCES"}, "Permission denied"),
    ],
)
def test_a_journal_of_which_the_disk_gives_a_part_becomes_a_file(
    short_minute, pipelines, plan, why
):
    pipeline = pipelines()
    run_id = bytes.fromhex(pipeline.run_id)
    collector = Collector(pipeline.endpoint, run_id)
    collector.open()
    pipeline.start_writers(2000)
    wait_for(lambda: Tail(pipeline).records() > 2000, 30, "records")
    first = pipeline.journal() / "000001.journal"
    restart(pipeline.sink, {})
    wait_for((pipeline.journal() / "000002.journal").exists, 30, "the second segment")
    pipeline.stop_writers()
    wait_for(lambda: not pipeline.held(), 30, "the spools to be empty")
    restart(pipeline.sink, faulty(dir=first, **plan))
    state = collector.end(90)
    collector.close()
    with h5py.File(run_file(state)) as file:
        assert file.attrs["verdict"] == "PARTIAL"
        reasons = json.loads(file.attrs["verdict_reasons"])
        assert "worker_without_stream" not in [reason["code"] for reason in reasons]
        (damage,) = [reason for reason in reasons if reason["subject"] == "journal"]
        assert f"000001.journal: {why}" in damage["text"]
        assert damage["count"] > 0
    assert f"000001.journal: {why}" in pipeline.sink.log.read_text()
    assert first.exists()


def test_a_run_file_that_the_system_does_not_give_is_not_replaced(pipelines, tmp_path):
    pipeline = pipelines()
    collector = Collector(pipeline.endpoint, bytes.fromhex(pipeline.run_id))
    collector.open()
    pipeline.start_writers(200)
    wait_for(lambda: Tail(pipeline).records() > 200, 30, "records")
    shutil.copytree(pipeline.journal(), tmp_path / "journal")
    pipeline.stop_writers()
    path = run_file(collector.end())
    collector.close()
    before = path.read_bytes()
    plan = faulty(calls="open", percent=100, error="EACCES", dir=path)
    done = subprocess.run(
        [PROGRAMS / "crema-sink", "rebuild", tmp_path / "journal", "--output", path],
        env=os.environ | plan, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, path.read_bytes()) == (1, before), done.stderr
    assert "cannot be read, so it stays: Permission denied" in done.stderr


# ---------------------------------------------------------------- a file system without locks


@pytest.mark.slow
def test_files_are_made_and_read_where_locks_are_refused(pipelines, tmp_path):
    pipeline = pipelines(live=True)
    collector = Collector(pipeline.endpoint, bytes.fromhex(pipeline.run_id))
    plan = faulty(calls="lock", dir=tmp_path, percent=100, error="ENOLCK")

    def crema(*words):
        command = [sys.executable, "-m", "crema", *words]
        return subprocess.run(
            command, env={**os.environ, **plan}, capture_output=True, text=True, cwd=pipeline.output
        )

    restart(pipeline.sink, faulty(calls="lock", dir=pipeline.output, percent=100, error="ENOLCK"))
    collector.open()
    pipeline.start_writers(500)
    live = pipeline.output / f"{uuid.UUID(pipeline.run_id)}.live.h5"
    wait_for(live.exists, 30, "a live file")
    wait_for(lambda: crema("show", live).returncode == 0, 30, "a live file that can be read")
    pipeline.stop_writers()
    collector.end()
    collector.close()
    (file,) = (path for path in pipeline.output.glob("*.h5") if path != live)
    for words in (("show", file), ("check", file), ("runs",)):
        read = crema(*words)
        assert read.returncode == 0, read
    assert str(file.name)[:8] in read.stdout
    again = [PROGRAMS / "crema-sink", "rebuild", pipeline.journal(), "--output", tmp_path / "again.h5"]  # fmt: skip
    made = subprocess.run(again, env={**os.environ, **plan}, capture_output=True, text=True)
    assert made.returncode == 0, made


# ---------------------------------------------------------------- the nth call


@pytest.mark.parametrize(
    ("victim", "calls", "upto", "step"),
    [
        ("sink", "disk", 36, 6),
        ("sink", "memory", 60, 12),
        ("agent", "disk", 24, 6),
        ("agent", "memory", 60, 12),
        *(
            pytest.param(victim, calls, 150, 1, marks=LONG)
            for victim in ("sink", "agent")
            for calls in ("disk", "memory")
        ),
    ],
)
def test_the_nth_call_fails(pipelines, tmp_path, victim, calls, upto, step):
    """From the program's start on, one call per life. It goes on, or ends with a status of its own and is started again."""
    pipeline = pipelines()
    program = pipeline.sink if victim == "sink" else pipeline.agents[0]
    directory = pipeline.store if victim == "sink" else pipeline.spools[0]
    pipeline.start_writers(300)
    tried = 0
    for n in range(1, upto + 1, step):
        failures = tmp_path / f"failure-{n}"
        restart(program, faulty(calls=calls, dir=directory, nth=n, log=failures))
        end = time.monotonic() + 1.5
        while not failures.exists() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
        must_end_cleanly(program)
        tried += failures.exists()
    assert tried >= 3
    restart(program, {})
    books = must_have_kept_everything(pipeline)
    print(f"{victim}, {calls}: {tried} calls failed, {books.records} records")


@pytest.mark.parametrize(
    ("calls", "step"),
    [
        ("disk", 11),
        ("memory", 9),
        pytest.param("disk", 1, marks=LONG),
        pytest.param("memory", 1, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_rebuild_with_the_nth_call_failing(tmp_path, calls, step):
    """A file that is not finished is none: exit 1 and a sentence, or a whole file; the next rebuild makes it."""
    journal, output = tmp_path / "journal", tmp_path / "out"
    output.mkdir()
    subprocess.run([PROGRAMS / "make_journal_main", "toy", journal], check=True)
    command = [PROGRAMS / "crema-sink", "rebuild", journal, "--output", output / "run.h5"]
    refused = tried = 0
    checked = None
    for n in itertools.count(1, step):
        failures = tmp_path / "failures"
        failures.unlink(missing_ok=True)
        plan = faulty(calls=calls, dir=tmp_path, nth=n, log=failures)
        rebuilt = subprocess.run(
            command, env={**os.environ, **plan}, capture_output=True, text=True
        )
        if not failures.exists():
            break
        tried += 1
        assert rebuilt.returncode in (0, 1), f"call {n}: {rebuilt}"
        if rebuilt.returncode == 1:
            refused += 1
            assert "crema-sink" in rebuilt.stderr, f"call {n}: {rebuilt}"
        if not (output / "run.h5").exists():
            continue
        file = (output / "run.h5").stat()
        if (file.st_ino, file.st_mtime_ns) != checked:
            subprocess.run([PROGRAMS / "crema-sink", "check", output / "run.h5"], check=True)
            checked = (file.st_ino, file.st_mtime_ns)
    assert rebuilt.returncode == 0, rebuilt
    assert refused > 0
    assert [path.name for path in output.iterdir()] == ["run.h5"]
    print(f"{calls}: {tried} calls failed, {refused} rebuilds refused")


# ---------------------------------------------------------------- full disks


def test_a_full_store_holds_everything_back_until_there_is_room(pipelines, tmp_path):
    pipeline = pipelines()
    full, failures = tmp_path / "full", tmp_path / "failures"
    plan = {"calls": "write", "dir": pipeline.store, "error": "ENOSPC"}
    restart(pipeline.sink, faulty(**plan, **{"while": full}, log=failures))
    pipeline.start_writers(2000)
    time.sleep(1)
    full.touch()
    wait_for(lambda: "journal_full" in pipeline.sink.log.read_text(), 30, "a full disk")
    time.sleep(2)
    assert pipeline.sink.process.poll() is None, "the sink must stay"
    full.unlink()
    must_have_kept_everything(pipeline)
    assert pipeline.sink.process.poll() is None


@pytest.mark.timing
def test_a_full_spool_drops_the_newest_at_once_and_the_file_counts_it(pipelines, tmp_path):
    pipeline = pipelines()
    full = tmp_path / "full"
    script = ROOT / "tests" / "unit" / "faulty" / "full_spool.py"
    plan = {"calls": "write,open", "dir": pipeline.spools[0], "error": "ENOSPC", "while": full}
    collector = Collector(pipeline.endpoint, uuid.UUID(pipeline.run_id).bytes)
    collector.open()
    writer = subprocess.run(
        [sys.executable, script, pipeline.spools[0], pipeline.run_id, "3000", full],
        env={**os.environ, **faulty(**plan)}, capture_output=True, text=True,
    )  # fmt: skip
    assert writer.returncode == 0, writer.stderr
    said = json.loads(writer.stdout)
    with nothing_lost_or_twice():
        assert said["kept"] + said["dropped"] == 3000
    assert said["dropped"] >= 900
    assert said["p99_ms"] <= 5
    # This client names no writer: nobody would wait for an agent that comes late.
    tail = Tail(pipeline)
    wait_for(lambda: tail.records() > 0, what="records of it")
    state = collector.end()
    collector.close()
    file = run_file(state)
    gaps = pd.read_hdf(file, "gaps")
    with nothing_lost_or_twice():
        assert gaps["n_lost"].sum() == said["dropped"], gaps
    subprocess.run([PROGRAMS / "crema-sink", "check", file], check=True)
    print(f"a record took {said['median_ms']:.3f} ms, p99 {said['p99_ms']:.3f}, at most {said['max_ms']:.2f}; "
          f"{said['dropped']} dropped and counted")  # fmt: skip


# ---------------------------------------------------------------- the wall clock


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=LONG)])
def test_a_wall_clock_that_jumps_changes_nothing_but_times(pipelines, tmp_path, times):
    wall = tmp_path / "wall"
    wall.write_text("0")
    pipeline = pipelines(spools=2)
    for program in pipeline.programs():
        restart(program, faulty(wall=wall))
    collector = Collector(pipeline.endpoint, uuid.UUID(pipeline.run_id).bytes)
    collector.open()
    pipeline.start_writers(500)
    jumps = (7200, -7200, 86400, -86400, 0)
    for jump in jumps * times:
        time.sleep(1.2)
        wall.write_text(str(jump))
    time.sleep(1.2)
    pipeline.stop_writers()
    state = collector.end()
    collector.close()
    assert state[9] == [b"COMPLETE"], state
    with contextlib.suppress(KeyError):
        assert len(pd.read_hdf(run_file(state), "gaps")) == 0
    logs = "\n".join(path.read_text() for path in pipeline.log.iterdir())
    assert not re.search("event=(agent_suspect|agent_lost|refused|put_refused)", logs), logs[-3000:]
    assert logs.count("wall_clock_stepped") >= len(jumps)  # by each program that keeps time
    must_have_kept_everything(pipeline)
