"""Faults of machine and network against the real programs: what was recorded is kept, once."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import threading
import time

import pytest

from kept_records import LONG, Pipeline, Tail, must_have_kept_everything, recorded, wait_for
from namespaces import connections

pytestmark = pytest.mark.timeout(180)
RECORD_B = 65  # one of torture_writer's on its way to the sink


def peak_b(pid: int) -> int:
    """Most memory that a process had resident."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def connections_of_agents(pipeline: Pipeline) -> list:
    """To the aggregator, which itself dials a sink again that was silent for ten seconds."""
    return [connections(agent.process.pid, pipeline.endpoint) for agent in pipeline.agents]


@pytest.mark.timing
@pytest.mark.parametrize("seconds", [20, pytest.param(600, marks=LONG)])
def test_an_aggregator_that_was_away_catches_up_while_more_is_recorded(pipelines, seconds):
    rate = 2000
    pipeline = pipelines()
    pipeline.start_writers(rate)
    tail = Tail(pipeline)
    wait_for(lambda: tail.records() > 0, what="delivery")
    pipeline.aggregator.kill(restart=False)
    time.sleep(seconds)
    before = tail.records()
    pipeline.aggregator.start()
    wait_for(lambda: tail.records() > before, 30, "a commit", 0.005)
    began, first = time.monotonic(), tail.records()
    wait_for(lambda: tail.records() > recorded(pipeline) - rate / 2, 120, "catching up", 0.005)
    took_s, caught_up = time.monotonic() - began, tail.records() - first
    print(
        f"{caught_up} records in {took_s:.2f} s: {caught_up / took_s / rate:.0f} x what is recorded"
    )
    assert caught_up / took_s >= 5 * rate
    must_have_kept_everything(pipeline)


class Wire:
    """A TCP connection to a sink that takes so many bytes per second, as one whose disk is no faster does."""

    def __init__(self):
        self.bytes_per_s = 0.0  # 0: no limit
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"

    def lead_to(self, endpoint: str):
        address = ("127.0.0.1", int(endpoint.rsplit(":", 1)[1]))
        threading.Thread(target=self._serve, args=(address,), daemon=True).start()

    def _serve(self, address):
        while True:
            near = self.listener.accept()[0]
            try:
                far = socket.create_connection(address)
            except ConnectionRefusedError:  # the sink does not listen yet
                near.close()
                continue
            near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            threading.Thread(target=self._copy, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._copy, args=(far, near, False), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, slowly: bool):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                if slowly and self.bytes_per_s:
                    time.sleep(len(data) / self.bytes_per_s)
                target.sendall(data)
        source.close()
        target.close()


@pytest.mark.timing
@pytest.mark.parametrize("seconds", [10, pytest.param(300, marks=LONG)])
def test_a_sink_ten_times_too_slow_costs_no_memory_and_no_agents_connection(pipelines, seconds):
    rate = 15_000
    wire = Wire()
    pipeline = pipelines(spools=2, sink_seen_at=wire.endpoint)
    wire.lead_to(pipeline.sink_endpoint)
    tail = Tail(pipeline)
    aggregator = pipeline.aggregator.process.pid
    pipeline.start_writers(rate)
    wait_for(lambda: tail.records() > 2 * rate, what="delivery")
    n = len(pipeline.agents)
    wait_for(
        lambda: len(connections_of_agents(pipeline)[0]) == n, what="a connection of each agent"
    )
    before_b, known = peak_b(aggregator), connections_of_agents(pipeline)
    made = recorded(pipeline)
    time.sleep(1)
    wire.bytes_per_s = (recorded(pipeline) - made) * RECORD_B / 16
    time.sleep(2)  # what was on its way
    taken, made = tail.records(), recorded(pipeline)
    time.sleep(seconds)
    taken, made = tail.records() - taken, recorded(pipeline) - made
    grown_b = peak_b(aggregator) - before_b
    print(f"the sink took {taken} of {made}, {made / taken:.0f} x too slow; "
          f"the aggregator grew from {before_b >> 20} MiB by {grown_b >> 20} MiB")  # fmt: skip
    assert made >= 10 * taken
    assert grown_b <= 64 << 20  # windows of 4 MiB, what a starving agent sent anew, and a busy heap
    assert connections_of_agents(pipeline) == known
    wire.bytes_per_s = 0
    assert "agent_suspect" not in (pipeline.log / "aggregator.log").read_text()
    must_have_kept_everything(pipeline, drain_s=240)
