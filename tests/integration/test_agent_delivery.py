"""crema-agent with the real aggregator and sink."""

from __future__ import annotations

import pathlib
import signal
import subprocess

import pytest

import agent_kit
from agent_kit import (
    BATCH,
    END,
    PATIENCE_S,
    program,
    streams,
)
from children import Child
from ports import free_port
from waiting import wait_for

agents, spool, write = agent_kit.agents, agent_kit.spool, agent_kit.write  # fixtures


class Pipeline:
    """A sink and an aggregator on fixed ports, so that agents may be there first."""

    def __init__(self, directory: pathlib.Path, keys: pathlib.Path | None = None):
        self.directory, self.keys = directory, keys
        self.ports = [free_port() for _ in range(2)]
        self.endpoint = f"tcp://127.0.0.1:{self.ports[0]}"
        self.processes: list[subprocess.Popen] = []

    def start(self) -> None:
        store = f"tcp://127.0.0.1:{self.ports[1]}"
        keys = ["--keys", self.keys] if self.keys else []
        self._start(
            "crema-sink",
            *["--bind", store, "--store", self.directory / "store"],
            *["--output", self.directory / "output", *keys],
        )
        self._start("crema-aggregator", "--bind", self.endpoint, "--sink", store, *keys)

    def _start(self, name: str, *arguments) -> None:
        with (self.directory / f"{name}.log").open("w") as log:
            command = [program(name), *map(str, arguments)]
            self.processes.append(Child(command, stdout=subprocess.PIPE, stderr=log, text=True))
        assert "ready" in self.processes[-1].stdout.readline()

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait(PATIENCE_S)
            process.stdout.close()
        self.processes.clear()


@pytest.fixture
def pipeline(tmp_path):
    made = []

    def make(keys: pathlib.Path | None = None) -> Pipeline:
        made.append(Pipeline(tmp_path, keys))
        for name in ("store", "output"):
            (tmp_path / name).mkdir(exist_ok=True)
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def make_keys(tmp_path):
    def make(name: str) -> pathlib.Path:
        directory = tmp_path / name
        command = [program("crema-aggregator"), "--make-keys", str(directory)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        return directory

    return make


def test_an_agent_that_leaves_without_an_aggregator_does_not_say_it_was_reached(
    spool, agents, write
):
    write(n=10).close()
    agent = agents("--spool", spool, "--aggregator", "tcp://127.0.0.1:1")
    agent.must_log("aggregator_unreachable")
    assert agent.must_end(signal.SIGTERM) == 1
    agent.must_log("records_stay")
    assert "aggregator_reached" not in agent.log.read_text()


def test_records_arrive_and_leave_the_spool_whoever_comes_first(spool, agents, write, pipeline):
    services = pipeline()
    write(n=10).close()
    alive = write(n=10)
    agent = agents(
        "--spool", spool, "--aggregator", services.endpoint, "--sample-interval", "100ms"
    )
    agent.must_log("aggregator_unreachable")
    services.start()
    agent.must_log("aggregator_reached")
    wait_for(lambda: alive.id in streams(spool) and len(streams(spool)) == 2, what="not trimmed")
    alive.append(END, b"")
    wait_for(lambda: not streams(spool), what="closed and committed streams stay")
    assert agent.log.read_text().count("aggregator_reached") == 1
    assert agent.must_end(signal.SIGTERM) == 0
    agent.must_log("delivered")


def test_an_aggregator_that_is_replaced_is_found_again(spool, agents, write, pipeline):
    services = pipeline()
    services.start()
    writer = write(n=10)
    agent = agents(
        "--spool", spool, "--aggregator", services.endpoint, "--heartbeat-interval", "200ms"
    )
    agent.must_log("serving")
    services.stop()
    writer.append(BATCH, b"\x08\x06")
    writer.append(END, b"")
    services.start()
    wait_for(lambda: not streams(spool), what="not delivered after the restart")
    assert agent.must_end(signal.SIGTERM) == 0


def test_the_records_of_a_short_command_are_delivered_before_the_agent_leaves(
    spool, agents, write, pipeline
):
    services = pipeline()
    services.start()
    write(n=1000).close()
    agent = agents("--spool", spool, "--aggregator", services.endpoint, "--", "sh", "-c", "exit 3")
    assert agent.must_end() == 3
    assert not streams(spool)


def test_an_agent_is_admitted_with_the_right_keys_only(spool, agents, write, pipeline, make_keys):
    services = pipeline(make_keys("keys"))
    services.start()
    writer = write(n=10)
    writer.append(END, b"")
    for keys in (["--keys", make_keys("others")], []):
        stranger = agents("--spool", spool, "--aggregator", services.endpoint, *keys)
        stranger.must_log("aggregator_unreachable")
        stranger.must_end(signal.SIGKILL)
        assert writer.path.exists()
    agent = agents("--spool", spool, "--aggregator", services.endpoint, "--keys", services.keys)
    wait_for(lambda: not streams(spool), what="not delivered")
    assert agent.must_end(signal.SIGTERM) == 0


def test_a_copied_spool_is_refused_and_a_wrapped_command_runs_on(spool, agents, tmp_path, pipeline):
    services = pipeline()
    services.start()
    options = ["--aggregator", services.endpoint, "--heartbeat-interval", "200ms"]
    first = agents("--spool", spool, *options)
    first.must_log("serving")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "agent_id").write_bytes((spool / "agent_id").read_bytes())
    script = "trap 'exit 4' TERM; while :; do sleep 0.05; done"
    wrapping = agents("--spool", copy, *options, "--", "sh", "-c", script)
    assert first.must_end() == 3
    assert "copied" in first.must_log("refused")
    wrapping.must_log("refused")
    assert wrapping.process.poll() is None
    assert wrapping.must_end(signal.SIGTERM) == 4
