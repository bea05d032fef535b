"""The three programs as an operator meets them: command lines, mistakes, hostile bytes, another version."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest

import missing
import service_kit
from children import Child
from service_kit import (
    ANY,
    BIN,
    GREETING,
    PROGRAMS,
    READY,
    Service,
    envelope,
    frame,
    must_refuse,
    run,
)

pytestmark = pytest.mark.timeout(120)
services = pytest.fixture(service_kit.services)
sink = pytest.fixture(service_kit.sink)


# ---------------------------------------------------------------- command lines


def values(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if " = " in line]
    return {
        name: value.split("  #")[0].strip() for name, value in (s.split(" = ", 1) for s in lines)
    }


def test_check_prints_a_configuration_that_can_be_used(tmp_path):
    """Every value with where it came from; as a file it means the same."""
    config = tmp_path / "sink.conf"
    config.write_text(f'store = "{tmp_path}/store"\nretain = 2h # of service\nrun-limit = 5Gi\n')
    said = run(
        "crema-sink", "--config", config, "--check", "--run-limit", "6Gi", CREMA_LIVE="false"
    )
    assert said.returncode == 0, said.stderr
    lines = {line.split(" = ")[0]: line for line in said.stdout.splitlines()}
    assert lines["retain"].split() == ["retain", "=", '"2h"', "#", "file", str(config)]
    assert lines["run-limit"].endswith("# command line") and '"6Gi"' in lines["run-limit"]
    assert lines["live"].endswith("# environment")
    assert lines["commit-interval"].endswith("# built in")
    assert said.stdout.splitlines()[-1] == "configuration is sound"
    again = tmp_path / "again.conf"
    again.write_text(said.stdout.replace("configuration is sound", ""))
    same = run("crema-sink", "--config", again, "--check")
    assert same.returncode == 0, same.stderr
    assert values(same.stdout) == values(said.stdout)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_explains_itself(program):
    helped = run(program, "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith(f"usage: {program}")
    assert "--config FILE" in helped.stdout
    assert max(map(len, helped.stdout.splitlines())) <= 80
    version = run(program, "--version")
    assert version.returncode == 0
    assert program in version.stdout


@pytest.mark.parametrize("command", ["rebuild", "check", "columns"])
def test_every_command_of_the_sink_explains_itself(command):
    helped = run("crema-sink", command, "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith(f"usage: crema-sink {command}")
    assert max(map(len, helped.stdout.splitlines())) <= 80


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_unknown_option_is_named(program):
    must_refuse(run(program, "--colour", "red"), 2, "--colour", "--help")


@pytest.mark.parametrize("program", ["crema-aggregator", "crema-sink"])
def test_an_unexpected_argument_is_named(program, tmp_path):
    must_refuse(run(program, "surprise"), 2, "surprise")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_bad_key_in_a_configuration_file_is_named(program, tmp_path):
    config = tmp_path / "crema.conf"
    config.write_text("colour = red\n")
    must_refuse(run(program, "--config", config), 2, "colour", str(config))


def test_a_program_ends_with_the_process_that_started_it(tmp_path):
    """A killed parent signals nobody, and one that is gone before the program can know it neither."""
    sink = [BIN / "crema-sink", "--bind", "tcp://127.0.0.1:*", "--store", tmp_path / "store"]
    script = "import os, subprocess, sys, time; p = subprocess.Popen([*sys.argv[1:], '--end-with', str(os.getpid())]); time.sleep(60)"
    with Child(
        [sys.executable, "-c", script, *sink], stdout=subprocess.PIPE, start_new_session=True
    ) as parent:
        assert b"ready" in parent.stdout.readline()
        parent.kill()
        assert parent.stdout.read() == b""  # the sink, which has the other end, has ended too
    gone = subprocess.run([*sink, "--end-with", str(parent.pid)], capture_output=True, timeout=20)
    assert gone.returncode == -signal.SIGTERM
    assert gone.stdout == b""


def test_a_program_outlives_the_thread_that_started_it(tmp_path):
    """Whoever enters a collector in a thread of its own has a pipeline until the process ends.

    No `Child`: what kills that one with its parent is the end of the thread that started it.
    """
    sink = [BIN / "crema-sink", "--bind", "tcp://127.0.0.1:*", "--store", tmp_path / "store"]
    command = [*sink, "--end-with", str(os.getpid())]
    started = []
    thread = threading.Thread(
        target=lambda: started.append(subprocess.Popen(command, stdout=subprocess.PIPE))
    )
    thread.start()
    thread.join()
    (program,) = started
    try:
        assert b"ready" in program.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.5)
        program.terminate()
        assert program.wait(20) == 0
    finally:
        program.kill()
        program.communicate()


def test_a_configuration_is_checked_without_running(tmp_path):
    sound = run("crema-sink", "--check", "--store", tmp_path / "store")
    assert sound.returncode == 0
    assert not (tmp_path / "store").exists()
    must_refuse(run("crema-sink", "--check"), 2, "--store")
    must_refuse(run("crema-sink", "--check", "--store", "x", "--bind", "nowhere"), 2, "--bind")
    assert run("crema-aggregator", "--check").returncode == 0
    must_refuse(run("crema-aggregator", "--check", "--sink", "nowhere"), 2, "--sink")
    must_refuse(run("crema-aggregator", "--check", CREMA_TAP="nowhere"), 2, "--tap")


def test_columns_are_printed():
    plain, markdown = run("crema-sink", "columns"), run("crema-sink", "columns", "--markdown")
    rows = [line.split("\t") for line in plain.stdout.splitlines()]
    assert all(len(row) == 5 for row in rows)
    assert ["/chunks", "n_events"] in [row[:2] for row in rows]
    assert "## `/chunks`" in markdown.stdout
    listed = [line for line in markdown.stdout.splitlines() if line.count(" | ") == 3]
    assert len([line for line in listed if not line.startswith("column | type ")]) == len(rows)


# ---------------------------------------------------------------- mistakes of an operator


def test_a_taken_port_is_named_with_what_to_do(sink, tmp_path):
    other = ("--store", tmp_path / "other", "--output", tmp_path / "out")
    must_refuse(run("crema-sink", "--bind", sink.endpoint, *other), 1, sink.endpoint, "--bind")
    must_refuse(run("crema-aggregator", "--bind", sink.endpoint), 1, sink.endpoint, "--bind")
    taken = run("crema-aggregator", "--bind", ANY, "--tap", sink.endpoint)
    must_refuse(taken, 1, sink.endpoint, "--tap")


def test_an_endpoint_that_is_none_is_named(tmp_path):
    must_refuse(
        run("crema-sink", "--bind", "tcp://127.0.0.1", "--store", tmp_path / "s"), 2, "127.0.0.1"
    )
    must_refuse(run("crema-aggregator", "--bind", ANY, "--sink", "tcp://"), 2, "--sink")


@pytest.mark.skipif(os.geteuid() == 0, reason=missing.ORDINARY_USER)
def test_an_unwritable_store_is_named(tmp_path):
    tmp_path.chmod(0o500)
    must_refuse(run("crema-sink", "--store", tmp_path / "store"), 1, str(tmp_path / "store"))


def test_a_store_or_output_that_cannot_be_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    below = file / "store"
    must_refuse(run("crema-sink", "--bind", ANY, "--store", below), 1, str(below))
    must_refuse(run("crema-sink", "--bind", ANY, "--store", file), 1, str(file))
    bad_output = run(
        "crema-sink", "--bind", ANY, "--store", tmp_path / "s", "--output", file / "out"
    )
    must_refuse(bad_output, 2, str(file / "out"))


def test_a_directory_that_is_no_store_is_left_alone(tmp_path):
    (tmp_path / "store").write_text("a letter")
    must_refuse(run("crema-sink", "--bind", ANY, "--store", tmp_path), 1, str(tmp_path))
    assert (tmp_path / "store").read_text() == "a letter"


@pytest.mark.parametrize("endpoint", ["tcp://*:0", "tcp://0.0.0.0:*", "tcp://192.0.2.1:5701"])
def test_services_without_keys_serve_this_host_only(endpoint, tmp_path):
    must_refuse(run("crema-sink", "--bind", endpoint, "--store", tmp_path / "s"), 2, "--keys")
    must_refuse(run("crema-aggregator", "--bind", endpoint), 2, "--keys")
    must_refuse(run("crema-aggregator", "--bind", ANY, "--tap", endpoint), 2, "--keys")


def test_services_without_keys_let_no_other_user_in(tmp_path):
    store = ("--store", tmp_path / "store")
    own = f"ipc://{tmp_path}/socket"
    for insecure, endpoint, starts in (("0", ANY, False), ("1", ANY, True), ("0", own, True)):
        bind = ("--check", "--bind", endpoint)
        for program, *more in (("crema-sink", *store), ("crema-aggregator",)):
            checked = run(program, *bind, *more, CREMA_INSECURE=insecure)
            if starts:
                assert checked.returncode == 0, checked
            else:
                must_refuse(checked, 2, "every user of this host", "--keys", "--insecure")


def test_keys_are_made_once_and_used(services, tmp_path):
    keys = tmp_path / "keys"
    assert run("crema-aggregator", "--make-keys", keys).returncode == 0
    assert keys.stat().st_mode & 0o777 == 0o700
    again = run("crema-aggregator", "--make-keys", keys)
    assert again.returncode == 1
    assert "already" in again.stderr
    sink = services(
        "crema-sink", "--bind", "tcp://0.0.0.0:*", "--keys", keys, "--store", tmp_path / "s"
    )
    assert sink.stop()[0] == 0
    missing = run(
        "crema-sink", "--bind", ANY, "--keys", tmp_path / "none", "--store", tmp_path / "s"
    )
    must_refuse(missing, 2, str(tmp_path / "none"))


def test_rebuild_and_check_name_what_they_cannot_read(tmp_path):
    must_refuse(run("crema-sink", "rebuild"), 2, "journal")
    must_refuse(run("crema-sink", "rebuild", tmp_path), 1, str(tmp_path), "journal")
    must_refuse(run("crema-sink", "rebuild", tmp_path / "none"), 1, str(tmp_path / "none"))
    must_refuse(run("crema-sink", "check"), 2, "file")
    letter = tmp_path / "letter.h5"
    letter.write_text("dear aunt")
    for path, words in ((letter, "not a run file"), (tmp_path / "none.h5", "none.h5")):
        checked = run("crema-sink", "check", path)
        assert checked.returncode == 1
        assert str(path) in checked.stderr
        assert words in checked.stderr


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_services_end_when_asked(services, tmp_path, signal_number):
    for program, *arguments in (
        ("crema-sink", "--bind", ANY, "--store", tmp_path / "store"),
        ("crema-aggregator", "--bind", ANY, "--tap", ANY),
    ):
        service = services(program, *arguments)
        service.process.send_signal(signal_number)
        assert service.process.wait(10) == 0


# ---------------------------------------------------------------- hostile bytes


@pytest.mark.parametrize("program", ["crema-agent", "crema-aggregator", "crema-sink"])
def test_a_service_manager_hears_of_each_program(program, tmp_path, monkeypatch):
    """systemd's Type=notify and WatchdogSec; children do not speak for the service."""
    (tmp_path / "spool").mkdir(mode=0o700)
    options = {
        "crema-agent": ("--spool", tmp_path / "spool"),
        "crema-aggregator": ("--bind", "tcp://127.0.0.1:*"),
        "crema-sink": (
            *("--bind", "tcp://127.0.0.1:*"),
            *("--store", tmp_path / "store", "--output", tmp_path),
        ),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        process = Child(
            [BIN / program, *options[program]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert manager.recv(256) == b"READY=1"
            assert manager.recv(256).startswith(b"WATCHDOG=1\nSTATUS=")
            process.terminate()
            words = [b""]
            while words[-1] != b"STOPPING=1":
                words.append(manager.recv(256))
        finally:
            process.kill()
            process.wait()


def must_answer(service: Service):
    """Its socket still greets whoever connects."""
    with socket.create_connection(("127.0.0.1", service.port()), timeout=5) as peer:
        peer.settimeout(5)
        peer.sendall(GREETING)
        assert peer.recv(10)[0] == 0xFF


def hostile_payloads(noise: bytes) -> dict[str, bytes]:
    return {
        "nothing": b"",
        "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "noise": noise,
        "greeting then noise": GREETING + noise,
        "handshake then noise": GREETING + READY + noise,
        "empty message": GREETING + READY + frame(b""),
        "short message": GREETING + READY + frame(b"crma"),
        "noise in a message": GREETING + READY + frame(noise),
        "too many parts": GREETING + READY + frame(b"", True) * 50 + frame(noise),
        "wrong checksum": GREETING + READY + frame(envelope(1, b"x", crc=1)),
        "future version": GREETING + READY + frame(envelope(1, version=99)),
        "body that is no protobuf": GREETING + READY + b"".join(
            frame(envelope(kind, noise[:kind * 7])) for kind in range(256)
        ),
        "every type empty": GREETING + READY + b"".join(frame(envelope(kind)) for kind in range(256)),
        "larger than allowed": GREETING + READY + b"\x02" + struct.pack(">Q", 1 << 40) + noise,
    }  # fmt: skip


@pytest.mark.parametrize("kind", hostile_payloads(b""))
def test_hostile_bytes_harm_nothing(services, sink, kind, seed):
    payload = hostile_payloads(random.Random(seed).randbytes(4096))[kind]
    aggregator = services("crema-aggregator", "--bind", ANY, "--sink", sink.endpoint, "--tap", ANY)
    for service in (sink, aggregator):
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", service.port()), timeout=5) as peer:
                try:
                    peer.sendall(payload)
                    peer.settimeout(0.1)
                    peer.recv(1 << 16)
                except OSError:
                    pass  # it may hang up
        must_answer(service)
        assert service.process.poll() is None
    for service in (aggregator, sink):
        status, log = service.stop()
        assert status == 0, log
        assert "event=stopped" in log


# ---------------------------------------------------------------- another version


@pytest.mark.parametrize("other", [1, 99])
def test_another_protocol_version_is_refused_politely(services, sink, other):
    """A HELLO of an earlier version, or of one to come, from a real socket: FENCE, and an agent of ours is served as before."""
    zmq = pytest.importorskip("zmq")
    from crema.collect import _client
    from crema.hook import _columns

    aggregator = services("crema-aggregator", "--bind", ANY, "--sink", sink.endpoint)
    version, hello = _columns.WIRE_VERSION, _columns.MESSAGES["HELLO"]
    context = zmq.Context()
    peer = context.socket(zmq.DEALER)
    peer.setsockopt(zmq.LINGER, 0)
    try:
        peer.connect(aggregator.endpoint)
        _columns.WIRE_VERSION = other
        message = _client.encode(hello, b"")
        _columns.WIRE_VERSION = version
        peer.send(message)
        assert peer.poll(5000), "no answer to a HELLO of another version"
        answer = peer.recv()
        kind, body = _client.decode(answer)
        assert kind == _columns.MESSAGES["FENCE"]
        fence = _client.MESSAGES["Fence"].FromString(body)
        assert fence.reason == 5  # CREMA_FENCE_VERSION
    finally:
        _columns.WIRE_VERSION = version
        peer.close()
        context.term()
    status, log = aggregator.stop()
    assert status == 0
    assert "fence" in log or "version" in log, log
