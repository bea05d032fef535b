"""Processes that are killed or stopped, one or all of them, and in the middle of making a file: what was recorded is kept, once."""

from __future__ import annotations

import pathlib
import random
import signal
import subprocess
import time
import uuid

import h5py
import pytest

from children import Child
from crema.collect import _client
from kept_records import PROGRAMS, must_have_kept_everything, run_lives

pytestmark = pytest.mark.timeout(300)
long = pytest.mark.long


@pytest.mark.parametrize("times", [10, pytest.param(200, marks=[long, pytest.mark.timeout(1200)])])
def test_everything_killed_at_once(pipelines, times, seed):
    pipeline, draw = pipelines(spools=2), random.Random(seed)
    pipeline.start_writers(1000)
    for _ in range(times):
        time.sleep(draw.uniform(0.1, 0.7))
        for program in pipeline.programs():
            program.process.kill()
        for program in pipeline.programs():
            program.kill(restart=False)
        pipeline.revive()
    drained_s = time.monotonic()
    books = must_have_kept_everything(pipeline)
    drained_s = time.monotonic() - drained_s
    print(f"all killed {times} times, {books.records} records, drained in {drained_s:.1f} s")


@pytest.mark.parametrize("times", [20, pytest.param(500, marks=[long, pytest.mark.timeout(1200)])])
def test_stopped_processes_go_on_where_they_were(pipelines, times, seed):
    pipeline, draw = pipelines(spools=2), random.Random(seed)
    pipeline.start_writers(1000)
    for _ in range(times):
        stopped = draw.choice(pipeline.programs())
        stopped.signal(signal.SIGSTOP)
        time.sleep(draw.uniform(0.05, 0.6))
        stopped.signal(signal.SIGCONT)
    books = must_have_kept_everything(pipeline)
    print(f"{times} pauses, {books.records} records")


@pytest.mark.long
@pytest.mark.parametrize("program", ["sink", "aggregator", "agent"])
def test_a_minute_of_standing_still(pipelines, program):
    pipeline = pipelines(spools=2)
    stopped = pipeline.agents[0] if program == "agent" else getattr(pipeline, program)
    pipeline.start_writers(1000)
    time.sleep(1)
    stopped.signal(signal.SIGSTOP)
    time.sleep(60)
    stopped.signal(signal.SIGCONT)
    began = time.monotonic()
    books = must_have_kept_everything(pipeline, drain_s=120)
    print(
        f"{program} stopped for 60 s, {books.records} records, drained in {time.monotonic() - began:.1f} s"
    )


def test_killed_writers_leave_whole_streams(pipelines):
    """A writer's death ends its stream and no other; whoever starts again is a stream of its own. Agents die as well."""
    pipeline = pipelines(spools=2)
    staying = pipeline.start_writer(pipeline.spools[0], 500)
    for turn in range(10):
        dying = [pipeline.start_writer(spool, 2000) for spool in pipeline.spools]
        time.sleep(0.3)
        pipeline.agents[turn % 2].kill()
        for writer in dying:
            pipeline.kill_writer(writer)
    assert staying.poll() is None
    killed_at_once = uuid.uuid4()  # before it could write anything
    (pipeline.ledger / f"{killed_at_once.hex}.ledger").write_bytes(killed_at_once.bytes + bytes(24))
    books = must_have_kept_everything(pipeline)
    assert books.streams == 22


# ---------------------------------------------------------------- in the middle of making the file


def payload(path: pathlib.Path) -> str:
    with h5py.File(path) as file:
        return file.attrs["sha256_payload"]


def rebuild(journal: pathlib.Path, output: pathlib.Path) -> subprocess.Popen:
    return Child(
        [PROGRAMS / "crema-sink", "rebuild", journal, "--output", output],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("kills", [20, pytest.param(500, marks=[long, pytest.mark.timeout(1800)])])
def test_a_file_whose_making_is_killed_is_whole_or_not_there(pipelines, tmp_path, kills, seed):
    pipeline, draw = pipelines(), random.Random(seed)
    pipeline.start_writers(10_000)
    time.sleep(1)
    must_have_kept_everything(pipeline)
    pipeline.stop()  # the journal is what it is from now on
    undisturbed, output = tmp_path / "undisturbed.h5", tmp_path / "disturbed.h5"
    began = time.monotonic()
    assert rebuild(pipeline.journal(), undisturbed).wait() == 0
    takes_s, seen = time.monotonic() - began, 0
    for _ in range(kills):
        process = rebuild(pipeline.journal(), output)
        time.sleep(draw.uniform(0, 1.5 * takes_s))
        process.kill()
        process.wait()
        if output.exists():
            seen += 1
            assert payload(output) == payload(undisturbed)
            output.unlink()
    assert rebuild(pipeline.journal(), output).wait() == 0
    assert payload(output) == payload(undisturbed)
    checked = subprocess.run([PROGRAMS / "crema-sink", "check", output], capture_output=True)
    assert checked.returncode == 0, checked.stdout
    left = [path.name for path in tmp_path.glob("*.tmp*")]
    assert left == [], "a killed attempt's file is taken over by the next"
    print(f"{kills} kills while a file was made in {takes_s:.2f} s, {seen} times it was done")


@pytest.mark.parametrize("runs", [4, pytest.param(60, marks=[long, pytest.mark.timeout(1800)])])
def test_a_sink_killed_while_it_seals_seals_again(tmp_path, runs, seed):
    pipeline = run_lives.Life(PROGRAMS, tmp_path)
    draw, kills = random.Random(seed), 0
    try:
        pipeline.open_run()
        for _ in range(runs):
            pipeline.end_run()
            pipeline.open_run()
            last, end = pipeline.runs[-2], time.monotonic() + 2
            while last.phase != _client.SEALED and time.monotonic() < end:
                until = time.monotonic() + draw.uniform(0.05, 0.4)
                pipeline.wait(lambda until=until: time.monotonic() > until, "time")
                pipeline.sink.kill()
                kills += 1
        pipeline.finish()
        pipeline.must_have_kept_everything()
        print(f"{kills} kills of the sink, {len(pipeline.runs)} runs sealed")
    finally:
        pipeline.destroy()
