"""Partitions, one-way loss and packet loss between an agent and its aggregator, each in a network namespace of its own."""

from __future__ import annotations

import time

import pytest

import missing
from kept_records import LONG, Pipeline, Tail, must_have_kept_everything, wait_for
from namespaces import CannotMakeError, Network, connections, established

pytestmark = [pytest.mark.timing, pytest.mark.timeout(180)]
RATE = 1000  # records a second
FOUND_S = 6.0  # 3 s after the kernel first repeated what was sent last, and a machine that is busy
H_S = 1.0


@pytest.fixture
def network():
    try:
        made = Network()
    except CannotMakeError as why:
        pytest.skip(f"{missing.NETWORK_FAULTS}: {why}")
    yield made
    made.destroy()


@pytest.fixture
def across(network, pipelines) -> Pipeline:
    """A pipeline whose agent is on the near side, its aggregator and sink on the far side; records flow."""
    pipeline = pipelines(
        host=network.host,
        near=network.prefix("near"),
        far=network.prefix("far"),
        agent_options=("--heartbeat-interval", f"{H_S}s"),
    )
    pipeline.start_writers(RATE)
    tail = Tail(pipeline)
    wait_for(lambda: tail.records() > RATE, 30, "delivery over the network")
    return pipeline


def first_commit_s(tail: Tail, before: int, timeout_s: float) -> float:
    """Seconds until the journal grows. The aggregator acknowledges in the same event in which it learns of that."""
    began = time.monotonic()
    wait_for(lambda: tail.records() > before, timeout_s, "a commit", 0.01)
    return time.monotonic() - began


@pytest.mark.parametrize(
    "seconds", [15, pytest.param(60, marks=LONG), pytest.param(600, marks=LONG)]
)
def test_records_flow_within_five_seconds_after_a_partition(network, across, seconds):
    tail = Tail(across)
    network.cut()
    time.sleep(seconds)
    before = tail.records()
    assert network.dropped() > 0
    network.heal()
    took_s = first_commit_s(tail, before, 30)
    print(f"cut {seconds} s, first commit {took_s:.1f} s after it was healed")
    must_have_kept_everything(across)  # first: a loss is never tried again
    assert took_s <= 5


@pytest.mark.parametrize("sender", ["near", "far"])
@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=LONG)])
def test_one_way_loss_is_answered_by_dialling_anew(network, across, seconds, sender):
    agent = across.agents[0].process.pid
    known = {port for port, _ in connections(agent, across.endpoint)}
    network.cut(sender)
    began = time.monotonic()
    wait_for(
        lambda: {port for port, _ in connections(agent, across.endpoint)} - known,
        5 * H_S + 2, "a new connection",
    )  # fmt: skip
    took_s = time.monotonic() - began
    print(f"what {sender} sent was cut, dialled anew after {took_s:.1f} s = {took_s / H_S:.1f} H")
    time.sleep(max(seconds - took_s, 0))
    assert network.dropped() > 0
    network.heal()
    must_have_kept_everything(across)
    assert took_s <= 5 * H_S + 0.5  # 4 H, half a second of back-off at most, and a busy machine


@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=LONG)])
def test_records_flow_slower_with_a_third_of_all_packets_lost(network, across, seconds):
    """TCP itself may stand still for ten seconds and more, in which it repeats one packet: then it is watched for longer."""
    tail = Tail(across)

    def rate_per_s(over_s: float, least: float = 0, longest_s: float = 0) -> float:
        before, began = tail.records(), time.monotonic()
        rate = 0.0
        while time.monotonic() < began + over_s or (
            rate < least and time.monotonic() < began + longest_s
        ):
            time.sleep(0.1)
            rate = (tail.records() - before) / (time.monotonic() - began)
        return rate

    whole = rate_per_s(3)
    network.lose(0.3)
    began = time.monotonic()
    lossy = rate_per_s(seconds, least=0.1 * whole, longest_s=seconds + 30)
    print(
        f"{whole:.0f} records/s, {lossy:.0f} over {time.monotonic() - began:.0f} s with 30 % loss "
        f"({network.dropped()} packets): {lossy / whole:.0%}"
    )
    assert network.dropped() > seconds
    network.heal()
    must_have_kept_everything(across)
    assert lossy >= 0.1 * whole


@pytest.mark.parametrize("rate", [RATE, 0])
def test_a_broken_connection_is_found_within_seconds_by_both_ends(network, pipelines, rate):
    """Aggregator and sink, in the middle of data and when nothing was said for a while."""
    pipeline = pipelines(
        near=network.prefix("near"),
        between=network.prefix("near"),
        far=network.prefix("far"),
        sink_host=network.host,
    )
    pipeline.start_writers(RATE)
    tail = Tail(pipeline)
    wait_for(lambda: tail.records() > RATE, 30, "delivery over the network")
    if rate == 0:
        pipeline.stop_writers()
        time.sleep(2)
    network.cut()
    began, found_s = time.monotonic(), []
    for program in (pipeline.aggregator, pipeline.sink):
        wait_for(
            lambda pid=program.process.pid: not established(pid, pipeline.sink_endpoint),
            30, "an end of the connection", 0.02,
        )  # fmt: skip
        found_s.append(time.monotonic() - began)
    print(f"{rate} records/s: found after {found_s[0]:.1f} and {found_s[1]:.1f} s")
    network.heal()
    must_have_kept_everything(pipeline)
    assert max(found_s) <= FOUND_S
