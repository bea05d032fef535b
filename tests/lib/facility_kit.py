"""A facility as tests play it: sink and aggregator with keys, users' collectors, agents, and whoever stole a key."""

from __future__ import annotations

import dataclasses
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
import zmq
import zmq.auth
import zmq.utils.z85

from children import Child
from crema.collect import _client
from crema.hook._records import MESSAGES
from crema.hook._spool import StreamWriter
from paths import BIN

HELLO, DATA, WELCOME, FENCE, OPEN, PUT, RUN_SEAL = 1, 2, 16, 20, 32, 33, 34
PRINCIPAL = 3
OTHER_KEY = 6


class Facility:
    """Sink and aggregator with keys, and the keys of two users."""

    def __init__(self, directory: pathlib.Path, *sink_options: str):
        self.directory, self.keys = directory, directory / "keys"
        self.run("crema-aggregator", "--make-keys", self.keys)
        for name in ("alice", "bob"):
            self.run("crema-aggregator", "--add-key", name, "--keys", self.keys)
        self.processes: dict[str, subprocess.Popen] = {}
        self.sink = self.start(
            "crema-sink", "--bind", "tcp://127.0.0.1:*", "--store", directory / "store",
            "--output", directory, *sink_options,
        )  # fmt: skip
        self.aggregator = self.start(
            "crema-aggregator", "--bind", "tcp://127.0.0.1:*", "--sink", self.sink
        )

    @staticmethod
    def run(program: str, *arguments) -> None:
        subprocess.run([BIN / program, *map(str, arguments)], check=True, capture_output=True)

    def start(self, program: str, *arguments) -> str:
        with open(self.directory / f"{program}.log", "a") as log:
            process = Child(
                [BIN / program, *map(str, arguments), "--keys", self.keys],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self.processes[program] = process
        return json.loads(process.stdout.readline())["endpoint"]

    def client(self, name: str) -> _client.AggregatorClient:
        return _client.AggregatorClient(self.aggregator, self.keys / f"client-{name}")

    def revoke(self, name: str) -> None:
        self.run("crema-aggregator", "--revoke-key", name, "--keys", self.keys)

    def log(self, program: str) -> str:
        return (self.directory / f"{program}.log").read_text()

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            process.stdout.close()


@dataclasses.dataclass(frozen=True)
class AgentKeys:
    """A pair for the agents of one run: the public key as RUN_OPEN brings it, and the files of its directory."""

    public: bytes
    files: dict[str, str]

    @classmethod
    def fresh(cls, server: str) -> AgentKeys:
        public, secret = (key.decode() for key in zmq.curve_keypair())
        texts = {
            "agent.key": f'public-key = "{public}"',
            "agent.key_secret": f'public-key = "{public}"\n    secret-key = "{secret}"',
            "server.key": f'public-key = "{server}"',
        }
        files = {name: f"metadata\ncurve\n    {text}\n" for name, text in texts.items()}
        return cls(zmq.utils.z85.decode(public), files)


class Thief:
    """A DEALER with a pair that it should not have; says what it likes."""

    def __init__(self, endpoint: str, directory: pathlib.Path, role: str):
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.rcvhwm = 1  # what it does not read stays with the server
        own = zmq.auth.load_certificate(directory / f"{role}.key_secret")
        self.socket.curve_publickey, self.socket.curve_secretkey = own
        self.socket.curve_serverkey = zmq.auth.load_certificate(directory / "server.key")[0]
        self.socket.connect(endpoint)

    def say(self, kind: int, message=None, flags: int = 0) -> None:
        body = message.SerializeToString() if message else b""
        self.socket.send(in_session(0, kind, body, flags) if flags else _client.encode(kind, body))

    def fenced(self, timeout_s: float = 5) -> int | None:
        """Reason of the next FENCE."""
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0 and self.socket.poll(left * 1000):
            kind, body = _client.decode(self.socket.recv())
            if kind == FENCE:
                return MESSAGES["Fence"].FromString(body).reason
        return None

    def close(self) -> None:
        self.socket.close()


def state_of(client, kind: int, until=lambda state: True, timeout_s: float = 15, **fields):
    end = time.monotonic() + timeout_s
    state = None
    while time.monotonic() < end:
        if not client.send(kind, **fields):
            time.sleep(0.05)
            continue
        for state in client.states(fields["run_id"], 0.5):
            if until(state):
                return state
    raise AssertionError(f"no such state: {state}")


def opened(facility: Facility, name: str, **fields):
    client, run_id = facility.client(name), uuid.uuid4().bytes
    state_of(
        client, _client.RUN_OPEN, lambda state: state.phase == _client.OPEN,
        run_id=run_id, t_start_ns=1, **fields,
    )  # fmt: skip
    return client, run_id


@pytest.fixture
def users(facility):
    """Opens runs of users; for a module with a fixture `facility`."""
    clients = []

    def start(name: str, **fields):
        client, run_id = opened(facility, name, **fields)
        clients.append(client)
        return client, run_id

    yield start
    for client in clients:
        client.close()


def in_session(session: int, kind: int, body: bytes, flags: int = 0) -> bytes:
    message = bytearray(_client.encode(kind, body))
    message[6:8] = struct.pack("<H", flags)
    message[16:24] = struct.pack("<Q", session)
    message[12:16] = b""
    crc = zlib.crc32(bytes(message))
    return bytes(message[:12]) + struct.pack("<I", crc) + bytes(message[12:])


def admitted(thief: Thief, row, agent_id: bytes, timeout_s: float = 15) -> int:
    """Say HELLO with one stream until that is WELCOME; the session's number."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        hello = MESSAGES["Hello"](agent_id=agent_id, boot=1, ver_min=2, ver_max=2, host="h")
        hello.table.CopyFrom(row)
        thief.say(HELLO, hello)
        while thief.socket.poll(500):
            answer = thief.socket.recv()
            if answer[5] == WELCOME and (session := int.from_bytes(answer[16:24], "little")):
                return session
    raise AssertionError("not admitted")


class Recorder:
    """A process of this user that records for a run, in a spool that an operator's agent serves."""

    def __init__(self, spool: pathlib.Path, run_id: bytes, stream_id: bytes | None = None):
        info = MESSAGES["StreamInfo"](
            run_id=run_id, kind=3, host="node", pid=os.getpid(), worker_uuid="u",
            worker_name="tcp://node:1", t_real_ns=time.time_ns(), t_mono_ns=time.monotonic_ns(),
        )  # fmt: skip
        self.writer = StreamWriter(
            spool, info.SerializeToString(), stream_id=stream_id or os.urandom(16)
        )
