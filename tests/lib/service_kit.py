"""The programs as tests run them: started, asked, stopped; a spool, a collector and the whole chain."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import time
import uuid
import zlib

import pytest

from children import Child
from paths import BIN
from ports import free_port
from waiting import wait_for

PROGRAMS = ("crema-agent", "crema-aggregator", "crema-sink")
ANY = "tcp://127.0.0.1:*"


def run(program: str, *arguments, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [BIN / program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **environment},
    )


class Service:
    """A program that said it is ready."""

    def __init__(self, program: str, *arguments, ready: bool = True):
        self.program, self.arguments = program, [str(argument) for argument in arguments]
        self.process = Child(
            [BIN / program, *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = json.loads(self.process.stdout.readline()) if ready else {}
        self.endpoint = self.said.get("endpoint")

    def port(self) -> int:
        return int(self.endpoint.rsplit(":", 1)[1])

    def stop(self) -> tuple[int, str]:
        """Ask it to end; its exit status and its log."""
        self.process.send_signal(signal.SIGTERM)
        _, log = self.process.communicate(timeout=20)
        return self.process.returncode, log

    def kill(self):
        self.process.kill()
        self.process.communicate()


def services():
    made = []

    def start(program: str, *arguments, **options) -> Service:
        made.append(Service(program, *arguments, **options))
        return made[-1]

    yield start
    for service in made:
        if service.process.poll() is None:
            service.kill()


def sink(services, tmp_path):
    return services(
        "crema-sink", "--bind", ANY, "--store", tmp_path / "store", "--output", tmp_path / "out"
    )


def must_refuse(result: subprocess.CompletedProcess, status: int, *words: str):
    """It ended with that status, and said on stderr what is wrong."""
    assert result.returncode == status, result
    assert result.stdout == "", result.stdout
    for word in words:
        assert word in result.stderr, result.stderr


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value) if value else b""
    return varint(number << 3 | 2) + varint(len(value)) + value


def sint(number: int, value: int) -> bytes:
    return field(number, (value << 1) ^ (value >> 63))


RECORD_STREAM, RECORD_DICT, RECORD_BATCH, RECORD_END = 1, 2, 3, 4
RUN_OPEN, RUN_END, RUN_QUERY, RUN_STATE, RUN_WRITERS = 64, 65, 66, 67, 68
SEALED, FAILED = 4, 5


def run_file(state: dict[int, list]) -> pathlib.Path:
    """The file that the state of a sealed run names; beside it may still be the live one."""
    return pathlib.Path(state[8][0].decode())


def record(seq: int, kind: int, body: bytes) -> bytes:
    head = struct.pack("<IIQqHH", 0x314D5243, len(body), seq, time.monotonic_ns(), kind, 0)
    return head + struct.pack("<I", zlib.crc32(head + body)) + body


def write_stream(spool: pathlib.Path, run_id: bytes, records: int) -> str:
    """A finished stream of a worker: its first record, names, and its last. Returns its id."""
    stream_id = uuid.uuid4().hex
    info = (
        field(1, run_id) + field(3, b"host") + field(4, 7) + field(5, b"w") + field(6, b"tcp://w")
    )
    info += field(7, 1) + sint(9, time.time_ns()) + sint(10, time.monotonic_ns())
    frames = [record(1, RECORD_STREAM, info)]
    for seq in range(2, records):
        entry = field(1, 2) + field(2, seq - 2) + field(3, b"name-%d" % (seq % 100))
        frames.append(record(seq, RECORD_DICT, field(1, entry)))
    frames.append(record(records, RECORD_END, b""))
    part = spool / f".{stream_id}.part"
    part.write_bytes(b"".join(frames))
    part.rename(spool / f"sp-{stream_id}-{1:016x}")
    return stream_id


def fields_of(body: bytes) -> dict[int, list]:
    """Varints and byte strings of a flat protobuf message; other kinds are passed over."""
    found, at = {}, 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = body[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while at < len(body):
        key = number()
        if key & 7 == 0:
            value = number()
        elif key & 7 == 1:
            value, at = body[at : at + 8], at + 8
        else:
            size = number()
            value, at = body[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


class Collector:
    """As much of a collector as it takes to end a run."""

    def __init__(self, endpoint: str, run_id: bytes, keys: pathlib.Path | None = None):
        zmq = pytest.importorskip("zmq")
        self.run_id, self.not_taken = run_id, zmq.Again
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.sndtimeo = 200
        self.socket.reconnect_ivl = 50
        self.connection = self.socket.get_monitor_socket()
        if keys:
            auth = pytest.importorskip("zmq.auth")
            own = auth.load_certificate(keys / "client/client.key_secret")
            self.socket.curve_publickey, self.socket.curve_secretkey = own
            self.socket.curve_serverkey = auth.load_certificate(keys / "client/server.key")[0]
        self.socket.connect(endpoint)

    def say(self, kind: int, body: bytes = b""):
        with contextlib.suppress(self.not_taken):  # nobody is there, or whoever is does not want it
            if kind == RUN_END:  # with a list of writers of one part that names nobody
                listed = field(1, self.run_id) + field(3, 1)
                self.socket.send(envelope(RUN_WRITERS, listed))
                body += field(8, 1)
            self.socket.send(envelope(kind, field(1, self.run_id) + body))

    def ask(self, kind: int, body: bytes, until, timeout_s: float) -> dict[int, list]:
        """Repeat a message until an answer satisfies `until`."""
        end = time.monotonic() + timeout_s
        state = {}
        while time.monotonic() < end:
            self.say(kind, body)
            while self.socket.poll(200):
                answer = self.socket.recv()
                if answer[5] != RUN_STATE:
                    continue
                state = fields_of(answer[24:])
                if until(state):
                    return state
        raise AssertionError(
            f"no such state within {timeout_s} s, the last was {state}; connection: {self._last_events()}"
        )

    def _last_events(self, at_most: int = 6) -> list[str]:
        """What became of the connection, by the names of libzmq."""
        from zmq.utils.monitor import recv_monitor_message

        events = collections.deque(maxlen=at_most)
        while self.connection.poll(0):
            event = recv_monitor_message(self.connection)
            events.append(f"{event['event'].name} {event['value']}")
        return list(events)

    def open(self):
        self.ask(RUN_OPEN, sint(2, time.time_ns()), lambda state: state.get(2, [0])[0] >= 1, 20)

    def end(self, timeout_s: float = 60) -> dict[int, list]:
        """State of the sealed run."""
        body = sint(2, time.time_ns())
        return self.ask(
            RUN_END, body, lambda state: state.get(2, [0])[0] in (SEALED, FAILED), timeout_s
        )

    def close(self):
        self.socket.disable_monitor()
        self.socket.close()


class Chain:
    """Sink, aggregator and agent on fixed endpoints, so that each can be killed and started again."""

    def __init__(
        self, services, work: pathlib.Path, keys: pathlib.Path | None = None, sink_options=()
    ):
        self.start_service, self.work = services, work
        self.common = ("--keys", keys) if keys else ()
        self.sink_options = sink_options
        (work / "spool").mkdir(mode=0o700)
        ports = [free_port() for _ in range(2)]
        self.sink_at, self.aggregator_at = (f"tcp://127.0.0.1:{port}" for port in ports)
        self.running = {program: self.start(program) for program in PROGRAMS}

    def start(self, program: str) -> Service:
        options = {
            "crema-sink": (
                *("--bind", self.sink_at, "--store", self.work / "store"),
                *("--output", self.work / "out", *self.sink_options),
            ),
            "crema-aggregator": ("--bind", self.aggregator_at, "--sink", self.sink_at),
            "crema-agent": (
                *("--spool", self.work / "spool", "--aggregator", self.aggregator_at),
                *("--heartbeat-interval", "500ms"),
            ),
        }
        ready = program != "crema-agent"
        return self.start_service(program, *options[program], *self.common, ready=ready)

    def kill(self, program: str):
        self.running[program].kill()
        self.running[program] = self.start(program)

    def stop(self):
        for program in PROGRAMS:
            status, log = self.running[program].stop()
            assert status == 0, log

    def held(self) -> list[str]:
        return [path.name for path in (self.work / "spool").glob("sp-*")]


def chain(services, tmp_path):
    return Chain(services, tmp_path)


def wait_until_shipped(chain: Chain, streams: list[str], timeout_s: float = 30):
    def are_shipped() -> bool:
        return not any(name.split("-")[1] in streams for name in chain.held())

    wait_for(are_shipped, timeout_s, "the delivery of all streams")


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"


def frame(body: bytes, more: bool = False) -> bytes:
    head = bytes([2 | more]) + struct.pack(">Q", len(body))
    return head + body


def envelope(kind: int, body: bytes = b"", *, version: int = 2, crc: int | None = None) -> bytes:
    """A message of crema_wire.h."""
    first = struct.pack("<IBBHI", 0x616D7263, version, kind, 0, len(body))
    second = bytes(24 if version == 1 else 8)
    if crc is None:
        crc = zlib.crc32(first + second + body)
    return first + struct.pack("<I", crc) + second + body
