"""Who starts the agent, how often, and with what."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import sys
import time

import hook_support as support
import pytest

from crema import _agent

FAKE = """#!{python}
import fcntl, os, sys, time
arguments = sys.argv[1:]
spool = arguments[arguments.index("--spool") + 1]
with open(spool + "/started", "a") as file:
    print(*arguments, file=file)
lock = open(spool + "/agent.lock", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(0)
if os.fork():
    os._exit(0)
os.setsid()
lock.write(str(os.getpid()))
lock.flush()
time.sleep(60)
"""


@pytest.fixture
def spool(tmp_path, monkeypatch):
    """A spool directory and a program that behaves like an agent's daemon; what it started is ended."""
    fake = tmp_path / "crema-agent"
    fake.write_text(FAKE.format(python=sys.executable))
    fake.chmod(0o755)
    monkeypatch.setattr(_agent, "program", lambda name: str(fake))
    monkeypatch.setattr(_agent, "_PATIENCE_S", 1.0)
    directory = tmp_path / "spool"
    directory.mkdir()
    yield directory
    kill(directory)


def kill(directory) -> None:
    lock = directory / "agent.lock"
    while _agent.lock_is_held(lock) and not lock.read_text():
        time.sleep(0.01)  # it has the lock and is about to write its pid
    if _agent.lock_is_held(lock):
        os.kill(int(lock.read_text()), signal.SIGKILL)
        while _agent.lock_is_held(lock):
            time.sleep(0.01)
        lock.write_text("")


def keeper(directory, tmp_path) -> _agent.AgentKeeper:
    settings = support.config(
        tmp_path,
        aggregator="tcp://127.0.0.1:5700",
        keys={"client.key": "public", "client.key_secret": "secret"},
        agent_options=("--heartbeat-interval", "2s"),
    )
    return _agent.AgentKeeper(settings, directory)


def until(condition, timeout_s=10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def starts(directory) -> list[str]:
    path = directory / "started"
    return path.read_text().splitlines() if path.exists() else []


def test_an_agent_is_started_with_all_it_needs(spool, tmp_path):
    one = keeper(spool, tmp_path)
    one.check()
    assert until(one.is_held)
    one.check()
    time.sleep(0.2)
    (words,) = starts(spool)
    for expected in (
        f"--spool {spool}",
        "--aggregator tcp://127.0.0.1:5700",
        f"--run {one._config.run_id}",
        f"--keys {spool}/keys",
        "--heartbeat-interval 2s",
        "--daemon",
    ):
        assert expected in words
    secret = spool / "keys" / "client.key_secret"
    assert secret.read_text() == "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700


def test_nobody_waits_for_the_start(spool, tmp_path, monkeypatch):
    monkeypatch.setattr(_agent.AgentKeeper, "_start_alone", lambda self: time.sleep(5))
    one = keeper(spool, tmp_path)
    began = time.monotonic()
    one.check()
    one.check()
    assert time.monotonic() - began < 2.5


def check_for_a_while(one) -> None:
    for _ in range(20):
        one.check()
        time.sleep(0.05)


def test_a_host_full_of_workers_starts_one(spool, tmp_path):
    context = multiprocessing.get_context("fork")
    crowd = [
        context.Process(target=check_for_a_while, args=(keeper(spool, tmp_path),)) for _ in range(6)
    ]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join()
    assert len(starts(spool)) == 1


def test_a_killed_agent_is_started_again(spool, tmp_path):
    one = keeper(spool, tmp_path)
    one.check()
    assert until(one.is_held)
    kill(spool)
    assert not one.is_held()
    assert until(lambda: one.check() or one.is_held())
    assert len(starts(spool)) == 2 and one.started == 2


def test_a_program_that_fails_is_not_started_over_and_over(spool, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_agent, "program", lambda name: "/bin/false")
    one = keeper(spool, tmp_path)
    for _ in range(30):
        one.check()
        time.sleep(0.05)
    assert until(lambda: "did not take up" in one.problem)
    assert 1 <= one.started <= 3
    assert len([r for r in caplog.records if r.name == "crema"]) <= one.started


def test_a_missing_program_is_said_once(spool, tmp_path, monkeypatch):
    def missing(name):
        raise FileNotFoundError(f"{name} is nowhere")

    monkeypatch.setattr(_agent, "program", missing)
    one = keeper(spool, tmp_path)
    one.check()
    assert until(lambda: bool(one.problem)) and "nowhere" in one.problem


def test_key_names_cannot_leave_the_directory(spool):
    with pytest.raises(ValueError, match="file name"):
        _agent.write_keys(spool / "keys", {"../evil": "x"})
