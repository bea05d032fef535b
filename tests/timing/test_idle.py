"""Programs that have nothing to do: how often they wake, and that what comes then is noticed at once."""

from __future__ import annotations

import pathlib
import subprocess
import time
import uuid

import pytest

pytestmark = [pytest.mark.timing, pytest.mark.timeout(120)]

SECONDS = 4
WAKES_PER_S = {"agent": 3, "aggregator": 4.5, "sink": 2.5}
SAMPLES = 64


def wakes(pid: int) -> int:
    """Times that a thread of the process gave up its core of its own accord."""
    texts = [(task / "status").read_text() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    lines = [line for text in texts for line in text.splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))


def test_programs_with_nothing_to_do_seldom_wake(pipelines):
    pipeline = pipelines(agent_options=())
    time.sleep(2)  # connected, and the spool was looked at
    programs = {"sink": pipeline.sink, "aggregator": pipeline.aggregator}
    programs["agent"] = pipeline.agents[0]
    before = {name: wakes(program.process.pid) for name, program in programs.items()}
    time.sleep(SECONDS)
    found = {n: (wakes(p.process.pid) - before[n]) / SECONDS for n, p in programs.items()}
    assert all(found[name] <= WAKES_PER_S[name] for name in found), found


def test_records_written_after_a_quiet_time_are_delivered_at_once(pipelines):
    pipeline = pipelines(agent_options=("--sample-interval", "1h", "--heartbeat-interval", "10s"))
    time.sleep(2)
    words = [pipeline.bin("chain_writer_main"), pipeline.spools[0], uuid.uuid4().hex]
    began = time.monotonic()
    subprocess.run([*words, str(SAMPLES), str(SAMPLES)], check=True)
    while any(pipeline.spools[0].glob("sp-*")) and time.monotonic() - began < 30:
        time.sleep(0.01)
    took = time.monotonic() - began
    assert took < 0.9, took  # without a notice it would be looked at once per second
