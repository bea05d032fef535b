"""Many agents at one aggregator: all come back at once, one floods the others, fifty end a run together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from children import Child
from kept_records import LONG, PROGRAMS, Pipeline, wait_for

pytestmark = [pytest.mark.timing, pytest.mark.timeout(120)]


def busy() -> str:
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Swarm:
    """Agents in one process, and what it says of them."""

    def __init__(self, pipeline: Pipeline, agents: int, h_ms: int, rate: float = 0, *more: str):
        keys = str(pipeline.keys[1]) if pipeline.keys else "-"
        command = [PROGRAMS / "swarm_main", pipeline.endpoint, keys, agents, h_ms, rate, *more]
        self.process = Child(map(str, command), stdout=subprocess.PIPE, text=True)
        self.said = {"welcomed": 0}
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.said.update(json.loads(line))

    def must_welcome(self, agents: int, timeout_s: float):
        wait_for(lambda: self.said["welcomed"] == agents, timeout_s, f"{agents} WELCOMEs", 0.02)

    def latencies(self) -> dict:
        """Of the records acknowledged since the last time."""
        self.said.pop("p99_ms", None)
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "p99_ms" in self.said, 10, "an answer", 0.01)
        return dict(self.said)

    def stop(self) -> dict:
        self.process.send_signal(signal.SIGTERM)
        self.reader.join(20)
        self.process.wait(20)
        return self.said


@pytest.fixture
def swarms():
    made = []

    def make(*arguments) -> Swarm:
        made.append(Swarm(*arguments))
        return made[-1]

    yield make
    for swarm in made:
        if swarm.process.poll() is None:
            swarm.process.kill()
        swarm.reader.join()
        swarm.process.wait()


# ---------------------------------------------------------------- all come back at once


@pytest.mark.parametrize("agents", [500, pytest.param(5000, marks=LONG)])
def test_all_agents_are_back_soon_after_a_restart(pipelines, swarms, agents):
    pipeline = pipelines(spools=0, keyed=True)
    h_ms = max(1000, agents // 2)
    swarm = swarms(pipeline, agents, h_ms)
    swarm.must_welcome(agents, 90)
    pipeline.aggregator.kill()
    began = time.monotonic()
    wait_for(lambda: swarm.said["welcomed"] < agents, 30, "the restart", 0.02)
    swarm.must_welcome(agents, 10)
    took_s, used_s = time.monotonic() - began, cpu_s(pipeline.aggregator.process.pid)
    print(
        f"{agents} agents with CURVE back after {took_s:.1f} s, aggregator {used_s:.1f} core-s, {busy()}"
    )
    assert took_s <= 10
    assert used_s < max(1, agents / 1000)


# ---------------------------------------------------------------- one of them floods


@pytest.mark.parametrize("manner", ["within its credit", "beyond its credit"])
@pytest.mark.parametrize("seconds", [2, pytest.param(30, marks=LONG)])
def test_a_flooding_agent_delays_the_others_little(pipelines, swarms, manner, seconds):
    pipeline = pipelines(spools=0)
    normal, rate = 50, 20
    swarm = swarms(pipeline, normal, 1000, rate)
    swarm.must_welcome(normal, 20)
    time.sleep(1)  # what waited for the WELCOME
    swarm.latencies()
    time.sleep(seconds)
    alone = swarm.latencies()
    abuse = ("abuse",) if manner.startswith("beyond") else ()
    flooder = swarms(pipeline, 1, 1000, 100 * rate, *abuse)
    time.sleep(seconds)
    beside, flooder = swarm.latencies(), flooder.stop()
    assert min(alone["acknowledged"], beside["acknowledged"]) > normal * seconds
    print(f"p99 {alone['p99_ms']:.0f} ms alone, {beside['p99_ms']:.0f} ms beside one that floods {manner}; "
          f"p50 {alone['p50_ms']:.0f} and {beside['p50_ms']:.0f} ms; flooder {flooder}, {busy()}")  # fmt: skip
    assert beside["p99_ms"] <= 2 * alone["p99_ms"] + 200  # the second term for a busy machine
    if manner.startswith("beyond"):
        assert flooder["credit_fences"] >= 1
