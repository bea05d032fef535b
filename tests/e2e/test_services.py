"""The three programs as an operator meets them: command lines, mistakes, hostile bytes, a chain that survives kills."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import time
import uuid
import zlib

import pytest

from kept import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("CREMA_BIN_DIR", ROOT / "build" / "dev" / "bin"))
PROGRAMS = ("crema-agent", "crema-aggregator", "crema-sink")
ANY = "tcp://127.0.0.1:*"

pytestmark = pytest.mark.timeout(120)


# ---------------------------------------------------------------- running programs


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
        self.process = subprocess.Popen(
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


@pytest.fixture
def services():
    made = []

    def start(program: str, *arguments, **options) -> Service:
        made.append(Service(program, *arguments, **options))
        return made[-1]

    yield start
    for service in made:
        if service.process.poll() is None:
            service.kill()


@pytest.fixture
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


# ---------------------------------------------------------------- command lines


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_explains_itself(program):
    helped = run(program, "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith(f"usage: {program}")
    assert "--config FILE" in helped.stdout
    version = run(program, "--version")
    assert version.returncode == 0
    assert program in version.stdout


@pytest.mark.parametrize("command", ["rebuild", "check", "columns"])
def test_every_command_of_the_sink_explains_itself(command):
    helped = run("crema-sink", command, "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith(f"usage: crema-sink {command}")


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
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


def test_a_second_sink_on_a_store_is_refused(sink, tmp_path):
    before = sorted(path.name for path in (tmp_path / "store").iterdir())
    second = run("crema-sink", "--bind", ANY, "--store", tmp_path / "store")
    must_refuse(second, 1, str(tmp_path / "store"), "another crema-sink")
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == before
    assert sink.stop()[0] == 0
    assert run("crema-sink", "--check", "--store", tmp_path / "store").returncode == 0


@pytest.mark.parametrize("endpoint", ["tcp://*:0", "tcp://0.0.0.0:*", "tcp://192.0.2.1:5701"])
def test_without_keys_only_this_host_is_served(endpoint, tmp_path):
    must_refuse(run("crema-sink", "--bind", endpoint, "--store", tmp_path / "s"), 2, "--keys")
    must_refuse(run("crema-aggregator", "--bind", endpoint), 2, "--keys")
    must_refuse(run("crema-aggregator", "--bind", ANY, "--tap", endpoint), 2, "--keys")


def test_without_keys_no_other_user_is_let_in(tmp_path):
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
        process = subprocess.Popen(
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


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"


def frame(body: bytes, more: bool = False) -> bytes:
    head = bytes([2 | more]) + struct.pack(">Q", len(body))
    return head + body


def envelope(kind: int, body: bytes = b"", *, version: int = 2, crc: int | None = None) -> bytes:
    """A message of crema_wire.h."""
    first = struct.pack("<IBBHI", 0x616D7263, version, kind, 0, len(body))
    second = struct.pack("<QIIq", 0, 0, 0, 0)
    if crc is None:
        crc = zlib.crc32(first + second + body)
    return first + struct.pack("<I", crc) + second + body


def hostile_payloads():
    chance = random.Random(7)
    noise = chance.randbytes(4096)
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


@pytest.mark.parametrize("payload", hostile_payloads().values(), ids=hostile_payloads().keys())
def test_hostile_bytes_harm_nothing(services, sink, payload):
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


# ---------------------------------------------------------------- the whole chain


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
                state = fields_of(answer[40:])
                if until(state):
                    return state
        raise AssertionError(f"no such state within {timeout_s} s, the last was {state}")

    def open(self):
        self.ask(RUN_OPEN, sint(2, time.time_ns()), lambda state: state.get(2, [0])[0] >= 1, 20)

    def end(self, timeout_s: float = 60) -> dict[int, list]:
        """State of the sealed run."""
        body = sint(2, time.time_ns())
        return self.ask(
            RUN_END, body, lambda state: state.get(2, [0])[0] in (SEALED, FAILED), timeout_s
        )

    def close(self):
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


@pytest.fixture
def chain(services, tmp_path):
    return Chain(services, tmp_path)


def wait_until_shipped(chain: Chain, streams: list[str], timeout_s: float = 30):
    end = time.monotonic() + timeout_s
    while any(name.split("-")[1] in streams for name in chain.held()):
        assert time.monotonic() < end, f"still held: {chain.held()}"
        time.sleep(0.05)


def test_a_finished_spool_is_shipped_and_the_run_sealed(chain):
    run_id = uuid.uuid4()
    collector = Collector(chain.aggregator_at, run_id.bytes)
    collector.open()
    streams = [write_stream(chain.work / "spool", run_id.bytes, 500) for _ in range(3)]
    wait_until_shipped(chain, streams)
    state = collector.end()
    collector.close()
    assert state[2] == [SEALED], state
    assert state[9] == [b"COMPLETE"], state
    path = pathlib.Path(state[8][0].decode())
    assert path == chain.work / "out" / f"{run_id}.h5"
    assert path.is_file()
    deadline = time.monotonic() + 5
    while list(path.parent.glob("*.live.h5")):  # the process that makes it may be about to
        assert time.monotonic() < deadline
        time.sleep(0.02)
    checked = run("crema-sink", "check", path)
    assert checked.returncode == 0, checked.stdout
    chain.stop()

    again = chain.work / "again.h5"
    rebuilt = run(
        "crema-sink", "rebuild", chain.work / "store" / str(run_id), "--output", again, "--json"
    )
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert json.loads(rebuilt.stdout)["verdict"] == "COMPLETE"
    assert run("crema-sink", "check", again).returncode == 0


def last_numbers(path: pathlib.Path, streams: list[str]) -> dict[str, int | None]:
    """Of each stream in a sealed file, where it may stand only once."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as file:
        rows = file["dict/stream"][:]
    names = [row["uuid"].decode().replace("-", "") for row in rows]
    assert len(names) == len(set(names))
    last = dict(zip(names, (int(row["last_seq"]) for row in rows), strict=True))
    return {stream: last.get(stream) for stream in streams}


def test_the_chain_survives_kills_of_every_program(chain):
    run_id = uuid.uuid4()
    collector = Collector(chain.aggregator_at, run_id.bytes)
    collector.open()
    streams = []
    for program in PROGRAMS * 4:
        streams += [write_stream(chain.work / "spool", run_id.bytes, 400)]
        time.sleep(0.15)
        chain.kill(program)
    wait_until_shipped(chain, streams)
    state = collector.end()
    collector.close()
    assert state[2] == [SEALED], state
    path = pathlib.Path(state[8][0].decode())
    assert run("crema-sink", "check", path).returncode == 0
    assert last_numbers(path, streams) == dict.fromkeys(streams, 400)


@pytest.mark.parametrize(
    "hold_s", [0, pytest.param(120, marks=[pytest.mark.long, pytest.mark.timeout(300)])]
)
def test_records_that_come_late_raise_the_revision(chain, hold_s):
    run_id = uuid.uuid4()
    collector = Collector(chain.aggregator_at, run_id.bytes)
    collector.open()
    streams = [write_stream(chain.work / "spool", run_id.bytes, 100)]
    wait_until_shipped(chain, streams)
    first = collector.end()
    time.sleep(hold_s)
    streams.append(write_stream(chain.work / "spool", run_id.bytes, 200))
    wait_until_shipped(chain, streams)

    def is_newer(state) -> bool:
        return state.get(2) == [SEALED] and state.get(11, [0])[0] > first[11][0]

    state = collector.ask(RUN_QUERY, b"", is_newer, 30)
    collector.close()
    assert state[11] == [first[11][0] + 2]  # zigzag: the next one
    path = pathlib.Path(state[8][0].decode())
    assert run("crema-sink", "check", path).returncode == 0
    assert last_numbers(path, streams) == dict(zip(streams, (100, 200), strict=True))


def test_a_run_whose_client_was_killed_is_sealed_and_may_still_be_ended(
    services, tmp_path, monkeypatch
):
    h5py = pytest.importorskip("h5py")
    monkeypatch.setenv("CREMA_ABANDON_AFTER", "2s")
    chain = Chain(services, tmp_path)
    run_id = uuid.uuid4()
    collector = Collector(chain.aggregator_at, run_id.bytes)
    collector.open()
    streams = [write_stream(chain.work / "spool", run_id.bytes, 100)]
    wait_until_shipped(chain, streams)
    collector.close()  # as if it were killed

    output, live = (tmp_path / "out" / f"{run_id}{end}" for end in (".h5", ".live.h5"))
    deadline = time.monotonic() + 30
    while not output.exists() or live.exists():
        assert time.monotonic() < deadline, list((tmp_path / "out").iterdir())
        time.sleep(0.05)
    with h5py.File(output) as file:
        assert file.attrs["verdict"] == "PARTIAL"
        assert "run_not_ended" in file.attrs["verdict_reasons"]
    assert run("crema-sink", "check", output).returncode == 0
    assert last_numbers(output, streams) == {streams[0]: 100}

    returned = Collector(chain.aggregator_at, run_id.bytes)
    body = sint(2, time.time_ns())
    state = returned.ask(RUN_END, body, lambda state: state.get(9) == [b"COMPLETE"], 30)
    returned.close()
    assert state[2] == [SEALED] and 10 not in state
    with h5py.File(output) as file:
        assert file.attrs["verdict"] == "COMPLETE"


def viewer_of(sink: Service) -> int | None:
    """Process id of the child that makes the live files."""
    children = pathlib.Path(f"/proc/{sink.process.pid}/task/{sink.process.pid}/children")
    for pid in map(int, children.read_text().split()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if b"\0view\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


def test_a_killed_view_process_costs_nothing(services, tmp_path):
    """Another one takes its place and shows all of the run; the run itself goes on meanwhile."""
    h5py = pytest.importorskip("h5py")
    chain = Chain(services, tmp_path, sink_options=("--flush-interval", "100ms"))
    run_id = uuid.uuid4()
    live = tmp_path / "out" / f"{run_id}.live.h5"

    def shown() -> int:
        try:
            with h5py.File(live, swmr=True) as file:
                return len(file["dict/activity"])
        except (OSError, KeyError):
            return 0

    def wait_until(what, happened):
        end = time.monotonic() + 30
        while not happened():
            assert time.monotonic() < end, what
            time.sleep(0.05)

    collector = Collector(chain.aggregator_at, run_id.bytes)
    collector.open()
    streams = [write_stream(chain.work / "spool", run_id.bytes, 100)]
    wait_until("a live file", shown)
    first, before = viewer_of(chain.running["crema-sink"]), shown()
    os.kill(first, signal.SIGKILL)
    streams.append(write_stream(chain.work / "spool", run_id.bytes, 200))
    wait_until_shipped(chain, streams)
    wait_until("a new process", lambda: viewer_of(chain.running["crema-sink"]) not in (None, first))
    wait_until("all rows", lambda: shown() >= before)
    state = collector.end()
    collector.close()
    assert state[9] == [b"COMPLETE"], state
    wait_until("its removal", lambda: not live.exists())
    status, log = chain.running["crema-sink"].stop()
    assert status == 0
    assert "event=live_views_restart" in log


def test_a_run_sealed_while_the_sink_dies_is_sealed_by_the_next_one(chain):
    run_id = uuid.uuid4()
    collector = Collector(chain.aggregator_at, run_id.bytes)
    collector.open()
    wait_until_shipped(chain, [write_stream(chain.work / "spool", run_id.bytes, 100)])
    collector.say(RUN_END, sint(2, time.time_ns()))
    time.sleep(0.05)
    chain.kill("crema-sink")
    assert collector.end()[2] == [SEALED]
    collector.close()


def test_with_keys_the_chain_works_and_strangers_are_not_heard(services, tmp_path):
    keys, others = tmp_path / "keys", tmp_path / "others"
    for path in (keys, others):
        assert run("crema-aggregator", "--make-keys", path).returncode == 0
    (tmp_path / "chain").mkdir()
    chain = Chain(services, tmp_path / "chain", keys)
    run_id = uuid.uuid4()
    (others / "client/server.key").write_bytes((keys / "client/server.key").read_bytes())
    for stranger in (
        Collector(chain.aggregator_at, run_id.bytes),
        Collector(chain.aggregator_at, run_id.bytes, others),
    ):
        with pytest.raises(AssertionError, match="no such state"):
            stranger.ask(RUN_OPEN, b"", lambda state: True, 2)
        stranger.close()
    collector = Collector(chain.aggregator_at, run_id.bytes, keys)
    collector.open()
    wait_until_shipped(chain, [write_stream(chain.work / "spool", run_id.bytes, 100)])
    assert collector.end()[9] == [b"COMPLETE"]
    collector.close()
    chain.stop()


@pytest.mark.parametrize("retention", [("--retain", "1s"), ("--retain-bytes", "1")])
def test_journals_of_sealed_runs_are_freed_in_time(services, tmp_path, retention):
    chain = Chain(services, tmp_path, sink_options=retention)
    run_id = uuid.uuid4()
    collector = Collector(chain.aggregator_at, run_id.bytes)
    collector.open()
    wait_until_shipped(chain, [write_stream(chain.work / "spool", run_id.bytes, 100)])
    sealed = pathlib.Path(collector.end()[8][0].decode())
    journal = chain.work / "store" / str(run_id)
    end = time.monotonic() + 40
    while journal.exists():
        assert time.monotonic() < end, "the journal is still there"
        time.sleep(0.2)
    assert (chain.work / "store" / "tombstones").stat().st_size > 0
    before = sealed.read_bytes()
    chain.kill("crema-sink")
    write_stream(
        chain.work / "spool", run_id.bytes, 100
    )  # nobody may make a new file of this alone
    time.sleep(4)
    assert not journal.exists()
    assert sealed.read_bytes() == before
    assert (chain.work / "store" / "refused").stat().st_size == 80  # one stream
    collector.close()


def test_a_sealed_run_whose_journal_cannot_be_read_stops_nobody_else(chain):
    sealed, other = uuid.uuid4(), uuid.uuid4()
    collector = Collector(chain.aggregator_at, sealed.bytes)
    collector.open()
    wait_until_shipped(chain, [write_stream(chain.work / "spool", sealed.bytes, 100)])
    output = pathlib.Path(collector.end()[8][0].decode())
    before = output.read_bytes()
    chain.running["crema-sink"].kill()
    segment = max((chain.work / "store" / str(sealed)).glob("*.journal"))
    away = segment.rename(segment.with_suffix(".away"))
    segment.mkdir()  # as good as EACCES, also for root
    chain.running["crema-sink"] = chain.start("crema-sink")
    late = write_stream(chain.work / "spool", sealed.bytes, 50)
    another = Collector(chain.aggregator_at, other.bytes)
    another.open()
    wait_until_shipped(chain, [write_stream(chain.work / "spool", other.bytes, 100)])
    assert another.end()[9] == [b"COMPLETE"]
    assert output.read_bytes() == before
    assert any(late in name for name in chain.held())  # refused, not begun again at 1
    segment.rmdir()
    away.rename(segment)
    wait_until_shipped(chain, [late])
    collector.close()
    another.close()
    log = chain.running["crema-sink"].stop()[1]
    aside = next(line for line in log.splitlines() if "event=run_set_aside" in line)
    assert str(segment) in aside
    assert sealed.hex in aside
    assert "event=run_taken_back" in log


def test_the_tap_tells_what_happens(services, sink, tmp_path):
    zmq = pytest.importorskip("zmq")
    aggregator = services("crema-aggregator", "--bind", ANY, "--sink", sink.endpoint, "--tap", ANY)
    watcher = zmq.Context.instance().socket(zmq.SUB)
    watcher.linger = 0
    watcher.subscribe(b"")
    watcher.connect(aggregator.said["tap"])
    time.sleep(0.3)
    run_id = uuid.uuid4()
    collector = Collector(aggregator.endpoint, run_id.bytes)
    collector.open()
    heard = {}
    end = time.monotonic() + 20
    while time.monotonic() < end and set(heard) != {b"event", b"run"}:
        if watcher.poll(200):
            topic, body = watcher.recv().split(b" ", 1)
            told = json.loads(body)
            if told.get("run") == str(run_id):
                heard[topic] = told
    collector.close()
    watcher.close()
    assert heard[b"event"]["event"] == "run_opened"
    assert heard[b"run"]["phase"] == "open"
    assert heard[b"run"]["seconds"]["processor"] == 0


# ---------------------------------------------------------------- another version


@pytest.mark.parametrize("other", [1, 99])
def test_another_protocol_version_is_refused_politely(services, sink, other):
    """A HELLO of version 1 (0.1.0), or of one to come, from a real socket: FENCE, and an agent of ours is served as before."""
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
        kind, body = _client.decode(peer.recv())
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
