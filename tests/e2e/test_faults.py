"""Faults of machine and network against the real programs: what was recorded is kept, once."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from kept import Supervised, must_have_kept_everything, wait_for

pytestmark = pytest.mark.timeout(180)


@contextlib.contextmanager
def small_disk(path: pathlib.Path, size: str):
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no file system may be mounted here, as in a container without privileges")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def test_everything_killed_at_once(pipelines):
    pipeline = pipelines(spools=2)
    pipeline.start_writers(1000)
    for _ in range(20):
        time.sleep(0.4)
        for program in pipeline.programs():
            program.kill(restart=False)
        pipeline.revive()
    must_have_kept_everything(pipeline)


def test_aggregator_down_for_a_while_then_catches_up(pipelines):
    pipeline = pipelines()
    pipeline.start_writers(2000)
    time.sleep(1)
    pipeline.aggregator.kill(restart=False)
    time.sleep(15)
    recorded_s = 16
    pipeline.stop_writers()
    pipeline.aggregator.start()
    caught_up_s = pipeline.drain(60)
    assert caught_up_s < recorded_s / 2  # a fifth where nothing else runs
    must_have_kept_everything(pipeline)


def test_stopped_processes_go_on_where_they_were(pipelines):
    pipeline = pipelines(spools=2)
    pipeline.start_writers(1000)
    for program in (pipeline.sink, pipeline.aggregator, pipeline.agents[0]):
        program.signal(signal.SIGSTOP)
        time.sleep(5)
        program.signal(signal.SIGCONT)
        time.sleep(1)
    must_have_kept_everything(pipeline)


def test_killed_writers_leave_whole_streams(pipelines):
    pipeline = pipelines(spools=2)
    for _ in range(15):
        pipeline.start_writers(4000)
        time.sleep(0.3)
        for writer in list(pipeline.writers):
            pipeline.kill_writer(writer)
    books = must_have_kept_everything(pipeline)
    assert books.streams == 30


def test_two_aggregators_share_one_sink(pipelines):
    pipeline = pipelines(spools=2)
    second = f"tcp://127.0.0.1:{int(pipeline.endpoint.rsplit(':', 1)[1]) + 1}"
    other = Supervised(
        [pipeline.bin("crema-aggregator"), "--bind", second, "--sink", pipeline.sink_endpoint],
        pipeline.log / "aggregator2.log",
    )
    try:
        pipeline.start_writers(1000)
        for turn in range(6):  # the agents move from one aggregator to the other and back
            time.sleep(1.5)
            for agent, spool in zip(pipeline.agents, pipeline.spools, strict=True):
                agent.kill(restart=False)
                agent.command = [
                    pipeline.bin("crema-agent"), "--spool", spool, "--aggregator",
                    second if turn % 2 == 0 else pipeline.endpoint, *pipeline.agent_options,
                ]  # fmt: skip
                agent.start()
        must_have_kept_everything(pipeline)
    finally:
        other.stop()


def test_an_older_store_is_told_and_nothing_is_trimmed_that_it_lacks(pipelines, tmp_path):
    pipeline = pipelines()
    pipeline.start_writers(500)
    time.sleep(2)
    pipeline.sink.kill(restart=False)
    shutil.copytree(pipeline.store, tmp_path / "old")
    pipeline.sink.start()
    time.sleep(2)
    pipeline.sink.kill(restart=False)
    shutil.rmtree(pipeline.store)
    shutil.copytree(tmp_path / "old", pipeline.store)
    pipeline.sink.start()
    time.sleep(2)
    # No segment was full yet, so the spool still holds what the old copy lacks: all of it arrives again.
    must_have_kept_everything(pipeline)


def test_full_disk_of_the_sink_holds_everything_back_until_there_is_room(pipelines, tmp_path):
    with small_disk(tmp_path / "disk", "3m") as disk:
        pipeline = pipelines(store=disk, sink_options=("--journal-limit", "1Gi"))
        pipeline.start_writers(4000)
        wait_for(lambda: "full" in (pipeline.log / "sink.log").read_text(), 60, "a full disk")
        time.sleep(2)
        assert pipeline.sink.process.poll() is None, "the sink must stay"
        subprocess.run(["mount", "-o", "remount,size=512m", disk], check=True)
        must_have_kept_everything(pipeline)


def test_full_disk_of_the_spool_drops_the_newest_and_counts_it(pipelines, tmp_path):
    with small_disk(tmp_path / "spooldisk", "1m") as disk:
        pipeline = pipelines()
        pipeline.aggregator.kill(restart=False)  # nothing is trimmed meanwhile
        pipeline.spools.append(disk)
        pipeline.agents.append(pipeline.start_agent(disk))
        pipeline.start_writer(disk, 5000)
        time.sleep(4)
        pipeline.aggregator.start()
        time.sleep(3)
        must_have_kept_everything(pipeline)  # of what append() said was recorded
