"""Users who share services: what one of them does, or loses, neither delays nor spoils the run of another."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid

import pytest

import facility_kit
import missing
from children import Child
from crema.collect import _client
from crema.collect._keys import server_key
from crema.hook._records import MESSAGES
from facility_kit import (
    DATA,
    HELLO,
    AgentKeys,
    Facility,
    Recorder,
    Thief,
    admitted,
    in_session,
    state_of,
)
from paths import BIN
from waiting import wait_for

users = facility_kit.users  # fixture


@pytest.fixture
def facility(tmp_path, request):
    made = Facility(tmp_path, *getattr(request, "param", ()))
    yield made
    made.stop()


@pytest.fixture
def agents(facility):
    """Starts agents of the facility: an operator's, or those of one run with the key that it brought."""
    started = []

    def start(spool: pathlib.Path, *options, keys: pathlib.Path | None = None) -> subprocess.Popen:
        spool.mkdir(mode=0o700, exist_ok=True)
        with (spool.parent / f"{spool.name}.log").open("w") as log:
            started.append(
                Child(
                    [BIN / "crema-agent", "--spool", spool, "--aggregator", facility.aggregator,
                     "--keys", keys or facility.keys, *map(str, options)],
                    stdout=log, stderr=log,
                )
            )  # fmt: skip
        return started[-1]

    yield start
    for agent in started:
        agent.kill()
        agent.wait()


def lent_pair(facility: Facility, directory: pathlib.Path) -> AgentKeys:
    """A pair of keys for a run's own agents, in `directory` as the hook would put it."""
    pair = AgentKeys.fresh(server_key(facility.keys))
    directory.mkdir(mode=0o700)
    for name, text in pair.files.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o600)
    return pair


def records(spool: pathlib.Path, run_id: bytes, big: int = 0) -> dict:
    """Write a whole stream of a worker, with some records of 60 KB; what its collector lists of it."""
    recorder = Recorder(spool, run_id)
    for n in range(big):
        entry = {"kind": 1, "id": n, "text": os.urandom(30_000).hex()}
        recorder.writer.append(2, MESSAGES["Dict"](entries=[entry]).SerializeToString())
    recorder.writer.close()
    return {
        "stream_id": recorder.writer.stream_id, "last": big + 2, "kind": 0, "state": 1, "name": "w"
    }  # fmt: skip


def ends(client: _client.AggregatorClient, run_id: bytes, writers: list[dict], timeout_s: float):
    """End the run as its collector does; its state when it is sealed."""
    client.send(_client.RUN_WRITERS, run_id=run_id, part=0, parts=1, writers=writers)
    return state_of(
        client, _client.RUN_END, lambda state: state.phase >= _client.SEALED, timeout_s,
        run_id=run_id, t_start_ns=1, t_end_ns=2, writer_parts=1, dismiss=True,
    )  # fmt: skip


def delivered(client: _client.AggregatorClient, run_id: bytes, committed: int = 2):
    return state_of(
        client, _client.RUN_QUERY, lambda state: state.committed >= committed, run_id=run_id
    )


def must_be_complete(state, within_s: float) -> None:
    assert state.verdict == "COMPLETE", state.reasons
    assert state.verdict_after_ns < within_s * 1e9, state


@pytest.mark.parametrize("whose", ["operator's", "declared", "lent"])
def test_a_killed_agent_of_one_run_neither_delays_nor_spoils_another(
    facility, users, agents, tmp_path, whose
):
    pair = lent_pair(facility, tmp_path / "pair")
    alice, of_alice = users("alice", agent_key=pair.public)
    bob, of_bob = users("bob")
    slow = "--heartbeat-interval", "10s"
    options = slow if whose == "operator's" else (*slow, "--run", of_alice.hex())
    keys = tmp_path / "pair" if whose == "lent" else None
    agent = agents(tmp_path / "spool-a", *options, keys=keys)
    records(tmp_path / "spool-a", of_alice)
    delivered(alice, of_alice)
    agents(tmp_path / "spool-b", "--heartbeat-interval", "500ms")
    writers = [records(tmp_path / "spool-b", of_bob)]
    delivered(bob, of_bob)
    agent.kill()
    must_be_complete(ends(bob, of_bob, writers, 90), 4 if whose == "operator's" else 1)


def test_a_killed_agent_with_streams_of_the_run_is_named(facility, users, agents, tmp_path):
    """The list does not excuse an agent that had something of the run: what else it had is not known."""
    bob, of_bob = users("bob")
    agent = agents(tmp_path / "spool-b", "--heartbeat-interval", "200ms")
    writers = [records(tmp_path / "spool-b", of_bob)]
    delivered(bob, of_bob)
    agent.kill()
    state = ends(bob, of_bob, writers, 120)
    assert state.verdict == "PARTIAL"
    assert [reason.code for reason in state.reasons] == ["agent_lost"]


@pytest.mark.slow
def test_agents_that_are_refused_dial_less_and_less_and_say_why(facility, agents, tmp_path):
    """Five orphans in 20 s: 100 ms apart at first, 5 s apart at last."""
    lent_pair(facility, tmp_path / "pair")  # which no run brings
    for n in range(5):
        spool = tmp_path / f"spool-{n}"
        spool.mkdir(mode=0o700)
        records(spool, os.urandom(16))
        agents(spool, keys=tmp_path / "pair")
    time.sleep(20)
    facility.stop()
    (stopped,) = re.findall(r"event=stopped .*", facility.log("crema-aggregator"))
    refused = int(re.search(r"keys_refused=(\d+)", stopped)[1])
    assert 5 * 5 <= refused <= 5 * 10, refused
    for n in range(5):
        log = (tmp_path / f"spool-{n}.log").read_text()
        assert log.count("event=key_refused") == 1, log
        assert "aggregator_unreachable" not in log


@pytest.mark.parametrize("begins", [b"", b"\x43\x52\x4d\x31"], ids=["zeros", "magic"])
def test_a_huge_file_in_a_shared_spool_makes_no_agent_deaf(
    facility, users, agents, tmp_path, begins
):
    """4 GiB of nothing under a segment's name: reading it took 11 s, in which the agent answered nobody."""
    spool = tmp_path / "spool-b"
    bob, of_bob = users("bob")
    agents(spool, "--heartbeat-interval", "500ms")
    writers = [records(spool, of_bob)]
    delivered(bob, of_bob)
    for name in (f"sp-{os.urandom(16).hex()}-{1:016x}", f"sp-{os.urandom(16).hex()}-{9:016x}"):
        with (spool / name).open("wb") as huge:
            huge.write(begins)
            huge.truncate(4 << 30)
    began = time.monotonic()
    state = ends(bob, of_bob, writers, 60)
    assert state.verdict == "COMPLETE"
    assert time.monotonic() - began < 5


@pytest.mark.skipif(os.geteuid() != 0, reason=missing.OTHER_USERS)
def test_a_user_who_fills_a_shared_spool_makes_only_their_own_streams_wait(
    facility, users, agents, tmp_path
):
    """More files than the agent has places for streams, all of one user."""
    spool = tmp_path / "spool-b"
    agents(spool, "--heartbeat-interval", "500ms")
    wait_for((spool / "agent_id").exists, 30, "the agent")
    for n in range(17_000):
        path = spool / f"sp-{n + 1:032x}-{1:016x}"
        path.touch()
        os.chown(path, 4711, -1)
    bob, of_bob = users("bob")
    writers = [records(spool, of_bob)]
    delivered(bob, of_bob)
    state = ends(bob, of_bob, writers, 60)
    assert state.verdict == "COMPLETE", state.reasons
    assert "it waits until others leave the spool" in (tmp_path / "spool-b.log").read_text()


def test_files_of_the_user_stay_when_a_runs_agent_cleans_up(facility, users, agents, tmp_path):
    bob, of_bob = users("bob")
    spool = tmp_path / "spool-b"
    spool.mkdir(mode=0o700)
    mine = [spool / name for name in ("tmp-mine.root", "writers-notes.txt", "ended-well.txt")]
    for path in mine:
        path.write_text("mine")
    agent = agents(spool, "--run", of_bob.hex(), "--heartbeat-interval", "500ms")
    writers = [records(spool, of_bob)]
    assert ends(bob, of_bob, writers, 30).verdict == "COMPLETE"
    assert agent.wait(20) == 0
    assert [path.read_text() for path in mine] == ["mine"] * 3


# ---------------------------------------------------------------- the sink


@pytest.mark.parametrize("facility", [("--journal-limit", "14Mi")], indirect=True)
def test_sealed_runs_give_way_to_a_run_that_is_in_no_file(facility, users, agents, tmp_path):
    """Complete ones first, oldest first, a PARTIAL one last; before, bob waited for --retain, 24 h."""
    spool = tmp_path / "spool"
    agents(spool, "--heartbeat-interval", "500ms")
    runs = []
    for n in range(4):
        alice, run_id = users("alice")
        writer = records(spool, run_id, big=62)  # 3.7 MB
        delivered(alice, run_id, writer["last"])
        lost = {"state": 4, "name": "lost"}  # the oldest run has a worker that recorded nothing
        state = ends(alice, run_id, [writer, lost] if n == 0 else [writer], 120)
        assert state.verdict == ("PARTIAL" if n == 0 else "COMPLETE")
        runs.append(tmp_path / "store" / str(uuid.UUID(bytes=run_id)))
    bob, of_bob = users("bob")
    writer = records(spool, of_bob, big=62)
    began = time.monotonic()
    must_be_complete(ends(bob, of_bob, [writer], 30), 20)
    assert time.monotonic() - began < 20
    left = [journal.exists() for journal in runs]
    assert left[0], "the PARTIAL run kept its journal"
    assert left == sorted(left[:1]) + sorted(left[1:]), "the oldest complete ones went first"
    assert not all(left)
    assert "--retain" in facility.log("crema-sink")


def children(facility: Facility, command: str) -> list[int]:
    """Processes of the sink with that command."""
    pid = facility.processes["crema-sink"].pid
    every = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(child) for child in every
        if f"\0{command}\0".encode() in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
    ]  # fmt: skip


def sealing_children(facility: Facility) -> list[int]:
    return children(facility, "rebuild")


def test_links_to_pipes_in_the_output_directory_stop_no_sealing(facility, users, agents, tmp_path):
    """Somebody else who may write there puts a link to a FIFO where the files of three runs are to be."""
    os.mkfifo(tmp_path / "pipe")
    spool = tmp_path / "spool"
    agents(spool, "--heartbeat-interval", "500ms")
    for _ in range(3):
        bob, of_bob = users("bob")
        (tmp_path / f"{uuid.UUID(bytes=of_bob)}.h5").symlink_to(tmp_path / "pipe")
        state = ends(bob, of_bob, [records(spool, of_bob)], 20)
        assert state.verdict == "COMPLETE"
        assert pathlib.Path(state.path).is_file() and not pathlib.Path(state.path).is_symlink()
    assert facility.log("crema-sink").count("event=link_replaced") == 3


@pytest.mark.slow
def test_sealing_processes_that_hang_are_ended_and_the_next_run_goes_on(
    tmp_path, monkeypatch, request
):
    """Two that never come back, both of them stopped, as by an output directory that does not answer."""
    monkeypatch.setenv("SHORT_WAITS", "sink.seal_limit:3000")
    facility = request.getfixturevalue("facility")
    users, agents = (request.getfixturevalue(name) for name in ("users", "agents"))
    spool = tmp_path / "spool"
    agents(spool, "--heartbeat-interval", "500ms")
    stopped, hung = set(), []
    while len(stopped) < 2:
        alice, run_id = users("alice")
        writers = [records(spool, run_id, big=60)]
        delivered(alice, run_id, writers[0]["last"])
        alice.send(_client.RUN_WRITERS, run_id=run_id, part=0, parts=1, writers=writers)
        alice.send(_client.RUN_END, run_id=run_id, t_start_ns=1, t_end_ns=2, writer_parts=1)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if fresh := set(sealing_children(facility)) - stopped:
                os.kill(fresh.pop(), signal.SIGSTOP)
                stopped = stopped | set(sealing_children(facility))
                hung.append((alice, run_id))
                break
    bob, of_bob = users("bob")
    assert ends(bob, of_bob, [records(spool, of_bob)], 30).verdict == "COMPLETE"
    assert "did not end within" in facility.log("crema-sink")
    for alice, run_id in hung:  # and these two later
        query = lambda state: state.phase == _client.SEALED  # noqa: E731
        assert state_of(alice, _client.RUN_QUERY, query, 40, run_id=run_id).verdict == "COMPLETE"


@pytest.mark.slow
def test_a_process_of_live_files_that_hangs_is_started_again(tmp_path, monkeypatch, request):
    monkeypatch.setenv("SHORT_WAITS", "sink.view_limit:2000")
    facility = request.getfixturevalue("facility")
    users, agents = (request.getfixturevalue(name) for name in ("users", "agents"))
    spool = tmp_path / "spool"
    agents(spool, "--heartbeat-interval", "500ms")
    bob, of_bob = users("bob")
    live = tmp_path / f"{uuid.UUID(bytes=of_bob)}.live.h5"
    writers = [records(spool, of_bob)]
    wait_for(live.exists, 20, "its live file")
    (hung,) = children(facility, "view")
    os.kill(hung, signal.SIGSTOP)
    live.unlink()
    writers.append(records(spool, of_bob, big=2))
    wait_for(lambda: "event=live_views_late" in facility.log("crema-sink"), 20, "its end")
    wait_for(live.exists, 20, "the live file of the next one")
    assert hung not in children(facility, "view")
    must_be_complete(ends(bob, of_bob, writers, 20), 4)


# ---------------------------------------------------------------- one key fills what it can


def flood_agents(thief: Thief, run_id: bytes, stop: threading.Event) -> None:
    while not stop.is_set():
        for _ in range(50):
            thief.say(HELLO, MESSAGES["Hello"](
                agent_id=os.urandom(16), boot=1, ver_min=2, ver_max=2, run_id=run_id
            ))  # fmt: skip
        time.sleep(0.04)


def flood_streams(thief: Thief, run_id: bytes, stop: threading.Event) -> None:
    """Tables of 256 parts with 3,072 streams each."""
    more, rows = 1, 3072
    while not stop.is_set():
        agent_id = os.urandom(16)
        for part in range(256):
            hello = MESSAGES["Hello"](
                agent_id=agent_id, boot=1, ver_min=2, ver_max=2, run_id=run_id
            )
            hello.table.stream_ids, hello.table.run_ids = os.urandom(16 * rows), run_id * rows
            hello.table.hi.extend([1] * rows)
            if stop.wait(0.01):
                return
            thief.say(HELLO, hello, flags=part << 8 | more)


def flood_texts(thief: Thief, run_id: bytes, stop: threading.Event) -> None:
    """What it cannot read, 200 KiB of it, from one agent after another."""
    fault = {"code": "file_unreadable", "subject": "x" * 500, "text": "y" * 5500}
    while not stop.wait(0.01):
        thief.say(HELLO, MESSAGES["Hello"](
            agent_id=os.urandom(16), boot=1, ver_min=2, ver_max=2, run_id=run_id,
            faults=[fault] * 33,
        ))  # fmt: skip


def flood_lists(client: _client.AggregatorClient, run_id: bytes, stop: threading.Event) -> None:
    """Lists of empty writers: 16 KB sent are 1 MB of memory."""
    part = 0
    while not stop.wait(0.02):
        client.send(_client.RUN_WRITERS, run_id=run_id, part=part, parts=4096, writers=[{}] * 8000)
        part = (part + 1) % 4096


def flood_names(thief: Thief, run_id: bytes, stop: threading.Event) -> None:
    """Names for the live split, each with the highest number that there may be: 200 bytes per stream."""
    with tempfile.TemporaryDirectory() as spool:
        recorder = Recorder(pathlib.Path(spool), run_id)
        names = [{"kind": kind, "id": 4095, "text": "x"} for kind in (0, 1, 2, 3)]
        recorder.writer.append(2, MESSAGES["Dict"](entries=names).SerializeToString())
        (segment,) = pathlib.Path(spool).glob("sp-*")
        frames = segment.read_bytes()
    while not stop.is_set():
        streams = [os.urandom(16) for _ in range(1000)]
        table = MESSAGES["Hello"]().table
        table.stream_ids, table.run_ids = b"".join(streams), run_id * len(streams)
        table.hi.extend([2] * len(streams))
        session = admitted(thief, table, os.urandom(16))
        stop.wait(0.3)  # until the sink has placed them
        for stream_id in streams:
            data = MESSAGES["Data"](
                stream_id=stream_id, run_id=run_id, first_seq=1, hi=2, n=2, frames=frames
            )
            thief.socket.send(in_session(session, DATA, data.SerializeToString()))


def resident_mb(facility: Facility, program: str) -> float:
    status = pathlib.Path(f"/proc/{facility.processes[program].pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@pytest.mark.timing
@pytest.mark.parametrize(
    ("flood", "most_mb"),
    [
        (flood_agents, 150),
        (flood_streams, 700),
        (flood_texts, 150),
        (flood_lists, 150),
        (flood_names, 250),
    ],
)
def test_one_key_fills_its_share_and_another_ones_run_is_complete(
    facility, users, agents, tmp_path, flood, most_mb
):
    """With a key that alice's run lent, or her own, for 20 s; bob's run begins in the middle of it."""
    pair = lent_pair(facility, tmp_path / "pair")
    alice, of_alice = users("alice", agent_key=pair.public)
    before_mb = resident_mb(facility, "crema-aggregator")
    stop = threading.Event()
    sender = (
        alice if flood is flood_lists else Thief(facility.aggregator, tmp_path / "pair", "agent")
    )
    flooding = threading.Thread(target=flood, args=(sender, of_alice, stop))
    flooding.start()
    try:
        time.sleep(20)
        began = time.monotonic()
        bob, of_bob = users("bob")
        agents(tmp_path / "spool-b", "--heartbeat-interval", "500ms")
        writers = [records(tmp_path / "spool-b", of_bob)]
        delivered(bob, of_bob)
        state = ends(bob, of_bob, writers, 30)
        took_s = time.monotonic() - began
    finally:
        stop.set()
        flooding.join()
        if sender is not alice:
            sender.close()
    grew_mb = resident_mb(facility, "crema-aggregator") - before_mb
    print(
        f"{flood.__name__}: bob's run took {took_s:.1f} s, the aggregator grew by {grew_mb:.0f} MB"
    )
    assert state.verdict == "COMPLETE"
    assert took_s < 10
    assert grew_mb < most_mb
