"""Messages that vanish by their type, agents that die with records nobody has, and how soon a run's end is known."""

from __future__ import annotations

import random
import time
import uuid

import pytest

from crema.collect import _client
from kept_records import LONG, Tail, must_have_kept_everything, wait_for
from losses import nothing_lost_or_twice
from message_proxy import DATA, HEARTBEAT, Between
from namespaces import connections
from service_kit import write_stream

pytestmark = pytest.mark.timeout(120)
H_S = 0.5


@pytest.fixture
def between():
    made = []

    def make(pipeline) -> Between:
        made.append(Between(pipeline.endpoint))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def watched(pipelines, between):
    """A pipeline whose agents reach their aggregator through somebody in between."""

    def make(h_s: float = H_S):
        pipeline = pipelines(spools=0, agent_options=("--heartbeat-interval", f"{h_s}s"))
        line = between(pipeline)
        pipeline.spools.append(pipeline.make("spool"))
        pipeline.agents.append(pipeline.start_agent(pipeline.spools[0], line.endpoint))
        return pipeline, line

    return make


@pytest.mark.timing
def test_an_agent_that_sends_data_but_no_heartbeats_is_not_suspected(watched):
    pipeline, line = watched()
    pipeline.start_writers(200)
    tail = Tail(pipeline)
    wait_for(lambda: tail.records() > 0, what="delivery")
    line.vanishes = lambda kind, body: kind == HEARTBEAT
    time.sleep(12 * H_S)
    vanished = sum(not passed for _, _, _, passed in line.seen)
    line.vanishes = lambda kind, body: False
    log = (pipeline.log / "aggregator.log").read_text()
    print(f"{vanished} heartbeats vanished, {log.count('agent_suspect')} times suspected")
    assert vanished >= 8
    assert "agent_suspect" not in log
    assert log.count("event=agent_welcomed") == 1
    must_have_kept_everything(pipeline)


def gaps_s(line: Between) -> list[float]:
    """From the message that made a gap known to the one that was sent to close it, which may vanish and be the next gap."""
    closed = []
    for i, (_, kind, lost, passed) in enumerate(line.seen):
        if kind != DATA or passed:
            continue
        known_s = None
        for at_s, later, body, got_through in line.seen[i + 1 :]:
            if known_s is not None and later == DATA and covers(body, lost):
                closed.append(at_s - known_s)
                break
            if known_s is None and got_through:
                known_s = at_s
    return closed


def covers(data, lost) -> bool:
    begins_before = data.first_seq <= lost.first_seq < data.first_seq + data.n
    return data.stream_id == lost.stream_id and begins_before


@pytest.mark.timing
def test_data_that_vanished_are_there_again_within_a_window(watched, seed):
    pipeline, line = watched()
    choice = random.Random(seed)
    pipeline.start_writers(200)
    tail = Tail(pipeline)
    wait_for(lambda: tail.records() > 0, what="delivery")
    line.vanishes = lambda kind, body: kind == DATA and choice.random() < 0.2
    time.sleep(5)
    tails = iter([True])  # the last message of the stream, after which no other tells of a gap
    line.vanishes = lambda kind, body: kind == DATA and body.flags & 1 and next(tails, False)
    must_have_kept_everything(pipeline)
    gaps = sorted(gaps_s(line))
    print(f"{len(gaps)} gaps closed, median {gaps[len(gaps) // 2]:.3f} s, last {gaps[-1]:.3f} s")
    assert len(gaps) >= 3
    assert gaps[-1] <= 1.2 * 2 * H_S + 0.5  # W0 + 20 %, and a round trip on a busy machine


# ---------------------------------------------------------------- the end of a run


class Run:
    """As much of a collector as it takes to open a run and to end it."""

    def __init__(self, endpoint: str):
        self.id = uuid.uuid4()
        self.client = _client.AggregatorClient(endpoint, None)
        self.until(_client.OPEN, _client.RUN_OPEN, 20, t_start_ns=time.time_ns())

    def until(self, phase: int, kind: int, timeout_s: float, **fields):
        """(seconds, state) until the run is in that phase or a later one."""
        began = time.monotonic()
        while time.monotonic() - began < timeout_s:
            if kind == _client.RUN_END:
                fields["writer_parts"] = 1
                self.client.send(_client.RUN_WRITERS, run_id=self.id.bytes, part=0, parts=1)
            self.client.send(kind, run_id=self.id.bytes, **fields)
            for state in self.client.states(self.id.bytes, 1.0):
                if state.phase >= phase:
                    return time.monotonic() - began, state
        raise AssertionError(f"not in phase {phase} within {timeout_s} s")

    def end(self, timeout_s: float):
        """(seconds until the verdict is given, state of the sealed run)."""
        now_ns = time.time_ns()
        took_s, _ = self.until(_client.VERDICT, _client.RUN_END, timeout_s, t_end_ns=now_ns)
        _, state = self.until(_client.SEALED, _client.RUN_END, 60, t_end_ns=now_ns)
        self.client.close()
        return took_s, state


@pytest.mark.timing
@pytest.mark.parametrize("h_s", [0.2, pytest.param(0.5, marks=LONG)])
def test_an_agent_that_died_is_named_with_what_it_had(watched, h_s):
    pipeline, line = watched(h_s)
    run = Run(pipeline.endpoint)
    healthy = pipeline.make("healthy")
    pipeline.spools.append(healthy)
    pipeline.agents.append(pipeline.start_agent(healthy))
    line.vanishes = lambda kind, body: kind == DATA
    dead = write_stream(pipeline.spools[0], run.id.bytes, 500)
    write_stream(healthy, run.id.bytes, 300)

    def is_known() -> bool:
        tables = [
            body.table.stream_ids for _, kind, body, _ in list(line.seen) if kind == HEARTBEAT
        ]
        return bool(tables) and bytes.fromhex(dead) in tables[-1]

    wait_for(is_known, what="a heartbeat that lists the stream")
    time.sleep(3 * h_s)
    pipeline.agents[0].kill(restart=False)
    time.sleep(0.2)
    last = [body.table for _, kind, body, _ in line.seen if kind == HEARTBEAT][-1]
    took_s, state = run.end(62 * h_s + 20)
    print(f"{state.verdict} after {took_s:.1f} s = {took_s / h_s:.0f} H: "
          f"{[(reason.code, reason.count) for reason in state.reasons]}")  # fmt: skip
    assert took_s <= 62 * h_s + 1
    assert sum(last.hi) >= 500
    with nothing_lost_or_twice():
        assert state.verdict == "PARTIAL"
        assert [(reason.code, reason.count) for reason in state.reasons] == [
            ("agent_lost", sum(last.hi))
        ]


@pytest.mark.timing
@pytest.mark.parametrize("ends", [5, pytest.param(30, marks=LONG)])
def test_fifty_agents_end_a_run_in_a_moment_though_they_seldom_beat(pipelines, ends):
    pipeline = pipelines(spools=50, agent_options=("--heartbeat-interval", "26s"))
    pid = pipeline.aggregator.process.pid
    wait_for(
        lambda: len(connections(pid, pipeline.endpoint)) == 50, 60, "a connection of each agent"
    )
    time.sleep(2)  # for the WELCOME
    took_ms = []
    for _ in range(ends):
        run = Run(pipeline.endpoint)
        for spool in pipeline.spools:
            write_stream(spool, run.id.bytes, 20)
        took_s, state = run.end(60)
        with nothing_lost_or_twice():
            assert state.verdict == "COMPLETE", state
            assert state.streams >= 50
        took_ms.append(1000 * took_s)
    took_ms.sort()
    p50, p99 = took_ms[len(took_ms) // 2], took_ms[-1]
    print(f"{ends} ends: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    assert p99 <= 250
