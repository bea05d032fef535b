"""Several agents on one tree of spools: whoever is killed has an heir, each record arrives once, and what is not crema's stays."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import struct
import subprocess
import time
import uuid

import h5py
import pytest

import agent_kit
import missing
from crema.collect import _client
from facility_kit import state_of
from kept_records import Pipeline, Tail, must_have_kept_everything, recorded
from losses import nothing_lost_or_twice
from service_kit import write_stream
from waiting import wait_for

agents = agent_kit.agents  # fixture
pytestmark = pytest.mark.timeout(200)

LEDGER = struct.Struct("=16sQQQ")  # stream_id, recorded, dropped, finished
STRANGER = 4711
COMMAND = ("setpriv", "--pdeathsig", "KILL", "--", "sleep", "600")  # it ends with its agent


@contextlib.contextmanager
def client_of(pipeline: Pipeline):
    client = _client.AggregatorClient(pipeline.endpoint, None)
    yield client
    client.close()


def opened(pipeline: Pipeline, client) -> bytes:
    run_id = bytes.fromhex(pipeline.run_id)
    began = time.time_ns()
    state_of(
        client, _client.RUN_OPEN, lambda state: state.phase >= 1, run_id=run_id, t_start_ns=began
    )
    return run_id


def sealed(client, run_id: bytes, writers: list[dict], timeout_s: float = 120):
    """End the run as its collector does; its state when it has its file."""
    parts = [writers[at : at + 2000] for at in range(0, len(writers), 2000)] or [[]]
    for i, part in enumerate(parts):
        client.send(_client.RUN_WRITERS, run_id=run_id, part=i, parts=len(parts), writers=part)
    return state_of(
        client, _client.RUN_END, lambda state: state.phase >= _client.SEALED, timeout_s,
        run_id=run_id, t_end_ns=time.time_ns(), writer_parts=len(parts),
    )  # fmt: skip


def foreign(directory: pathlib.Path) -> dict[pathlib.Path, tuple]:
    """Things of a stranger in a spool, some of them under the names of segments."""

    def segment(digit: str) -> pathlib.Path:
        return directory / f"sp-{digit * 32}-{1:016x}"

    (directory / "core").write_bytes(b"\0" * 10_000)
    (directory / "analysis.root").write_bytes(b"root" + b"\1" * 500)
    segment("a").write_bytes(b"not a record at all " * 40)
    segment("b").mkdir()
    (segment("b") / "inside").write_text("of a stranger")
    segment("c").symlink_to(directory / "core")
    os.mkfifo(segment("d"))
    paths = [directory / "core", directory / "analysis.root", *map(segment, "abcd")]
    return {path: looks(path) for path in [*paths, segment("b") / "inside"]}


def looks(path: pathlib.Path) -> tuple:
    is_file = path.is_file() and not path.is_symlink()
    seen = path.lstat()
    size = seen.st_size if is_file else 0
    return seen.st_ino, seen.st_mode, seen.st_uid, size, path.read_bytes() if is_file else b""


def must_be_as_before(strangers: dict[pathlib.Path, tuple]) -> None:
    assert {path: looks(path) for path in strangers} == strangers


def ledgers(pipeline: Pipeline) -> dict[bytes, int]:
    """Stream -> last number that its writer knows to be written."""
    read = [LEDGER.unpack(path.read_bytes()) for path in pipeline.ledger.glob("*.ledger")]
    return {stream_id: recorded for stream_id, recorded, _, _ in read}


def rows_by_stream(path: pathlib.Path) -> dict[bytes, list[int]]:
    """Numbers of the records of `/custom`, by stream."""
    found: dict[bytes, list[int]] = {}
    with h5py.File(path) as file:
        uuids = [uuid.UUID(text.decode()).bytes for text in file["dict/stream"]["uuid"]]
        for row in file["custom"][:]:
            found.setdefault(uuids[row["stream_id"]], []).append(int(row["seq"]))
    return found


def serving(standing: list) -> list:
    return [agent for agent in standing if "event=serving" in agent.log.read_text()]


@pytest.mark.slow
def test_heirs_of_a_killed_agent_deliver_what_it_held_once(pipelines, agents):
    """Promised: one agent serves a directory by a lock; others that wrap a worker stand by, and who takes the lock adopts all
    streams there (architecture.md, "Spool directory"). Each record that was written reaches the journal exactly once, and is freed
    only when it is durable; killing any process changes nothing of that (protocol.md, "What is guaranteed"). The end of a writer
    that died is written for it, and the verdict names it (architecture.md, "Identity")."""
    pipeline = pipelines(spools=0)
    pipeline.spools = [spool := pipeline.make("spool")]
    strangers = foreign(spool)
    options = ("--spool", spool, "--aggregator", pipeline.endpoint, *pipeline.agent_options)
    first = agents(*options, "--", *COMMAND)
    first.must_log("serving")
    heirs = [agents(*options, "--", *COMMAND) for _ in range(2)]
    for heir in heirs:
        heir.must_log("standing_by")
    with client_of(pipeline) as client:
        run_id = opened(pipeline, client)
        doomed = pipeline.start_writer(spool, 400)
        pipeline.start_writer(spool, 400)
        tail = Tail(pipeline)
        wait_for(lambda: tail.records() > 100, what="delivery by the first agent")
        pipeline.aggregator.kill(restart=False)
        before = recorded(pipeline)
        wait_for(lambda: recorded(pipeline) > before + 400, what="records that nobody has taken")
        pipeline.kill_writer(doomed)
        first.must_end(signal.SIGKILL)
        wait_for(lambda: serving(heirs), what="an heir")
        (second,) = serving(heirs)
        (third,) = [heir for heir in heirs if heir is not second]
        assert third.process.poll() is None
        delivered = tail.records()
        pipeline.aggregator.start()
        wait_for(
            lambda: tail.records() > delivered + 50, what="delivery by the heir", pause_s=0.001
        )
        second.must_end(signal.SIGKILL)
        third.must_log("serving")
        books = must_have_kept_everything(pipeline)
        assert books.streams == 2
        state = sealed(client, run_id, [])
    with nothing_lost_or_twice():
        rows = rows_by_stream(pathlib.Path(state.path))
        assert rows.keys() == ledgers(pipeline).keys()
        for stream, last in ledgers(pipeline).items():
            assert len(rows[stream]) == len(set(rows[stream])), "a record is there twice"
            assert max(rows[stream]) - last in (0, 1)  # a killed writer had no time to count it
            assert sorted(rows[stream]) == list(range(min(rows[stream]), max(rows[stream]) + 1))
    assert state.verdict == "PARTIAL"
    assert [reason.code for reason in state.reasons] == ["writer_killed"], state.reasons
    must_be_as_before(strangers)
    assert "count=6" in third.must_log("foreign_files")


def test_spools_of_one_tree_are_of_their_own_agents(pipelines, agents):
    """Promised: one agent serves one spool directory (architecture.md, "Spool directory"), its id identifies this spool, and the next
    agent that serves the spool delivers what is left in it. So an agent of the directory above, or beside, takes nothing of it."""
    pipeline = pipelines(spools=0)
    tree = pipeline.make("tree")
    pipeline.spools = spools = [tree, tree / "node1", tree / "node2"]
    for spool in spools[1:]:
        spool.mkdir(mode=0o700)
    strangers = foreign(tree / "node1")

    def start(spool: pathlib.Path):
        return agents("--spool", spool, "--aggregator", pipeline.endpoint, *pipeline.agent_options)

    above, killed, beside = started = [start(spool) for spool in spools]
    for agent in started:
        agent.must_log("serving")
    for spool in spools:
        pipeline.start_writer(spool, 300)
    tail = Tail(pipeline)
    wait_for(lambda: tail.records() > 100, what="delivery")
    killed.must_end(signal.SIGKILL)
    mine = [path for path in spools[1].glob("sp-*") if path not in strangers]
    held = {path: path.stat().st_size for path in mine}
    before = recorded(pipeline)
    wait_for(lambda: recorded(pipeline) > before + 600, what="records that nobody delivers")
    pipeline.stop_writers()

    def of_the_others() -> list[str]:
        return [
            name for name in pipeline.held()
            if not any(name.split("-")[1] in path.name for path in held)
        ]  # fmt: skip

    wait_for(lambda: not of_the_others(), 30, "delivery of the other two")
    for path, size in held.items():
        assert path.stat().st_size >= size, "somebody else took from the spool of the killed one"
    assert (above.process.poll(), beside.process.poll()) == (None, None)
    heir = start(spools[1])
    heir.must_log("serving")
    books = must_have_kept_everything(pipeline)
    assert books.streams == 3
    must_be_as_before(strangers)
    assert "count=6" in heir.must_log("foreign_files")
    assert len({(spool / "agent_id").read_bytes() for spool in spools}) == 3


def is_whole(path: pathlib.Path, streams: set[str], records: int) -> None:
    """Each of these streams is in the file, to its end, with as many records."""
    with h5py.File(path) as file:
        rows = file["dict/stream"][:]
        uuids = {row["id"]: uuid.UUID(row["uuid"].decode()).hex for row in rows}
        whole = {
            uuids[row["stream_id"]]: (int(row["expected"]), int(row["received"]), int(row["lost"]), int(row["closed"]))
            for row in file["summary/completeness"][:]
        }  # fmt: skip
        assert len(file["gaps"]) == 0
    assert streams <= whole.keys(), f"{len(streams - whole.keys())} streams are missing"
    odd = {name: whole[name] for name in streams if whole[name] != (records, records, 0, 1)}
    assert not odd, (len(odd), *list(odd.items())[:3])


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason=missing.OTHER_USERS)
@pytest.mark.parametrize(("owner", "n"), [(STRANGER, 5000), (-1, 17_000)], ids=["other", "own"])
def test_streams_beyond_the_places_of_an_agent_wait_and_arrive_once(pipelines, agents, owner, n):
    """Promised: an agent has places for 16,384 streams, 4,096 of each user but its own; further ones wait until one has left
    (limits.md), with nothing lost. It is killed in the middle, and has an heir."""
    records = 4
    pipeline = pipelines(spools=0)
    spool = pipeline.make("spool")
    options = ("--spool", spool, "--aggregator", pipeline.endpoint, *pipeline.agent_options)
    with client_of(pipeline) as client:
        run_id = opened(pipeline, client)
        pipeline.aggregator.kill(restart=False)
        names = [write_stream(spool, run_id, records) for _ in range(n)]
        for name in names:
            os.chown(spool / f"sp-{name}-{1:016x}", owner, -1)
        first = agents(*options)
        first.must_log("serving")
        wait_for(lambda: "waits until others leave" in first.log.read_text(), 30, "a full spool")
        own = write_stream(spool, run_id, records)
        tail = Tail(pipeline)
        pipeline.aggregator.start()
        wait_for(lambda: tail.records() > 1000 * records, 60, "delivery", 0.001)
        first.must_end(signal.SIGKILL)
        left = len(list(spool.glob("sp-*")))
        print(f"{left} segments were left by the killed agent")
        heir = agents(*options)
        heir.must_log("serving")

        def gone() -> bool:
            return not {*names, own} & agent_kit.streams(spool)

        wait_for(gone, 90, "delivery of all streams", 0.2)
        listed = [
            {"stream_id": bytes.fromhex(name), "last": records, "kind": 0, "state": 1, "name": "w"}
            for name in (*names, own)
        ]
        state = sealed(client, run_id, listed)
    with nothing_lost_or_twice():
        is_whole(pathlib.Path(state.path), {*names, own}, records)
    print(state.verdict, [reason.code for reason in state.reasons])
    assert state.verdict == "COMPLETE", state.reasons
    checked = subprocess.run(
        [pipeline.bin("crema-sink"), "check", state.path], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
