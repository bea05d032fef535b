"""Two of a kind where there should be one, stores that are not what they were, and records that cannot be read."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import struct
import subprocess
import time
import zlib

import pytest

from kept_records import PROGRAMS, Supervised, Tail, must_have_kept_everything, run_lives, wait_for
from ports import free_port

pytestmark = pytest.mark.timeout(180)
REFUSED = 3


def test_two_agents_with_one_identity_are_told_and_nothing_comes_twice(pipelines):
    """A copied spool, served elsewhere: both agents are fenced, the operator gives the copy an identity of its own."""
    interval_s = 5
    pipeline = pipelines(agent_options=("--heartbeat-interval", f"{interval_s}s"))
    pipeline.aggregator.kill(restart=False)
    pipeline.start_writers(2000)
    time.sleep(0.5)
    pipeline.stop_writers()  # closed streams, of which the copy holds the same numbers
    original, copy = pipeline.spools[0], pipeline.work / "copy"
    shutil.copytree(original, copy)
    pipeline.aggregator.start()
    pipeline.start_writers(1000)
    wait_for(lambda: "agent_welcomed" in pipeline.aggregator.log.read_text(), 20, "an agent")
    began = time.monotonic()
    pipeline.spools.append(copy)
    pipeline.agents.append(pipeline.start_agent(copy))
    ended = [agent.process for agent in pipeline.agents]
    wait_for(lambda: all(process.poll() is not None for process in ended), 60, "two fences")
    fenced_s = time.monotonic() - began
    assert [process.returncode for process in ended] == [REFUSED, REFUSED]
    for agent in pipeline.agents:
        assert "reason=clone" in agent.log.read_text()
    (copy / "agent_id").unlink()
    for agent in pipeline.agents:
        agent.start()
    must_have_kept_everything(pipeline)
    print(f"both fenced after {fenced_s:.1f} s, {fenced_s / interval_s:.1f} heartbeat intervals")
    assert fenced_s <= 2 * interval_s + 2  # two for a machine that does other things as well


def test_two_aggregators_share_one_sink(pipelines):
    pipeline = pipelines(spools=2)
    second = f"tcp://127.0.0.1:{free_port()}"
    other = Supervised(
        [pipeline.bin("crema-aggregator"), "--bind", second, "--sink", pipeline.sink_endpoint],
        pipeline.log / "aggregator2.log",
    )
    try:
        pipeline.start_writers(1000)
        for turn in range(6):  # the agents move from one aggregator to the other and back
            time.sleep(1)
            for agent, spool in zip(pipeline.agents, pipeline.spools, strict=True):
                agent.kill(restart=False)
                agent.command = [
                    pipeline.bin("crema-agent"), "--spool", spool, "--aggregator",
                    second if turn % 2 == 0 else pipeline.endpoint, *pipeline.agent_options,
                ]  # fmt: skip
                agent.start()
        must_have_kept_everything(pipeline)
        assert other.log.read_text().count("agent_welcomed") >= 2
    finally:
        other.stop()


def content(directory: pathlib.Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_second_sink_on_a_store_is_refused_and_changes_nothing(pipelines):
    pipeline = pipelines()
    pipeline.start_writers(1000)
    time.sleep(0.5)
    pipeline.stop_writers()
    pipeline.drain()
    time.sleep(0.2)
    pipeline.agents[0].signal(19)  # its own stream would go on
    time.sleep(0.3)
    before = content(pipeline.store)
    for _ in range(5):
        second = subprocess.run(
            [pipeline.bin("crema-sink"), "--bind", "tcp://127.0.0.1:*", "--store", pipeline.store],
            capture_output=True,
            text=True,
        )
        assert second.returncode == 1
        assert "another crema-sink" in second.stderr
    assert content(pipeline.store) == before
    pipeline.agents[0].signal(18)
    pipeline.start_writers(1000)
    time.sleep(0.5)
    must_have_kept_everything(pipeline)


def test_an_older_store_gets_again_what_the_spool_still_holds(pipelines, tmp_path):
    pipeline = pipelines()
    pipeline.start_writers(500)
    time.sleep(1.5)
    pipeline.sink.kill(restart=False)
    shutil.copytree(pipeline.store, tmp_path / "old")
    pipeline.sink.start()
    time.sleep(1.5)
    pipeline.sink.kill(restart=False)
    shutil.rmtree(pipeline.store)
    shutil.copytree(tmp_path / "old", pipeline.store)
    pipeline.sink.start()
    time.sleep(1)
    books = must_have_kept_everything(pipeline)  # no segment was full, so none was given up
    assert books.regressed == 0


@pytest.mark.parametrize("other", ["older", "new"])
def test_records_that_a_store_lost_and_no_spool_holds_are_counted_exactly(
    pipelines, tmp_path, other
):
    health = tmp_path / "health"  # there while an aggregator has the agent
    pipeline = pipelines(agent_options=("--health-file", health))
    pipeline.start_writer(pipeline.spools[0], 100_000)
    tail = Tail(pipeline)
    wait_for(lambda: pipeline.journal().exists() and tail.records() > 3000, 20, "records")
    pipeline.sink.kill(restart=False)
    shutil.copytree(pipeline.store, tmp_path / "old")
    pipeline.sink.start()

    def first_held() -> int:
        """Number of the oldest record in the spool behind the first, which names the run."""
        stream = next(pipeline.ledger.glob("*.ledger")).stem
        first = sorted(int(p.name[36:], 16) for p in pipeline.spools[0].glob(f"sp-{stream}-*"))
        return first[1] if len(first) > 1 else 0

    head = next(pipeline.spools[0].glob(f"sp-{next(pipeline.ledger.glob('*.ledger')).stem}-*1"))
    wait_for(lambda: first_held() and head.stat().st_size < 4096, 60, "a segment that is trimmed")
    pipeline.stop_writers()
    pipeline.sink.kill(restart=False)
    pipeline.agents[0].kill(restart=False)  # what it holds now is what there is
    health.unlink(missing_ok=True)
    held = first_held()
    shutil.rmtree(pipeline.store)
    kept = 1  # a new store gets number 1 again, which is never given up before the rest
    if other == "older":
        shutil.copytree(tmp_path / "old", pipeline.store)
        kept = pipeline.books(tmp_path / "old" / pipeline.journal().name).records
    else:
        pipeline.store.mkdir(mode=0o700)
    # The aggregator tells the new agent what had been durable; a spool alone does not show why numbers are gone.
    pipeline.agents[0].start()
    wait_for(health.exists, 20, "the agent's session")
    pipeline.sink.start()
    pipeline.drain()
    assert pipeline.held() == []
    books = pipeline.books()
    print(f"{books.regressed} records of {books.records + books.lost} were lost with the store")
    assert books.regressed == books.lost == held - kept - 1
    assert (books.twice, books.wrong) == (0, 0)


def spoil(path: pathlib.Path, number: int):
    """Make record `number` of a segment one whose checksum holds and whose body says nothing."""
    content, at = bytearray(path.read_bytes()), 0
    while True:
        head = run_lives.FRAME_HEADER.unpack_from(content, at)
        if head[2] == number:
            break
        at += run_lives.FRAME_HEADER.size + head[1]
    body = bytes([0xFF]) * head[1]
    front = content[at : at + run_lives.FRAME_HEADER.size - 4]
    crc = struct.pack("<I", zlib.crc32(body, zlib.crc32(front)))
    content[at : at + run_lives.FRAME_HEADER.size + len(body)] = front + crc + body
    path.write_bytes(content)


def test_a_record_that_nobody_can_read_delays_nothing(tmp_path):
    def deliver(spoilt: list[int]) -> float:
        pipeline.open_run()
        pipeline.stop_writers()
        for path in pipeline.side.glob("sp-*"):
            for number in spoilt:
                spoil(path, number)
        began = time.monotonic()
        pipeline.cut_side_streams()
        pipeline.wait(lambda: not pipeline.undelivered(), "delivery")
        took_s = time.monotonic() - began
        pipeline.ended = len(pipeline.runs)
        return took_s

    pipeline = run_lives.Life(PROGRAMS, tmp_path)
    try:
        clean_s = min(deliver([]) for _ in range(3))
        took_s = min(deliver([3, 4, 5]) for _ in range(3))
        books = pipeline.books()
        assert (books.lost, books.twice, books.wrong) == (0, 0, 3), books
        print(f"delivered in {took_s * 1000:.0f} ms, without them in {clean_s * 1000:.0f} ms")
        assert took_s < clean_s + 1.0
        pipeline.wait(lambda: pipeline.runs[-1].phase == run_lives._client.SEALED, "sealing")
        gaps = run_lives.gaps(pipeline.runs[-1].path)
        assert gaps == {"decode_error": 3}
    finally:
        pipeline.destroy()
