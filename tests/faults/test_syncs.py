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
import zmq

from kept_records import PROGRAMS
from service_kit import (
    ANY,
    RECORD_DICT,
    RUN_END,
    RUN_OPEN,
    Collector,
    envelope,
    field,
    fields_of,
    record,
    services,
    sint,
    write_stream,
)
from waiting import wait_for

services = pytest.fixture(services)

OPEN, PUT, STATE, COMMITTED, NACK = 32, 33, 48, 49, 50


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
        self.options = self.sink.arguments
        self.at_start = len(self.by_thread())
        self.aggregator = services("crema-aggregator", "--bind", ANY, "--sink", self.sink.endpoint)
        services(
            "crema-agent", "--spool", self.spool, "--aggregator", self.aggregator.endpoint,
            "--heartbeat-interval", "200ms", ready=False,
        )  # fmt: skip

    def restart_sink(self, services, monkeypatch):
        self.sink.kill()
        options = ["--bind", self.sink.endpoint, *self.options[2:]]
        with monkeypatch.context() as environment:
            environment.setenv("LD_PRELOAD", str(PROGRAMS / "libfaulty.so"))
            environment.setenv("FAULTY_SYNCS", str(self.syncs))
            self.sink = services("crema-sink", *options)
        self.at_start = 0

    def by_thread(self) -> list[tuple[int, str]]:
        """Thread and path of each sync of the sink itself, without those of the processes that seal."""
        lines = [line.split(" ", 2) for line in self.syncs.read_text().splitlines()]
        pid = str(self.sink.process.pid)
        return [(int(thread), path) for process, thread, path in lines if process == pid]

    def of_the_loop(self) -> Counter:
        return Counter(
            re.sub(r"[-0-9a-f]{36}", "RUN", os.path.relpath(path, self.store))
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


def test_the_loop_of_a_sink_that_starts_again_syncs_no_journal(services, tmp_path, monkeypatch):
    """Journals that a killed sink left are made durable again in threads, before anybody learns of them."""
    made = Services(services, tmp_path, monkeypatch)
    with runs(made, 8) as collectors:
        for collector in collectors:
            collector.open()
            write_stream(made.spool, collector.run_id, 20)
        wait_for(lambda: not list(made.spool.glob("sp-*")), 30, "the records to be durable")
        made.restart_sink(services, monkeypatch)
        for collector in collectors:
            write_stream(made.spool, collector.run_id, 20)
        wait_for(lambda: not list(made.spool.glob("sp-*")), 30, "more records to be durable")
        for collector in collectors:
            collector.end()
    renewed = {path for _, path in made.by_thread() if path.endswith("/000001.journal")}
    assert len(renewed) == 8
    assert not [path for path in made.of_the_loop() if path.startswith("RUN")]


class Asker:
    """What an aggregator says to a sink about one stream of a run."""

    def __init__(self, endpoint: str, run_id: bytes):
        self.run_id, self.stream_id, self.next = run_id, os.urandom(16), 1
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)

    def put(self):
        """One large record."""
        body = field(1, self.stream_id) + field(2, self.run_id) + field(3, self.next)
        frame = record(self.next, RECORD_DICT, bytes(60 << 10))
        self.socket.send(envelope(PUT, body + field(4, 1) + field(5, frame)))
        self.next += 1

    def ask(self):
        table = field(1, self.stream_id) + field(2, self.run_id)
        self.socket.send(envelope(OPEN, field(1, table)))

    def hear(self, kind: int, timeout_s: float) -> dict[int, list] | None:
        """The next such message that is about the stream."""
        until = time.monotonic() + timeout_s
        while self.socket.poll(max(0, int((until - time.monotonic()) * 1000))):
            message = self.socket.recv()
            body = message[24:]
            if message[5] == kind and self.stream_id in body:
                return fields_of(body)
        return None


def test_a_full_group_of_one_run_delays_no_other(services, tmp_path, monkeypatch):
    """What is refused is asked for again when there is room."""
    slow, is_slow = os.urandom(16), tmp_path / "slow"
    made = Services(
        services, tmp_path, monkeypatch, FAULTY_CALLS="sync", FAULTY_SLEEP=60000,
        FAULTY_DIR=tmp_path / "store" / str(uuid.UUID(bytes=slow)), FAULTY_WHILE=is_slow,
    )  # fmt: skip
    is_slow.touch()
    alice, bob = Asker(made.sink.endpoint, slow), Asker(made.sink.endpoint, os.urandom(16))
    alice.put()
    time.sleep(0.2)  # that is a group of its own
    for _ in range(300):
        alice.put()
    assert alice.hear(NACK, 30)
    alice.ask()
    for _ in range(4):
        bob.put()
        assert bob.hear(COMMITTED, 30)
    assert not alice.hear(STATE, 0.5)  # or it would be repeated in vain
    is_slow.unlink()
    state = alice.hear(STATE, 30)
    (table,) = state[2]
    (packed,) = fields_of(table)[6]
    alice.next = (packed[0] & 127) | packed[1] << 7
    assert 250 < alice.next < 302
    while alice.next < 302:
        alice.put()
    alice.ask()
    wait_for(lambda: alice.hear(COMMITTED, 1) is not None, 20, "all of it to be durable")
    assert not alice.hear(NACK, 0.5)


def test_a_slow_disk_of_one_run_delays_no_answer_of_another(services, tmp_path, monkeypatch):
    slow = os.urandom(16)
    is_slow = tmp_path / "slow"
    made = Services(
        services, tmp_path, monkeypatch, FAULTY_CALLS="sync", FAULTY_SLEEP=60000,
        FAULTY_DIR=tmp_path / "store" / str(uuid.UUID(bytes=slow)), FAULTY_WHILE=is_slow,
    )  # fmt: skip
    is_slow.touch()
    alice = Collector(made.aggregator.endpoint, slow)
    alice.say(RUN_OPEN, sint(2, time.time_ns()))
    write_stream(made.spool, slow, 20)
    with runs(made, 4) as others:
        for bob in others:
            began = time.monotonic()
            bob.open()
            write_stream(made.spool, bob.run_id, 20)
            bob.end()
            alice.say(RUN_END, sint(2, time.time_ns()))
            assert time.monotonic() - began < 50, "it has waited for a sync of another run"
    is_slow.unlink()
    alice.end()
    alice.close()
