"""Who starts the agent, how often, and with what."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import time

import pytest

import hook_support as support
from children import Child
from crema.hook import _agent
from waiting import wait_for

FAKE = """#!{python}
import fcntl, os, sys, time
arguments = sys.argv[1:]
if os.environ.get("CREMA_KEYS"):
    sys.exit(2)  # as the agent, which cannot take them together with --server-key
spool = arguments[arguments.index("--spool") + 1]
if "--print-key" in arguments:
    os.makedirs(spool + "/keys", mode=0o700, exist_ok=True)
    with open(spool + "/keys/agent.key", "w") as file:
        print('metadata\\ncurve\\n    public-key = "' + "p" * 40 + '"', file=file)
    print("p" * 40, flush=True)
with open(spool + "/started", "a") as file:
    print(*arguments, file=file)
time.sleep(float(os.environ.get("FAKE_START_S", 0)))
lock = open(spool + "/agent.lock", "a")
for _ in range(10):  # as the agent: somebody may just be looking whether it is held
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        break
    except BlockingIOError:
        time.sleep(0.02)
else:
    sys.exit(0)
pid = os.fork()
if pid:
    lock.write(str(pid))
    lock.flush()
    os._exit(0)
os.setsid()
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


def keeper(directory, tmp_path, tell=None) -> _agent.AgentKeeper:
    settings = support.config(
        tmp_path,
        aggregator="tcp://127.0.0.1:5700",
        server_key="s" * 40,
        agent_options=("--heartbeat-interval", "2s"),
    )
    return _agent.AgentKeeper(settings, directory, tell)


def starts(directory) -> list[str]:
    path = directory / "started"
    return path.read_text().splitlines() if path.exists() else []


def test_an_agent_is_started_with_all_it_needs(spool, tmp_path):
    one = keeper(spool, tmp_path)
    one.check()
    wait_for(one.is_held)
    one.check()
    time.sleep(0.2)
    (words,) = starts(spool)
    for expected in (
        f"--spool {spool}",
        "--aggregator tcp://127.0.0.1:5700",
        f"--run {one._config.run_id}",
        f"--server-key {'s' * 40}",
        "--heartbeat-interval 2s",
        "--daemon",
    ):
        assert expected in words


def test_a_clients_keys_are_not_for_the_agent(spool, tmp_path, monkeypatch):
    """A LocalCluster in a notebook that has CREMA_KEYS for itself."""
    monkeypatch.setenv("CREMA_KEYS", "/keys/client")
    one = keeper(spool, tmp_path)
    one.check()
    wait_for(one.is_held)


async def look(*keepers) -> None:
    """As many looks as a second each brings them."""
    for _ in range(2 * _agent._LOOKS):
        for one in keepers:
            one.check()
        await asyncio.sleep(0.02)


async def started(spool, tmp_path, told) -> _agent.AgentKeeper:
    first = keeper(spool, tmp_path, told.append)
    first.watch(asyncio.get_running_loop())
    while not (told and first.is_held()):
        await asyncio.sleep(0.02)
    first.stop()
    return first


def test_one_process_of_a_host_announces_the_agents_public_key(spool, tmp_path):
    async def announced() -> list[str]:
        told: list[str] = []
        first = await started(spool, tmp_path, told)
        await look(first, keeper(spool, tmp_path, told.append))
        await look(keeper(spool, tmp_path, told.append))  # it joins later
        return told

    assert asyncio.run(asyncio.wait_for(announced(), 20)) == ["p" * 40]
    assert len(starts(spool)) == 1


def test_another_one_announces_it_if_the_starter_may_have_died_before(spool, tmp_path):
    async def announced() -> list[str]:
        told: list[str] = []
        await started(spool, tmp_path, told)
        await look(keeper(spool, tmp_path, told.append))
        return told

    assert asyncio.run(asyncio.wait_for(announced(), 20)) == ["p" * 40] * 2


def test_an_agent_that_cannot_make_its_pair_says_why(spool, tmp_path, monkeypatch):
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho no room for keys >&2\nexit 2\n")
    failing.chmod(0o755)
    monkeypatch.setattr(_agent, "program", lambda name: str(failing))
    one = keeper(spool, tmp_path)
    one.check()
    wait_for(lambda: one.problem == "no room for keys")
    assert not one.is_held()


def test_a_worker_with_many_open_files_starts_one(spool, tmp_path, many_open_files):
    one = keeper(spool, tmp_path)
    one.check()
    wait_for(one.is_held), one.problem
    assert not one.problem


@pytest.mark.parametrize("built_for", ["this Linux", "Linux 3.10"])
def test_a_dismissed_agent_is_told_by_a_signal_and_no_marker_stays(
    spool, tmp_path, monkeypatch, built_for
):
    if built_for == "Linux 3.10":  # as conda's Python is
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.delattr(signal, "pidfd_send_signal")
    one = keeper(spool, tmp_path)
    one.check()
    wait_for(lambda: one.is_held() and (spool / "agent.lock").read_text())
    monkeypatch.setattr(type(one._config), "spool_dir", lambda self: spool)
    before = set(spool.iterdir())
    _agent.dismiss(one._config)
    wait_for(lambda: not one.is_held())  # the fake one dies of it
    assert set(spool.iterdir()) == before
    _agent.dismiss(one._config)  # nobody there: nothing to do


def test_a_number_in_a_lock_is_signalled_only_if_it_is_that_directorys_agent(spool, tmp_path):
    """Neither another program, nor another directory's agent, nor one that began after the number was written."""
    one = keeper(spool, tmp_path)
    one.check()
    wait_for(lambda: one.is_held() and (spool / "agent.lock").read_text())
    pid = (spool / "agent.lock").read_text()
    with Child(["sleep", "60"]) as bystander:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        for number in (str(bystander.pid), pid, "", "x", "999999999"):
            (elsewhere / "agent.lock").write_text(number)
            assert not _agent.signal_holder(elsewhere / "agent.lock", signal.SIGKILL)
        assert bystander.poll() is None
        bystander.kill()
    os.utime(spool / "agent.lock", (0, time.time() - 3600))
    assert not _agent.signal_holder(spool / "agent.lock", signal.SIGKILL)
    os.utime(spool / "agent.lock")
    assert one.is_held() and _agent.signal_holder(spool / "agent.lock", signal.SIGKILL)
    wait_for(lambda: not one.is_held())


def test_an_agent_is_started_after_the_writers_only_for_what_they_left(spool, tmp_path):
    one = keeper(spool, tmp_path)
    one.writers_end()
    one.check()
    assert one._starter is None
    (spool / "sp-1").touch()
    one.check()
    wait_for(one.is_held)


def test_a_check_does_not_wait_for_the_start(spool, tmp_path, monkeypatch):
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


def test_an_agent_that_starts_while_the_run_ends_does_not_stay(spool, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_START_S", "0.5")
    monkeypatch.setattr(_agent, "_PATIENCE_S", 10.0)
    one = keeper(spool, tmp_path)
    one.check()
    wait_for(lambda: starts(spool))
    one.stop(over=True)
    wait_for(lambda: (spool / "agent.lock").exists())
    wait_for(lambda: not one.is_held() and not one._starter.is_alive())
    assert len(starts(spool)) == 1


def test_a_killed_agent_is_started_again(spool, tmp_path):
    one = keeper(spool, tmp_path)
    one.check()
    wait_for(one.is_held)
    kill(spool)
    assert not one.is_held()
    wait_for(lambda: one.check() or one.is_held())
    wait_for(lambda: one.started == 2)  # counted by the thread that started it
    assert len(starts(spool)) == 2


def test_a_program_that_fails_is_not_started_over_and_over(spool, tmp_path, monkeypatch, caplog):
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(_agent, "program", lambda name: str(failing))
    one = keeper(spool, tmp_path)
    for _ in range(30):
        one.check()
        time.sleep(0.05)
    wait_for(lambda: "did not serve" in one.problem)
    assert 1 <= one.started <= 3
    assert len([r for r in caplog.records if r.name == "crema"]) <= one.started


def test_a_missing_program_is_said_once(spool, tmp_path, monkeypatch):
    def missing(name):
        raise FileNotFoundError(f"{name} is nowhere")

    monkeypatch.setattr(_agent, "program", missing)
    one = keeper(spool, tmp_path)
    one.check()
    wait_for(lambda: bool(one.problem)) and "nowhere" in one.problem


def test_key_names_cannot_leave_the_directory(spool):
    with pytest.raises(ValueError, match="file name"):
        _agent.write_keys(spool / "keys", {"../evil": "x"})
