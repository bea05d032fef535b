"""The program that holds the connection to the aggregator may die, stop or lack its keys: the collector goes on or says so."""

from __future__ import annotations

import os
import pathlib
import signal
import time
import uuid

import pytest

import crema
from crema.collect import _client, _service
from waiting import wait_for


@pytest.fixture
def link(tmp_path):
    service = _service.LocalService(uuid.uuid4(), tmp_path)
    service.start()
    link = _client.AggregatorClient(service.endpoint, service.keys)
    wait_for(lambda: answers(link), 30, "no answer")  # it may still be asking its sink
    yield link
    link.close()
    service.close(sealed=True)


def answers(link) -> bool:
    run_id = uuid.uuid4().bytes
    return link.send(_client.RUN_QUERY, 5.0, run_id=run_id) and any(
        True for _ in link.states(run_id, 0.5)
    )


def test_one_that_is_killed_is_started_again(link):
    assert link.connections == 1
    os.kill(link._process.pid, signal.SIGKILL)
    wait_for(lambda: answers(link), 30, "it is not started again")
    assert link.connections == 2


def test_one_that_is_stopped_does_not_hold_the_collector(link):
    os.kill(link._process.pid, signal.SIGSTOP)
    try:
        writers, began = [{"uuid": "x" * 100}] * 1000, time.monotonic()
        for part in range(20):
            link.send(_client.RUN_WRITERS, run_id=b"r" * 16, part=part, parts=20, writers=writers)
        assert not link.send(_client.RUN_QUERY, run_id=b"r" * 16)
        assert time.monotonic() - began < 5
    finally:
        os.kill(link._process.pid, signal.SIGCONT)
    wait_for(lambda: answers(link), 30, "what was begun is not finished")


def test_relay_ends_with_its_collector(link):
    process = link._process
    began = time.monotonic()
    link.close()
    assert process.returncode == 0 and time.monotonic() - began < 1
    assert not link.send(_client.RUN_QUERY, run_id=b"r" * 16)
    assert link._process is None, "it is started again"


def test_libzmq_does_not_run_in_the_process_that_analyses(tmp_path):
    def threads() -> set[str]:
        names = pathlib.Path("/proc/self/task").glob("*/comm")
        return {f"{path.parent.name} {path.read_text()}" for path in names}

    before = threads()
    with crema.MetricsCollector(output=tmp_path, quiet=True):
        assert not [name for name in threads() - before if "ZMQ" in name]


def test_keys_that_cannot_be_used_are_named(link, tmp_path):
    other = _client.AggregatorClient("tcp://127.0.0.1:1", tmp_path / "nothing")
    try:
        assert not other.send(_client.RUN_QUERY, 5.0, run_id=b"r" * 16)
        assert f"keys in {tmp_path / 'nothing'} cannot be used: " in other.failed
    finally:
        other.close()


def test_an_endpoint_that_is_none_is_named():
    link = _client.AggregatorClient("nowhere", None)
    try:
        assert not link.send(_client.RUN_QUERY, 5.0, run_id=b"r" * 16)
        assert link.failed == "nowhere is not an endpoint such as tcp://127.0.0.1:5700"
    finally:
        link.close()
