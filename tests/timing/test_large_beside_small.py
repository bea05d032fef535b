"""A sink that is started again beside the journal of a large open run serves a small one at once, and goes on doing so while it reads the large one."""

from __future__ import annotations

import pathlib
import statistics
import sys
import time
import uuid

import pytest

from crema.collect import _client
from crema.hook._records import MESSAGES
from paths import BIN, ROOT
from waiting import wait_for

sys.path.insert(0, str(ROOT / "tests" / "bench"))
from restart import BATCH, Restart, free_port
from small_run import SmallRun

LARGE_ROWS = 4_000_000
ROUNDS = 8


class Sink(SmallRun):
    """A sink that also gets a large run."""

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
    made = [Sink(tmp_path / name, BIN) for name in ("alone", "beside")]
    yield made
    for sink in made:
        sink.kill()


def started_anew(sink: Sink) -> float:
    """Seconds from a start after a kill to the first commit."""
    sink.kill()
    began = sink.start()
    sink.commit_s()
    return time.monotonic() - began


@pytest.mark.timing
def test_a_large_run_delays_no_small_one_by_replay_or_second_reading(sinks):
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
    wait_for(lambda: sink.read_b() >= size_b, 60, pause_s=0.01)
