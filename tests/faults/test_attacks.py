"""What a stolen key can do, tried on the real programs: docs/attacks.md names a test of this file behind each of its sentences."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import time
import uuid

import pytest
import zmq
import zmq.auth

from children import Child
from crema.collect import _client
from crema.collect._keys import server_key
from crema.hook._records import MESSAGES
from facility_kit import (
    DATA,
    HELLO,
    OPEN,
    OTHER_KEY,
    PRINCIPAL,
    PUT,
    RUN_SEAL,
    AgentKeys,
    Facility,
    Recorder,
    Thief,
    admitted,
    in_session,
    opened,
    state_of,
)
from paths import BIN
from waiting import wait_for


@pytest.fixture
def facility(tmp_path):
    made = Facility(tmp_path)
    yield made
    made.stop()


def test_users_cannot_read_join_or_end_the_run_of_another(facility):
    alice, run_id = opened(facility, "alice")
    bob = facility.client("bob")
    for kind, fields in (
        (_client.RUN_QUERY, {}),
        (_client.RUN_OPEN, {"t_start_ns": 1, "keys": ["mark"], "values": ["bob"]}),
        (_client.RUN_END, {"t_end_ns": 2, "keys": ["mark"], "values": ["bob"]}),
    ):
        state = state_of(bob, kind, run_id=run_id, **fields)
        assert state.refusal == OTHER_KEY
        assert (state.phase, state.path, state.committed) == (_client.UNKNOWN, "", 0)
    assert state_of(alice, _client.RUN_QUERY, run_id=run_id).phase == _client.OPEN
    alice.close()
    bob.close()


def test_a_run_has_its_owner_also_for_an_aggregator_that_was_started_anew(facility):
    alice, run_id = opened(facility, "alice")
    alice.close()
    facility.processes["crema-aggregator"].kill()
    facility.processes["crema-aggregator"].wait()
    facility.processes["crema-aggregator"].stdout.close()
    facility.aggregator = facility.start(
        "crema-aggregator", "--bind", facility.aggregator, "--sink", facility.sink
    )
    bob, alice = facility.client("bob"), facility.client("alice")
    refused = state_of(
        bob, _client.RUN_END, lambda state: state.refusal == OTHER_KEY,
        run_id=run_id, t_end_ns=2, keys=["mark"], values=["bob"],
    )  # fmt: skip
    assert refused.phase == _client.UNKNOWN
    state_of(alice, _client.RUN_END, lambda state: state.phase >= 2, run_id=run_id, t_end_ns=2)
    alice.close()
    bob.close()


@pytest.mark.parametrize(
    ("role", "kinds"),
    [
        ("client", [HELLO, DATA, OPEN, PUT]),
        ("agent", [_client.RUN_OPEN, _client.RUN_END, _client.RUN_QUERY, PUT]),
        ("aggregator", [HELLO, DATA]),
    ],
)
def test_each_role_is_heard_with_its_own_messages_only(facility, role, kinds):
    bodies = {
        HELLO: MESSAGES["Hello"](agent_id=b"a" * 16, ver_min=2, ver_max=2),
        DATA: MESSAGES["Data"](
            stream_id=b"s" * 16, run_id=b"r" * 16, first_seq=1, n=1, frames=b"x" * 32
        ),
        OPEN: MESSAGES["Open"](),
        PUT: MESSAGES["Put"](
            stream_id=b"s" * 16, run_id=b"r" * 16, first_seq=1, n=1, frames=b"x" * 32
        ),
        _client.RUN_OPEN: MESSAGES["RunOpen"](run_id=b"r" * 16),
        _client.RUN_END: MESSAGES["RunEnd"](run_id=b"r" * 16),
        _client.RUN_QUERY: MESSAGES["RunQuery"](run_id=b"r" * 16),
    }
    for kind in kinds:
        thief = Thief(facility.aggregator, facility.keys / role, role)
        thief.say(kind, bodies[kind])
        assert thief.fenced() == PRINCIPAL, kind
        thief.close()


@pytest.mark.parametrize("role", ["client", "agent"])
def test_the_sink_hears_aggregators_alone(facility, role):
    thief = Thief(facility.sink, facility.keys / role, role)
    for kind, message in (
        (OPEN, MESSAGES["Open"]()),
        (RUN_SEAL, MESSAGES["RunSeal"](run_id=b"r" * 16)),
        (HELLO, MESSAGES["Hello"](agent_id=b"a" * 16)),
    ):
        thief.say(kind, message)
        assert (thief.fenced() == PRINCIPAL) or (role, kind) == ("agent", HELLO)
    thief.close()
    assert "message_not_allowed" in facility.log("crema-sink")


def test_a_verdict_of_somebody_elses_run_writes_nothing(facility):
    alice, run_id = opened(facility, "alice")
    journal = facility.directory / "store" / str(uuid.UUID(bytes=run_id))
    thief = Thief(facility.sink, facility.keys / "aggregator", "aggregator")
    time.sleep(1.5)  # what belongs to its opening is committed
    before = sum(path.stat().st_size for path in journal.iterdir())
    for _ in range(50):
        thief.say(RUN_SEAL, MESSAGES["RunSeal"](run_id=run_id, owner=b"b" * 16))
    end = time.monotonic() + 10
    while facility.log("crema-sink").count("run_message_refused") < 1:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(1.5)
    assert sum(path.stat().st_size for path in journal.iterdir()) == before
    thief.close()
    alice.close()


def test_an_agent_of_one_run_is_no_agent_of_another(facility, tmp_path):
    pair = AgentKeys.fresh(server_key(facility.keys))
    directory = tmp_path / "stolen"
    directory.mkdir(mode=0o700)
    for name, text in pair.files.items():
        (directory / name).write_text(text)
    early = Thief(facility.aggregator, directory, "agent")
    early.say(HELLO, MESSAGES["Hello"](agent_id=b"a" * 16, ver_min=2, ver_max=2))
    assert early.fenced(0.5) is None, "nobody knows this key yet: it does not come in"
    early.close()
    alice, _ = opened(facility, "alice", agent_key=pair.public)
    bob, other_run = opened(facility, "bob")
    thief = Thief(facility.aggregator, directory, "agent")
    deadline = time.monotonic() + 15
    session = 0
    while not session and time.monotonic() < deadline:
        thief.say(HELLO, MESSAGES["Hello"](agent_id=b"a" * 16, boot=1, ver_min=2, ver_max=2))
        if thief.socket.poll(500):
            answer = thief.socket.recv()
            session = int.from_bytes(answer[16:24], "little") if answer[5] == 16 else 0
    assert session, "its own key is admitted"
    foreign = MESSAGES["Data"](
        stream_id=b"s" * 16, run_id=other_run, first_seq=1, n=1, hi=1, frames=b"x" * 32
    )
    thief.socket.send(in_session(session, DATA, foreign.SerializeToString()))
    assert thief.fenced() == PRINCIPAL
    other = Thief(facility.aggregator, facility.keys / "agent", "agent")
    other.say(HELLO, MESSAGES["Hello"](agent_id=b"a" * 16, boot=2, ver_min=2, ver_max=2))
    assert other.fenced() == PRINCIPAL, "an agent id is the key's that said it first"
    for one in (alice, bob, thief, other):
        one.close()


def brings_a_false_record(facility, directory, client, run_id: bytes, user: int = 0) -> None:
    """The holder of the agent's key in `directory` makes up a worker of that run, and the sink keeps it."""
    forged = Recorder(facility.directory, run_id)
    stream_id = forged.writer.stream_id
    forged.writer.close()
    (path,) = facility.directory.glob(f"sp-{stream_id.hex()}-*")
    row = MESSAGES["StreamTable"](
        stream_ids=stream_id, run_ids=run_id, first_avail=[1], hi=[2], flags=[1], users=[user]
    )
    thief = Thief(facility.aggregator, directory, "agent")
    session = admitted(thief, row, os.urandom(16))
    data = MESSAGES["Data"](
        stream_id=stream_id, run_id=run_id, first_seq=1, n=2, hi=2, flags=1,
        frames=path.read_bytes(),
    )  # fmt: skip
    thief.socket.rcvhwm = 100
    deadline = time.monotonic() + 15
    while True:  # until the aggregator has asked the sink where the stream stands
        thief.socket.send(in_session(session, DATA, data.SerializeToString()))
        state = state_of(client, _client.RUN_QUERY, run_id=run_id)
        if state.committed == 2:
            break
        assert time.monotonic() < deadline, state
        time.sleep(0.1)
    thief.close()


def test_a_stolen_key_of_a_runs_agents_brings_false_records_of_that_run(facility, tmp_path):
    pair = AgentKeys.fresh(server_key(facility.keys))
    directory = tmp_path / "stolen"
    directory.mkdir(mode=0o700)
    for name, text in pair.files.items():
        (directory / name).write_text(text)
    alice, run_id = opened(facility, "alice", agent_key=pair.public)
    brings_a_false_record(facility, directory, alice, run_id)
    alice.close()


def test_a_stolen_operators_agent_key_brings_records_of_any_run(facility):
    """Who has that key states any owner: binding keys to users holds against what lies in spools, not against this."""
    facility.run(
        "crema-aggregator", "--add-key", "carol", "--keys", facility.keys, "--key-uid", 4711
    )
    facility.processes["crema-aggregator"].send_signal(signal.SIGHUP)
    for name, user in (("alice", 0), ("carol", 4712)):
        client, run_id = opened(facility, name)
        brings_a_false_record(facility, facility.keys / "agent", client, run_id, user)
        client.close()


@pytest.mark.timing
@pytest.mark.parametrize("hup", [True, False])
def test_a_revoked_key_is_fenced_within_two_seconds_and_its_runs_end(facility, hup):
    alice, run_id = opened(facility, "alice")
    bob, of_bob = opened(facility, "bob")
    others = [opened(facility, "alice")[0] for _ in range(3)]
    facility.revoke("alice")
    revoked_at = time.monotonic()
    if hup:
        facility.processes["crema-aggregator"].send_signal(signal.SIGHUP)
    while "key_revoked" not in facility.log("crema-aggregator"):
        assert time.monotonic() < revoked_at + 2
        time.sleep(0.02)
    assert not list(alice.states(run_id, 0.2))
    alice.send(_client.RUN_QUERY, run_id=run_id)
    assert not list(alice.states(run_id, 0.5))
    assert state_of(bob, _client.RUN_QUERY, run_id=of_bob).phase == _client.OPEN
    path = facility.directory / f"{uuid.UUID(bytes=run_id)}.h5"
    while not path.exists():
        assert time.monotonic() < revoked_at + 30
        time.sleep(0.1)
    import crema

    run = crema.open(path)
    assert run.verdict == "PARTIAL"
    assert "key_revoked" in run.attributes["verdict_reasons"]
    log = facility.log("crema-aggregator")
    assert "event=key_revoked role=client name=alice" in log
    assert log.count("event=key_revoked") == 1, "one for the key, not one per connection"
    for client in (alice, bob, *others):
        client.close()
    late = facility.client("alice")
    assert not late.send(_client.RUN_QUERY, run_id=run_id) or not list(late.states(run_id, 1))
    late.close()


def test_thousands_of_runs_of_one_key_leave_room_for_others(facility):
    bob, _ = opened(facility, "bob")
    refused = 0
    for _ in range(2000):
        run_id = uuid.uuid4().bytes
        bob.send(_client.RUN_OPEN, run_id=run_id, t_start_ns=1)
        for state in bob.states(run_id, 5):
            refused += state.refusal != 0
            break
    assert refused >= 1900, "one key has so many open runs and no more"
    alice, _ = opened(facility, "alice")
    alice.close()
    bob.close()


def has_nothing_to_do(pid: int) -> bool:
    """All threads wait, at each of ten looks; on a busy machine one that cannot run is not one that waits."""

    def waits() -> bool:
        stats = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
        return all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats)

    for _ in range(10):
        if not waits():
            return False
        time.sleep(0.05)
    return True


def test_a_peer_that_never_reads_does_not_fill_the_server(tmp_path):
    facility = Facility(tmp_path)
    sink = facility.processes["crema-sink"]
    asked = MESSAGES["Open"]()
    asked.table.stream_ids, asked.table.run_ids = os.urandom(16 * 3072), b"r" * 16 * 3072
    thief = Thief(facility.sink, facility.keys / "aggregator", "aggregator")
    lost = thief.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    for _ in range(2000):  # answered by 200 MB, of which 64 may wait
        thief.say(OPEN, asked)
    wait_for(lambda: has_nothing_to_do(sink.pid), 60, "an end of its work")
    kept_mb, connections = 0, 1
    while thief.socket.poll(1000):
        kept_mb += len(thief.socket.recv()) / 1e6
    while lost.poll(0):  # after 3 s in which nothing was read
        lost.recv_multipart()
        connections += 1
    print(f"{kept_mb:.0f} MB were kept for {connections} connections")
    assert kept_mb < 90 * connections, "64 MB, and what the kernel's buffers hold"
    assert kept_mb > 32 or connections > 1, "nothing was kept"
    lost.close()
    thief.close()
    facility.stop()
    counts = facility.log("crema-sink").partition("stopped")[2]
    assert int(counts.partition("untaken=")[2].split()[0]) > 500


def test_one_address_does_not_take_all_descriptors(tmp_path, monkeypatch):
    monkeypatch.setenv("CREMA_CONNECTIONS_PER_ADDRESS", "2")
    facility = Facility(tmp_path)
    host, port = facility.aggregator.removeprefix("tcp://").split(":")
    alice, run_id = opened(facility, "alice")
    held = [socket.create_connection((host, int(port))) for _ in range(100)]
    deadline = time.monotonic() + 5
    while "too_many_connections" not in facility.log("crema-aggregator"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pid = facility.processes["crema-aggregator"].pid
    while len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())) > 16 * 2 + 30:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert state_of(alice, _client.RUN_QUERY, run_id=run_id).phase == _client.OPEN
    alice.close()
    for one in held:
        one.close()
    facility.stop()


def dials_with_foreign_keys(endpoint: str, server_public: bytes, times: int) -> None:
    """Connect so many times, each with a pair that nobody admits, and return once all were turned away."""
    context, gone = zmq.Context(), 0  # its own, which no other test has used
    dialling = []
    for _ in range(times):
        sock = context.socket(zmq.DEALER)
        sock.linger, sock.reconnect_ivl = 0, -1
        sock.curve_publickey, sock.curve_secretkey = zmq.curve_keypair()
        sock.curve_serverkey = server_public
        ends = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        monitor = sock.get_monitor_socket(ends | zmq.EVENT_DISCONNECTED)
        sock.connect(endpoint)
        dialling.append((sock, monitor))
    for sock, monitor in dialling:
        gone += monitor.poll(20_000) != 0
        sock.disable_monitor()
        sock.close()
    context.destroy(linger=0)
    assert gone == times


def fields_of(log: str, event: str) -> list[dict[str, str]]:
    """Of each line with that event, its fields."""
    return [
        dict(field.partition("=")[::2] for field in line.split()[1:])
        for line in log.splitlines()
        if f" event={event} " in line
    ]


@pytest.mark.slow
def test_foreign_keys_are_logged_once_per_period_and_counted(tmp_path):
    facility = Facility(tmp_path)
    alice, run_id = opened(facility, "alice")
    server_public, _ = zmq.auth.load_certificate(facility.keys / "client" / "server.key")
    services = {"crema-aggregator": facility.aggregator, "crema-sink": facility.sink}
    dials = 0
    began = time.monotonic()
    while min(len(fields_of(facility.log(name), "key_refused")) for name in services) < 2:
        assert time.monotonic() < began + 40
        for endpoint in services.values():
            dials_with_foreign_keys(endpoint, server_public, 25)
        dials += 25
        assert state_of(alice, _client.RUN_QUERY, run_id=run_id).phase == _client.OPEN
    state_of(alice, _client.RUN_END, lambda state: state.phase >= 2, run_id=run_id, t_end_ns=2)
    alice.close()
    facility.stop()
    periods = 1 + (time.monotonic() - began) / 10
    for program in services:
        lines = fields_of(facility.log(program), "key_refused")
        assert len(lines) <= periods, lines
        assert all(line["address"] == "127.0.0.1" for line in lines)
        assert int(lines[-1]["refused"]) == sum(int(line["count"]) for line in lines)
        assert "repeats_held_back" not in facility.log(program)
        (stopped,) = fields_of(facility.log(program), "stopped")
        assert int(stopped["keys_refused"]) == dials


def test_an_operators_agent_brings_to_a_run_only_what_its_user_wrote(tmp_path):
    """Each key is bound to a uid; the agent says whose files it reads."""
    facility = Facility(tmp_path)
    me = os.geteuid()
    for name, uid in (("carol", me), ("dave", me + 1)):
        facility.run(
            "crema-aggregator", "--add-key", name, "--keys", facility.keys, "--key-uid", uid
        )
    facility.processes["crema-aggregator"].send_signal(signal.SIGHUP)
    runs = {name: opened(facility, name) for name in ("carol", "dave", "alice")}
    spool = tmp_path / "spool"
    spool.mkdir()
    recorders = {name: Recorder(spool, run_id) for name, (_, run_id) in runs.items()}
    log = open(tmp_path / "agent.log", "w")  # noqa: SIM115
    agent = Child(
        [BIN / "crema-agent", "--spool", spool, "--aggregator", facility.aggregator,
         "--keys", facility.keys, "--heartbeat-interval", "200ms", "--drain-timeout", "1s"],
        stdout=log, stderr=log,
    )  # fmt: skip
    client, run_id = runs["carol"]
    state_of(client, _client.RUN_QUERY, lambda state: state.committed >= 1, run_id=run_id)
    client, run_id = runs["alice"]  # bound to nobody: anybody's
    state_of(client, _client.RUN_QUERY, lambda state: state.committed >= 1, run_id=run_id)
    deadline = time.monotonic() + 10
    while "stream_refused" not in (said := facility.log("crema-aggregator")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    refused = next(line for line in said.splitlines() if "stream_refused" in line)
    client, run_id = runs["dave"]
    assert str(uuid.UUID(bytes=run_id)) in refused or run_id.hex() in refused
    assert f"uid {me}" in refused and recorders["dave"].writer.stream_id.hex() in refused
    state = state_of(client, _client.RUN_QUERY, run_id=run_id)
    assert (state.streams, state.committed) == (0, 0)
    assert agent.poll() is None, "the agent serves others too: it is not turned away"
    for recorder in recorders.values():
        recorder.writer.close()
    agent.terminate()
    agent.wait(20)
    log.close()
    for client, _ in runs.values():
        client.close()
    facility.stop()
