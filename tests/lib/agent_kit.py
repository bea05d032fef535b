"""What the tests of the agent share: agents that run, a spool, and a writer by the book."""

from __future__ import annotations

import fcntl
import os
import pathlib
import secrets
import struct
import subprocess
import time
import zlib

import pytest

from children import Child
from paths import program

NOBODY = "tcp://127.0.0.1:9"  # the discard port: nothing listens there
PATIENCE_S = 30
STREAM, BATCH, END = 1, 3, 4


def run(*arguments, **options):
    return subprocess.run(
        [program("crema-agent"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **options,
    )


class Agent:
    """A running agent whose log is read as it comes."""

    def __init__(self, log: pathlib.Path, *arguments, before=(), **options):
        self.log = log
        with log.open("w") as stderr:
            self.process = Child(
                [*before, program("crema-agent"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                **options,
            )

    def must_log(self, event: str, times: int = 1) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while (text := self.log.read_text()).count(f"event={event}") < times:
            assert time.monotonic() < deadline, f"no {event} in:\n{text}"
            time.sleep(0.02)
        return next(line for line in text.splitlines() if f"event={event}" in line)

    def must_end(self, number: int | None = None) -> int:
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def agents(tmp_path):
    """Starts agents; none outlives the test."""
    started = []

    def start(*arguments, **options):
        agent = Agent(tmp_path / f"agent-{len(started)}.log", *arguments, **options)
        started.append(agent)
        return agent

    yield start
    for agent in started:
        if agent.process.poll() is None:
            agent.process.kill()
        agent.process.wait()
        agent.process.stdout.close()


@pytest.fixture
def spool(tmp_path):
    directory = tmp_path / "spool"
    directory.mkdir(mode=0o700)
    return directory


# ---------------------------------------------------------------- a writer, by the book


def frame(seq: int, kind: int, body: bytes) -> bytes:
    head = struct.pack("<IIQqHH", 0x314D5243, len(body), seq, time.monotonic_ns(), kind, 0)
    return head + struct.pack("<I", zlib.crc32(body, zlib.crc32(head))) + body


def frames(path: pathlib.Path) -> list[tuple[int, int, bytes]]:
    """(seq, type, body) of all whole records."""
    data, found = path.read_bytes(), []
    while len(data) >= 32:
        magic, length, seq, _, kind, _, _ = struct.unpack_from("<IIQqHHI", data)
        assert magic == 0x314D5243
        found.append((seq, kind, data[32 : 32 + length]))
        data = data[32 + length :]
    return found


def stream_info(run_id: bytes, pid: int) -> bytes:
    """StreamInfo{run_id, kind worker, host, pid, worker_uuid, worker_name, t_mono_ns}."""

    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    def varint(number: int, value: int) -> bytes:
        out = bytes([number << 3])
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    names = field(5, b"uuid") + field(6, b"name")
    started = varint(10, time.monotonic_ns() << 1)  # sint64
    return field(1, run_id) + field(3, b"h") + varint(4, pid) + names + started


class Writer:
    """One stream of this process, with n empty batches to begin with."""

    def __init__(self, spool: pathlib.Path, n: int = 0):
        self.id, self.seq = secrets.token_hex(16), 0
        self.path = spool / f"sp-{self.id}-{1:016x}"
        self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.append(STREAM, stream_info(secrets.token_bytes(16), os.getpid()))
        for _ in range(n):
            self.append(BATCH, b"\x08\x06")

    def append(self, kind: int, body: bytes) -> None:
        self.seq += 1
        data = frame(self.seq, kind, body)
        assert os.write(self.fd, data) == len(data)

    def close(self) -> None:
        """May be called again: by then its number may be another file's."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


@pytest.fixture
def write(spool):
    writers = []

    def start(n: int = 0) -> Writer:
        writers.append(Writer(spool, n))
        return writers[-1]

    yield start
    for writer in writers:
        writer.close()


def streams(spool: pathlib.Path) -> set[str]:
    return {path.name.split("-")[1] for path in spool.glob("sp-*")}
