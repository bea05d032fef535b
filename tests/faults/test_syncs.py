"""The disk of a sink's journals: its loop waits for none of it, and a slow one delays nobody but the run that it is of."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import time
import uuid
from collections import Counter

import pytest

from kept_records import PROGRAMS
from service_kit import ANY, RUN_END, RUN_OPEN, Collector, services, sint, write_stream
from waiting import wait_for

services = pytest.fixture(services)


class Services:
    """A sink under calls to the disk that are counted, or slow; an aggregator, an agent, and collectors."""

    def __init__(self, services, work: pathlib.Path, monkeypatch, *sink_options, **plan):
        self.syncs, self.spool, self.store = work / "syncs", work / "spool", work / "store"
        self.spool.mkdir(mode=0o700)
        plan = {"LD_PRELOAD": PROGRAMS / "libfaulty.so", "FAULTY_SYNCS": self.syncs, **plan}
        with monkeypatch.context() as environment:
            for name, value in plan.items():
                environment.setenv(name, str(value))
            self.sink = services(
                "crema-sink", "--bind", ANY, "--store", self.store, "--output", work / "out",
                *sink_options,
            )  # fmt: skip
        self.at_start = len(self.by_thread())
        self.aggregator = services("crema-aggregator", "--bind", ANY, "--sink", self.sink.endpoint)
        services(
            "crema-agent", "--spool", self.spool, "--aggregator", self.aggregator.endpoint,
            "--heartbeat-interval", "200ms", ready=False,
        )  # fmt: skip

    def by_thread(self) -> list[tuple[int, str]]:
        """Thread and path of each sync of the sink itself, without those of the processes that seal."""
        lines = [line.split(" ", 2) for line in self.syncs.read_text().splitlines()]
        pid = str(self.sink.process.pid)
        return [(int(thread), path) for process, thread, path in lines if process == pid]

    def of_the_loop(self) -> Counter:
        return Counter(
            re.sub(r"[-0-9a-f]{36}", "RUN", str(pathlib.Path(path).relative_to(self.store)))
            for thread, path in self.by_thread()[self.at_start :]
            if thread == self.sink.process.pid
        )


@contextlib.contextmanager
def runs(services: Services, n: int):
    collectors = [Collector(services.aggregator.endpoint, os.urandom(16)) for _ in range(n)]
    yield collectors
    for collector in collectors:
        collector.close()


def journals(store: pathlib.Path) -> int:
    return sum(path.is_dir() for path in store.iterdir())


@pytest.mark.parametrize(
    ("options", "left"), [((), 64), pytest.param(("--retain", "1s"), 0, marks=pytest.mark.slow)]
)
def test_the_loop_of_a_sink_syncs_nothing(services, tmp_path, monkeypatch, options, left):
    """64 runs that open and end together; with --retain they come to rest, too, and are freed."""
    made = Services(services, tmp_path, monkeypatch, *options)
    with runs(made, 64) as collectors:
        for collector in collectors:
            collector.say(RUN_OPEN, sint(2, time.time_ns()))
            write_stream(made.spool, collector.run_id, 20)
        for collector in collectors:
            collector.open()
        for collector in collectors:
            collector.say(RUN_END, sint(2, time.time_ns()))
        for collector in collectors:
            collector.end()
        wait_for(lambda: journals(made.store) == left, 60, "the journals to be freed")
        if left == 0:  # what comes for a freed run is refused, which is made durable, too
            write_stream(made.spool, collectors[0].run_id, 20)
            wait_for(lambda: not list(made.spool.glob("sp-*")), 30, "the late stream's end")
            assert any(path.endswith("/refused.tmp") for _, path in made.by_thread())
    assert len(made.by_thread()) - made.at_start >= 64 * 5
    assert made.of_the_loop() == {}


def test_a_slow_disk_of_one_run_delays_no_answer_of_another(services, tmp_path, monkeypatch):
    slow = os.urandom(16)
    is_slow = tmp_path / "slow"
    made = Services(
        services, tmp_path, monkeypatch, FAULTY_CALLS="sync", FAULTY_SLEEP=3000,
        FAULTY_DIR=tmp_path / "store" / str(uuid.UUID(bytes=slow)), FAULTY_WHILE=is_slow,
    )  # fmt: skip
    is_slow.touch()
    alice = Collector(made.aggregator.endpoint, slow)
    alice.say(RUN_OPEN, sint(2, time.time_ns()))
    write_stream(made.spool, slow, 20)
    with runs(made, 8) as others:
        for bob in others:
            began = time.monotonic()
            bob.open()
            write_stream(made.spool, bob.run_id, 20)
            bob.end()
            alice.say(RUN_END, sint(2, time.time_ns()))
            assert time.monotonic() - began < 2.5
    is_slow.unlink()
    alice.end()
    alice.close()
