"""Faults of machine and network against the real programs: what was recorded is kept, once."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import time

import pytest

from kept import must_have_kept_everything, wait_for

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
