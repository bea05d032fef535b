"""The whole chain of programs: it survives kills, frees what is sealed, keeps its promises to strangers."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import time
import uuid

import pytest

import service_kit
from service_kit import (
    ANY,
    PROGRAMS,
    RUN_END,
    RUN_OPEN,
    RUN_QUERY,
    SEALED,
    Chain,
    Collector,
    Service,
    run,
    run_file,
    sint,
    wait_until_shipped,
    write_stream,
)
from waiting import wait_for

pytestmark = pytest.mark.timeout(120)
services = pytest.fixture(service_kit.services)
sink = pytest.fixture(service_kit.sink)
chain = pytest.fixture(service_kit.chain)


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
    path = run_file(state)
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
    rebuild = ("crema-sink", "rebuild", chain.work / "store" / str(run_id), "--output", again)
    short = run(*rebuild, "--memory", "4Mi")
    assert short.returncode == 1 and "memory" in short.stderr, short
    assert not again.exists()
    rebuilt = run(*rebuild, "--json")
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
    path = run_file(state)
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
    path = run_file(state)
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

    collector = Collector(chain.aggregator_at, run_id.bytes)
    collector.open()
    streams = [write_stream(chain.work / "spool", run_id.bytes, 100)]
    wait_for(shown, 30, "a live file")
    first, before = viewer_of(chain.running["crema-sink"]), shown()
    os.kill(first, signal.SIGKILL)
    streams.append(write_stream(chain.work / "spool", run_id.bytes, 200))
    wait_until_shipped(chain, streams)
    wait_for(
        lambda: viewer_of(chain.running["crema-sink"]) not in (None, first), 30, "a new process"
    )
    wait_for(lambda: shown() >= before, 30, "all rows")
    state = collector.end()
    collector.close()
    assert state[9] == [b"COMPLETE"], state
    wait_for(lambda: not live.exists(), 30, "its removal")
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


def test_a_chain_with_keys_works_and_hears_no_strangers(services, tmp_path):
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


@pytest.mark.parametrize(
    "retention", [("--retain", "1s"), pytest.param(("--retain-bytes", "1"), marks=pytest.mark.slow)]
)
def test_journals_of_sealed_runs_are_freed_in_time(services, tmp_path, retention):
    chain = Chain(services, tmp_path, sink_options=retention)
    run_id = uuid.uuid4()
    collector = Collector(chain.aggregator_at, run_id.bytes)
    collector.open()
    wait_until_shipped(chain, [write_stream(chain.work / "spool", run_id.bytes, 100)])
    sealed = run_file(collector.end())
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
    refused = chain.work / "store" / "refused"
    wait_for(lambda: refused.exists() and refused.stat().st_size == 80, 60, "one stream refused")
    time.sleep(2)
    assert not journal.exists()
    assert sealed.read_bytes() == before
    assert refused.stat().st_size == 80
    collector.close()


@pytest.mark.slow
def test_a_sealed_run_whose_journal_cannot_be_read_stops_nobody_else(chain):
    sealed, other = uuid.uuid4(), uuid.uuid4()
    collector = Collector(chain.aggregator_at, sealed.bytes)
    collector.open()
    wait_until_shipped(chain, [write_stream(chain.work / "spool", sealed.bytes, 100)])
    output = run_file(collector.end())
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
