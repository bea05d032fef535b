"""Damage in a journal that lies before its newest checkpoint, found while the run is open: what the spools still hold is delivered anew."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor

import h5py
import pytest
from distributed import Client

import crema
from clusters import LocalCluster, work
from kept_records import PROGRAMS, Tail, recorded, wait_for

pytestmark = pytest.mark.timeout(120)


def frames(segment: pathlib.Path) -> list[tuple[int, int, int]]:
    """Where each frame of a segment begins and ends, and its type."""
    found, at, data = [], 0, segment.read_bytes()
    while at + Tail.FRAME.size <= len(data):
        _, length, _, _, kind, _, _ = Tail.FRAME.unpack_from(data, at)
        found.append((at, at + Tail.FRAME.size + length, kind))
        at = found[-1][1]
    return found


def spoil(segment: pathlib.Path) -> None:
    """The body of the PUT in the middle becomes nonsense."""
    puts = [frame for frame in frames(segment) if frame[2] == Tail.PUT_TYPE]
    begin, end, _ = puts[len(puts) // 2]
    with segment.open("r+b") as file:
        file.seek(begin + Tail.FRAME.size)
        file.write(b"\xa5" * (end - begin - Tail.FRAME.size))


def resume_when(happened, pid: int) -> None:
    try:
        wait_for(happened, what="finding the damage")
    finally:
        os.kill(pid, signal.SIGCONT)


def test_damage_in_an_open_run_costs_nothing_that_the_spools_still_hold(
    pipelines, tmp_path, monkeypatch
):
    pipeline = pipelines(agent_options=("--heartbeat-interval", "200ms"))
    monkeypatch.setenv("CREMA_AGGREGATOR", pipeline.endpoint)
    monkeypatch.setenv("CREMA_SPOOL", str(pipeline.spools[0]))
    log = pipeline.log / "sink.log"
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        ThreadPoolExecutor(1) as beside,
        crema.MetricsCollector(client, quiet=True) as mc,
    ):
        work(client, 100)
        segment = pipeline.store / str(uuid.UUID(mc.run_id)) / "000001.journal"
        wait_for(
            lambda: (
                segment.exists() and sum(kind == Tail.PUT_TYPE for *_, kind in frames(segment)) >= 3
            ),
            what="delivery",
        )
        spoil(segment)
        # Held until it is found: an agent that has delivered the end of a stream frees its records.
        agent = int((pipeline.spools[0] / "agent.lock").read_text())
        os.kill(agent, signal.SIGSTOP)
        found = beside.submit(
            resume_when, lambda: "event=journal_damaged" in log.read_text(), agent
        )
    found.result()
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert [note["code"] for note in mc.notes] == ["journal_damaged"]
    with h5py.File(mc.path) as file:
        assert len(file["gaps"]) == 0


def test_damage_before_the_checkpoint_is_found_after_a_start(pipelines, tmp_path):
    """Two starts, so that a checkpoint stands behind what is damaged."""
    pipeline = pipelines(spools=2)
    pipeline.start_writers(500)
    tail = Tail(pipeline)
    wait_for(lambda: tail.records() > 1000, what="delivery")
    pipeline.sink.kill()
    before = tail.records()
    wait_for(lambda: tail.records() > before + 500, what="delivery after a start")
    pipeline.sink.kill(restart=False)
    spoil(pipeline.journal() / "000001.journal")
    pipeline.sink.start()
    log = pipeline.log / "sink.log"
    wait_for(lambda: "event=journal_damaged" in log.read_text(), what="finding it")
    pipeline.stop_writers()
    pipeline.drain()
    books = pipeline.books()
    assert (books.lost, books.wrong, pipeline.held()) == (0, 0, [])
    output = tmp_path / "rebuilt.h5"
    command = [PROGRAMS / "crema-sink", "rebuild", pipeline.journal(), "--output", output]
    subprocess.run(command, check=True, capture_output=True)
    with h5py.File(output) as file:
        assert len(file["gaps"]) == 0
        rows = len(file["custom"])  # what lay behind the hole is in the journal twice
    assert rows == recorded(pipeline) - 2 * len(pipeline.spools)  # StreamInfo and names are no rows
