"""crema-agent as a program: its command line, what it wraps, and what it does while no aggregator answers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import signal
import socket
import sys
import time

import pytest

import agent_kit
from agent_kit import (
    BATCH,
    END,
    NOBODY,
    STREAM,
    frames,
    run,
    streams,
)
from children import Child
from waiting import wait_for

agents, spool, write = agent_kit.agents, agent_kit.spool, agent_kit.write  # fixtures

# ---------------------------------------------------------------- command line


def test_help_and_version():
    result = run("--help")
    assert result.returncode == 0
    for option in (
        "--spool",
        "--aggregator",
        "--drain-timeout",
        "--daemon",
        "CREMA_AGENT_SPOOL_LIMIT",
    ):
        assert option in result.stdout
    result = run("--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("crema-agent ")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--bogus"], "--bogus"),
        (["--heartbeat-interval", "1ms"], "heartbeat-interval"),
        (["--spool-limit", "many"], "spool-limit"),
        (["--aggregator", "localhost:5700"], "--aggregator"),
        (["--run", "xyz"], "--run"),
        (["--pid", "1", "--", "true"], "--pid"),
        (["--daemon", "--", "true"], "--daemon"),
        (["--spool", "/proc/no/such/place"], "/proc/no/such/place"),
        (["--keys", "/no/such/keys"], "/no/such/keys"),
    ],
)
def test_a_bad_command_line_is_named(arguments, why):
    result = run(*arguments)
    assert result.returncode == 2
    assert why in result.stderr


def test_a_secret_key_that_others_may_read_is_refused(tmp_path):
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    for name in ("agent.key", "agent.key_secret", "server.key"):
        (keys / name).write_text('curve\n    public-key = "x"\n    secret-key = "x"\n')
        (keys / name).chmod(0o644)
    result = run("--check", "--keys", keys)
    assert result.returncode == 2
    assert str(keys) in result.stderr


def test_check_touches_nothing(tmp_path):
    result = run("--check", "--spool", tmp_path / "new")
    assert result.returncode == 0
    assert not (tmp_path / "new").exists()


def test_options_come_from_the_environment(spool):
    result = run("--check", env={**os.environ, "CREMA_AGENT_HEARTBEAT_INTERVAL": "9999h"})
    assert result.returncode == 2
    assert "CREMA_AGENT_HEARTBEAT_INTERVAL" in result.stderr


# ---------------------------------------------------------------- wrapping


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)],
)
def test_the_exit_status_is_the_commands(spool, script, status):
    result = run("--spool", spool, "--aggregator", NOBODY, "--", "sh", "-c", script)
    assert result.returncode == status


def test_a_command_that_cannot_run(spool):
    result = run("--spool", spool, "--", "/no/such/program")
    assert result.returncode == 127
    assert "/no/such/program" in result.stderr
    assert run("--spool", spool, "--", "/tmp").returncode == 126


def test_the_command_knows_the_spool(spool):
    result = run("--spool", f"{spool}/../spool", "--", "sh", "-c", "echo $CREMA_SPOOL")
    assert result.stdout.strip() == str(spool.resolve())


COUNTS_SIGNALS = """
import signal, sys, time
seen = []
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda n, _: seen.append(n))
def leave(*_):
    print(*seen, flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


def test_each_signal_reaches_the_command_once(spool, agents):
    agent = agents(
        "--spool", spool, "--", sys.executable, "-c", COUNTS_SIGNALS, start_new_session=True
    )
    assert agent.process.stdout.readline() == "ready\n"
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        agent.process.send_signal(number)
        time.sleep(0.1)  # of several that are pending the kernel picks the lowest first
    assert agent.must_end(signal.SIGTERM) == 5
    assert agent.process.stdout.readline().split() == ["10", "2", "1", "12"]


def test_a_signal_to_the_whole_group_reaches_the_command_once(spool, agents):
    agent = agents(
        "--spool", spool, "--", sys.executable, "-c", COUNTS_SIGNALS, start_new_session=True
    )
    assert agent.process.stdout.readline() == "ready\n"
    os.killpg(agent.process.pid, signal.SIGINT)
    time.sleep(0.2)
    assert agent.must_end(signal.SIGTERM) == 5
    assert agent.process.stdout.readline() == "2\n"


def test_the_command_outlives_a_killed_agent(spool, agents, tmp_path):
    script = f"echo $$; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; touch {tmp_path}/done"
    agent = agents("--spool", spool, "--", "sh", "-c", script)
    agent.process.stdout.readline()
    agent.must_end(signal.SIGKILL)
    (tmp_path / "go").touch()
    wait_for((tmp_path / "done").exists, what="the command died with its agent")


# ---------------------------------------------------------------- without an aggregator


def test_an_agent_without_an_aggregator_samples_and_spools_and_keeps_trying(spool, agents, write):
    writer = write(n=5)
    agent = agents(
        "--spool",
        spool,
        "--aggregator",
        NOBODY,
        "--sample-interval",
        "100ms",
        "--drain-timeout",
        "1s",
    )
    line = agent.must_log("aggregator_unreachable")
    assert "records_held=" in line
    own = wait_for(lambda: streams(spool) - {writer.id}, what="no stream of the agent's own")
    path = spool / f"sp-{own.pop()}-{1:016x}"
    wait_for(lambda: len([f for f in frames(path) if f[1] == BATCH]) >= 5, what="no samples")
    time.sleep(2)
    assert agent.log.read_text().count("aggregator_unreachable") == 1
    assert agent.process.poll() is None
    assert [seq for seq, _, _ in frames(writer.path)] == [1, 2, 3, 4, 5, 6]

    assert agent.must_end(signal.SIGTERM) == 1
    held = frames(path)
    assert held[-1][1] == END
    line = agent.must_log("records_stay")
    assert f"count={6 + len(held)} " in line
    assert str(spool) in line


def test_a_wrapping_agent_leaves_with_the_commands_status_though_records_stay(spool, agents, write):
    write(n=3).close()
    agent = agents(
        "--spool", spool, "--aggregator", NOBODY, "--drain-timeout", "200ms", "--", "true"
    )
    assert agent.must_end() == 0
    assert "count=5 " in agent.must_log("records_stay")


def test_an_agent_with_nothing_to_deliver_does_not_wait(spool, agents):
    agent = agents("--spool", spool, "--aggregator", NOBODY)
    agent.must_log("serving")
    began = time.monotonic()
    assert agent.must_end(signal.SIGTERM) == 0
    assert time.monotonic() - began < 15  # not the drain timeout, on a busy machine either


def test_an_agent_that_is_asked_twice_goes_at_once(spool, agents, write):
    write(n=3)
    agent = agents("--spool", spool, "--aggregator", NOBODY, "--drain-timeout", "10m")
    agent.must_log("serving")
    agent.process.send_signal(signal.SIGTERM)
    agent.must_log("leaving")
    assert agent.must_end(signal.SIGTERM) == 1


def test_streams_of_dead_writers_are_closed_once(spool, agents, write):
    dead, alive = write(n=2), write(n=2)
    os.write(dead.fd, b"half a rec")
    dead.close()
    for _ in range(3):
        agent = agents("--spool", spool, "--aggregator", NOBODY)
        wait_for(lambda: frames(dead.path)[-1][1] == END, what="not closed")
        agent.must_end(signal.SIGKILL)
    assert [f[:2] for f in frames(dead.path)] == [(1, STREAM), (2, BATCH), (3, BATCH), (4, END)]
    assert frames(dead.path)[-1][2] == b"\x08\x01\x10\x0a"  # writer gone, 10 torn bytes
    assert frames(alive.path)[-1][1] == BATCH


def test_foreign_files_stop_nothing(spool, agents, write):
    (spool / "core").write_bytes(b"\0" * 10000)
    (spool / f"sp-{'0' * 32}-{1:016x}").write_bytes(b"CRM1" + b"\xff" * 500)
    (spool / f"sp-{'1' * 32}-{1:016x}").write_bytes(b"")
    (spool / f"sp-{'2' * 32}-{1:016x}").mkdir()
    (spool / f"sp-{'3' * 32}-{1:016x}").symlink_to("/etc/passwd")
    agent = agents("--spool", spool, "--aggregator", NOBODY, "--sample-interval", "100ms")
    assert "count=5" in agent.must_log("foreign_files")
    writer = write(n=1)
    wait_for(lambda: len(streams(spool) - {writer.id}) == 5, what="the new worker was not sampled")
    assert (spool / "core").stat().st_size == 10000
    assert agent.process.poll() is None


def test_a_spool_above_its_limit_gives_up_closed_streams_first(spool, agents, write):
    streams = old, *alive = write(), write(), write()  # each below the size of a segment
    for stream in streams:
        for _ in range(120):
            stream.append(BATCH, b"x" * 60000)
    old.close()
    agent = agents("--spool", spool, "--aggregator", NOBODY, "--spool-limit", "16Mi")
    assert "records_evicted=120" in agent.must_log("spool_full")
    assert [f[:2] for f in frames(old.path)] == [(1, STREAM), (122, END)]
    assert [len(frames(stream.path)) for stream in alive] == [121, 121]


# ---------------------------------------------------------------- one agent per spool


def test_a_second_agent_leaves_in_peace(spool, agents):
    first = agents("--spool", spool, "--aggregator", NOBODY)
    first.must_log("serving")
    assert (spool / "agent.lock").read_text().strip() == str(first.process.pid)
    second = agents("--spool", spool, "--aggregator", NOBODY)
    assert second.must_end() == 0
    second.must_log("served_already")
    assert first.process.poll() is None


def test_a_wrapping_agent_stands_by_and_takes_over(spool, agents, write):
    write(n=1)
    first = agents("--spool", spool, "--aggregator", NOBODY)
    first.must_log("serving")
    second = agents(
        "--spool", spool, "--aggregator", NOBODY, "--drain-timeout", "0", "--", "sleep", "60"
    )
    second.must_log("standing_by")
    first.must_end(signal.SIGKILL)
    second.must_log("serving")
    assert second.must_end(signal.SIGTERM) == 128 + signal.SIGTERM


def test_standing_by_it_still_ends_with_its_command(spool, agents):
    first = agents("--spool", spool, "--aggregator", NOBODY)
    first.must_log("serving")
    assert (
        agents("--spool", spool, "--aggregator", NOBODY, "--", "sh", "-c", "exit 9").must_end() == 9
    )


def test_a_look_at_the_lock_does_not_keep_an_agent_out(spool, agents):
    (spool / "agent.lock").touch()
    with (spool / "agent.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        agent = agents("--spool", spool, "--aggregator", NOBODY)
        time.sleep(0.1)
    agent.must_log("serving")


def test_attached_it_ends_with_the_process(spool, agents):
    with Child(["sleep", "60"]) as process:
        agent = agents("--spool", spool, "--aggregator", NOBODY, "--pid", process.pid)
        agent.must_log("serving")
        process.kill()
        process.wait()
    assert agent.must_end() == 0
    assert run("--spool", spool, "--pid", process.pid).returncode == 1


def test_a_daemon_is_detached_and_logs_to_the_spool(spool):
    result = run("--spool", spool, "--aggregator", NOBODY, "--daemon")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    pid = int((spool / "agent.lock").read_text())
    try:
        assert "event=serving" in (spool / "agent.log").read_text()
        assert os.getsid(pid) != os.getsid(0)
        again = run("--spool", spool, "--aggregator", NOBODY, "--daemon")
        assert again.returncode == 0
        assert "event=served_already" in (spool / "agent.log").read_text()
        os.kill(pid, signal.SIGHUP)
        time.sleep(0.3)
        os.kill(pid, 0)
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_for(
        lambda: not pathlib.Path(f"/proc/{pid}/fd").exists() or not _alive(pid), what="it stays"
    )


def test_a_daemon_finds_what_was_named_from_where_it_was_started(spool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as aggregator:
        (tmp_path / "health").touch()
        aggregator.bind("aggregator")
        aggregator.listen()
        aggregator.settimeout(10)
        run(
            "--spool", spool, "--daemon", "--health-file", "health",
            "--aggregator", "tcp://127.0.0.1:9,ipc://aggregator",
        )  # fmt: skip
        try:
            aggregator.accept()[0].close()
            wait_for(lambda: not (tmp_path / "health").exists(), 30, "its health file")
        finally:
            os.kill(int((spool / "agent.lock").read_text()), signal.SIGTERM)


def _alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    return False


def test_a_daemon_that_cannot_start_says_so(tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "agent.lock").mkdir()
    assert run("--spool", spool, "--daemon").returncode == 1


def test_an_agent_that_is_asked_to_go_does_not_wait_for_a_missing_aggregator(spool, agents, write):
    """SIGUSR1 is for whoever knows that one comes back."""
    writer = write(n=3)
    writer.close()
    options = ("--spool", spool, "--aggregator", NOBODY, "--drain-timeout", "10m")
    agent = agents(*options)
    agent.must_log("serving")
    began = time.monotonic()
    assert agent.must_end(signal.SIGTERM) == 1
    assert time.monotonic() - began < 15  # not the drain timeout, on a busy machine either
    assert str(spool) in agent.must_log("records_stay")
    assert writer.path.exists()
    other = agents(*options)
    other.must_log("serving")
    other.process.send_signal(signal.SIGUSR1)
    other.must_log("leaving")
    time.sleep(3)
    assert other.process.poll() is None
    assert other.must_end(signal.SIGTERM) == 1


def test_an_orphan_leaves_when_its_time_has_come(spool, agents, write):
    writer = write(n=1)
    run_id = frames(writer.path)[0][2][2:18].hex()
    agent = agents(
        "--spool", spool, "--aggregator", NOBODY, "--run", run_id, "--orphan-timeout", "1s"
    )
    agent.must_log("serving")
    time.sleep(2)
    assert agent.process.poll() is None  # its writer lives
    writer.close()
    assert agent.must_end() == 1
    agent.must_log("records_stay")
    assert writer.path.exists()
