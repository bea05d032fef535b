"""A sink that is started again beside the journal of a large open run serves a small one at once, and goes on doing so while it reads the large one."""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import time
import uuid

import pytest
import zmq

from crema.collect import _client
from crema.hook import _columns
from crema.hook._records import KIND_WORKER, MESSAGES
from crema.hook._spool import StreamWriter

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench"))
from restart import BATCH, Restart, free_port

BIN = pathlib.Path(
    os.environ.get("CREMA_BIN_DIR", pathlib.Path(__file__).parents[2] / "build/dev/bin")
)
LARGE_ROWS = 4_000_000
ROUNDS = 8
OPEN, PUT, STATE, COMMITTED = (
    _columns.MESSAGES[name] for name in ("OPEN", "PUT", "STATE", "COMMITTED")
)


class Sink:
    """The real sink on a store with an open run, and what an aggregator says to it of that run."""

    def __init__(self, directory: pathlib.Path):
        directory.mkdir()
        self.directory, self.run_id = directory, uuid.uuid4().bytes
        self.endpoint = f"tcp://127.0.0.1:{free_port()}"
        info = MESSAGES["StreamInfo"](
            run_id=self.run_id, kind=KIND_WORKER, host="node", pid=1, worker_uuid="u",
            worker_name="tcp://node:1", t_real_ns=time.time_ns(), t_mono_ns=time.monotonic_ns(),
        )  # fmt: skip
        self.writer = StreamWriter(directory, info.SerializeToString())
        (self.segment,) = directory.glob("sp-*")
        self.socket: zmq.Socket | None = None
        self.start()
        self.put(self.segment.read_bytes(), self.writer.seq)

    def start(self) -> float:
        """Start it; return when that was."""
        began = time.monotonic()
        with open(self.directory / "log", "a") as log:
            self.process = subprocess.Popen(
                [BIN / "crema-sink", "--bind", self.endpoint, "--store", self.directory / "store",
                 "--output", self.directory / "output"], stdout=log, stderr=log,
            )  # fmt: skip
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger, self.socket.reconnect_ivl = 0, 5
        self.socket.connect(self.endpoint)
        return began

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.close()

    def put(self, frames: bytes, n: int) -> None:
        """Have the last `n` records committed."""
        asked = MESSAGES["Open"]()
        asked.table.stream_ids, asked.table.run_ids = self.writer.stream_id, self.run_id
        body = MESSAGES["Put"](
            stream_id=self.writer.stream_id, run_id=self.run_id, frames=frames, n=n,
            first_seq=self.writer.seq - n + 1,
        )  # fmt: skip
        self.socket.send(_client.encode(OPEN, asked.SerializeToString()))
        end = time.monotonic() + 60
        while time.monotonic() < end and self.socket.poll(60_000):
            kind, answer = _client.decode(self.socket.recv())
            if kind == STATE:  # it knows how far the stream came
                self.socket.send(_client.encode(PUT, body.SerializeToString()))
            elif kind == COMMITTED:
                table = MESSAGES["Committed"].FromString(answer).table
                if table.committed and table.committed[0] >= self.writer.seq:
                    return
        raise AssertionError("not committed")

    def commit_s(self) -> float:
        """Record something, and wait until it is durable."""
        before = self.segment.stat().st_size
        self.writer.name(1, uuid.uuid4().hex)
        with open(self.segment, "rb") as segment:
            segment.seek(before)
            frames = segment.read()
        began = time.monotonic()
        self.put(frames, 1)
        return time.monotonic() - began

    def journal_b(self) -> int:
        return sum(path.stat().st_size for path in (self.directory / "store").rglob("*.journal"))

    def read_b(self) -> int:
        """Bytes that the sink has read since its start."""
        io = pathlib.Path(f"/proc/{self.process.pid}/io").read_text()
        return int(io.partition("rchar:")[2].split()[0])

    def bring_large_run(self, run_id: bytes) -> None:
        bench = Restart(BIN, LARGE_ROWS, BATCH)
        at, log = f"tcp://127.0.0.1:{free_port()}", self.directory / "log"
        aggregator = bench.start(log, "crema-aggregator", "--bind", at, "--sink", self.endpoint)
        bench.ship(at, bench.fill(self.directory, "large", LARGE_ROWS, run_id.hex()), log)
        bench.stop(aggregator)

    def ask_for_second_reading(self, run_id: bytes) -> None:
        """A run's list of writers is confirmed once all of its journal was read again."""
        body = MESSAGES["RunWriters"](run_id=run_id, part=0, parts=1)
        self.socket.send(_client.encode(_client.RUN_WRITERS, body.SerializeToString()))


@pytest.fixture
def sinks(tmp_path):
    made = [Sink(tmp_path / name) for name in ("alone", "beside")]
    yield made
    for sink in made:
        sink.kill()


def started_anew(sink: Sink) -> float:
    """Seconds from a start after a kill to the first commit."""
    sink.kill()
    began = sink.start()
    sink.commit_s()
    return time.monotonic() - began


@pytest.mark.alone
def test_neither_replay_nor_second_reading_of_a_large_run_delays_a_small_one(sinks):
    alone, beside = sinks
    large = uuid.uuid4().bytes
    beside.bring_large_run(large)
    large_b = beside.journal_b()
    assert large_b > 50e6
    first, slowest = ({sink: [] for sink in sinks} for _ in range(2))
    during = 0
    for _ in range(ROUNDS):
        for sink in sinks:
            first[sink].append(started_anew(sink))
        wait_until_read(beside, large_b)  # once more after each start
        end_b = beside.read_b() + large_b
        beside.ask_for_second_reading(large)
        meanwhile = [beside.commit_s()]
        while beside.read_b() < end_b:
            meanwhile.append(beside.commit_s())
        during += len(meanwhile) - 1  # the last one may have come after it
        slowest[beside].append(max(meanwhile))
        slowest[alone].append(max(alone.commit_s() for _ in meanwhile))
    print(f"{during} commits while {ROUNDS} x {large_b / 1e6:.0f} MB were read")
    assert during >= 2, "the large run was read to its end before anything else was done"
    for what, delays in (("first commit", first), ("slowest commit", slowest)):
        with_large, without = (statistics.median(delays[sink]) for sink in (beside, alone))
        print(f"{what}: {with_large:.3f} s beside {large_b / 1e6:.0f} MB, {without:.3f} s alone")
        assert with_large < 3 * without + 0.05, what


def wait_until_read(sink: Sink, size_b: int) -> None:
    end = time.monotonic() + 60
    while sink.read_b() < size_b:
        assert time.monotonic() < end
        time.sleep(0.01)
