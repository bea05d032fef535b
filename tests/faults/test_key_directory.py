"""The directory of admitted keys changes while servers run: files come, go, and change their content below connections that live."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import time
import uuid

import pytest
import zmq

import crema
import facility_kit
from children import Child
from crema.collect import _client
from crema.collect._keys import server_key
from crema.hook._records import MESSAGES
from facility_kit import (
    HELLO,
    OTHER_KEY,
    WELCOME,
    AgentKeys,
    Facility,
    Recorder,
    Thief,
    state_of,
)
from losses import nothing_lost_or_twice
from paths import BIN
from waiting import wait_for

users = facility_kit.users  # fixture
pytestmark = pytest.mark.timeout(200)
UNKNOWN_RUN = 1
LENT = 16_384  # keys of one key's runs


@pytest.fixture
def facility(tmp_path):
    made = Facility(tmp_path)
    yield made
    made.stop()


def says(facility: Facility, event: str, program: str = "crema-aggregator") -> list[str]:
    log = facility.log(program).splitlines()
    return [line for line in log if f" event={event} " in line or line.endswith(f"event={event}")]


def hang_up(facility: Facility) -> None:
    facility.processes["crema-aggregator"].send_signal(signal.SIGHUP)


def written(recorder: Recorder, n: int) -> None:
    """So many more records of it."""
    for _ in range(n):
        entry = {"kind": 1, "id": written.ids, "text": f"name-{written.ids}"}
        recorder.writer.append(2, MESSAGES["Dict"](entries=[entry]).SerializeToString())
        written.ids += 1


written.ids = 0


def committed(client, run_id: bytes, n: int):
    return state_of(client, _client.RUN_QUERY, lambda state: state.committed >= n, run_id=run_id)


def listed(recorder: Recorder, last: int) -> dict:
    return {
        "stream_id": recorder.writer.stream_id, "last": last, "kind": 0, "state": 1, "name": "w"
    }  # fmt: skip


def ended(client, run_id: bytes, writers: list[dict], timeout_s: float = 60):
    client.send(_client.RUN_WRITERS, run_id=run_id, part=0, parts=1, writers=writers)
    return state_of(
        client, _client.RUN_END, lambda state: state.phase >= _client.SEALED, timeout_s,
        run_id=run_id, t_start_ns=1, t_end_ns=2, writer_parts=1,
    )  # fmt: skip


@pytest.mark.parametrize("hup", [True, False], ids=["hup", "quiet"])
def test_key_whose_file_is_added_is_admitted_by_servers_that_run(facility, users, hup):
    """Promised: the files in `keys/server` determine which keys are admitted; the servers notice when one is added, and check at once
    at SIGHUP (keys.md). Here the file comes as on another host, where the directory is a copy."""
    facility.run("crema-aggregator", "--add-key", "carol", "--keys", facility.keys)
    file = facility.keys / "server" / "client.carol.key"
    aside = facility.directory / "aside.key"
    file.rename(aside)
    alice, of_alice = users("alice")
    shutil.copy(aside, file.with_name(".part"))
    file.with_name(".part").rename(file)
    if hup:
        hang_up(facility)
    _, of_carol = users("carol")
    refused = state_of(alice, _client.RUN_QUERY, run_id=of_carol)
    assert refused.refusal == OTHER_KEY
    assert state_of(alice, _client.RUN_QUERY, run_id=of_alice).phase == _client.OPEN


@pytest.mark.parametrize("how", ["renamed", "in place"])
def test_key_that_takes_the_place_of_another_under_its_name(facility, users, how):
    """Promised: the files ROLE.NAME.key determine which keys are admitted, and a key that is not listed is not (attacks.md). A run
    belongs to the key that opened it; no other can read, join or end it. A revoked key is fenced within 2 s and its open runs end
    PARTIAL, `key_revoked` (keys.md)."""
    alice, run_id = users("alice")
    bob, of_bob = users("bob")
    facility.run("crema-aggregator", "--add-key", "spare", "--keys", facility.keys)
    server, mine = facility.keys / "server", facility.keys / "client-alice"
    spare = server / "client.spare.key"
    old_directory = mine.rename(facility.keys / "client-old")
    (facility.keys / "client-spare").rename(mine)
    if how == "renamed":
        spare.rename(server / "client.alice.key")
    else:
        (server / "client.alice.key").write_text(spare.read_text())
        spare.unlink()
    hang_up(facility)
    wait_for(lambda: "name=alice" in "".join(says(facility, "key_revoked")), 30, "a revoked key")
    alice.send(_client.RUN_QUERY, run_id=run_id)
    assert not list(alice.states(run_id, 0.5)), "the connection of the old key is still heard"
    path = facility.directory / f"{uuid.UUID(bytes=run_id)}.h5"
    wait_for(path.exists, 30, "the file of the run of the old key")
    with crema.open(path) as run:
        assert run.verdict == "PARTIAL"
        assert "key_revoked" in run.attributes["verdict_reasons"]
    new, of_new = users("alice")
    assert state_of(new, _client.RUN_QUERY, run_id=of_new).phase == _client.OPEN
    other = state_of(new, _client.RUN_QUERY, run_id=run_id)
    assert (other.refusal, other.path) == (OTHER_KEY, "")
    with contextlib.closing(_client.AggregatorClient(facility.aggregator, old_directory)) as old:
        again = os.urandom(16)
        assert not old.send(_client.RUN_OPEN, run_id=again, t_start_ns=1) or not list(
            old.states(again, 2)
        )
    assert state_of(bob, _client.RUN_QUERY, run_id=of_bob).phase == _client.OPEN
    (said,) = [line for line in says(facility, "key_revoked") if "name=alice" in line]
    assert "role=client" in said


def start_agent(facility: Facility, spool: pathlib.Path, keys: pathlib.Path, n: int) -> Child:
    with (facility.directory / f"agent-{n}.log").open("w") as log:
        return Child(
            [BIN / "crema-agent", "--spool", spool, "--aggregator", facility.aggregator,
             "--keys", keys, "--heartbeat-interval", "200ms"],
            stdout=log, stderr=log,
        )  # fmt: skip


@pytest.mark.slow
def test_key_of_agents_that_is_removed_while_they_deliver(facility, users, tmp_path):
    """Promised: a revoked key's connections are answered with FENCE PRINCIPAL within 2 s; the sessions of its agents end and may be
    continued with another key; an agent that gets that answer exits, status 3, and its records stay in its spool (protocol.md; --help).
    One line for the key, by name (attacks.md), though two agents have it. Nothing is lost or twice (protocol.md)."""
    for name in ("worker", "other"):
        facility.run(
            "crema-aggregator", "--keys", facility.keys, "--key-role", "agent", "--add-key", name
        )
    hang_up(facility)
    client, run_id = users("bob")
    spools = [tmp_path / name for name in ("spool-0", "spool-1")]
    for spool in spools:
        spool.mkdir(mode=0o700)
    recorders = [Recorder(spool, run_id) for spool in spools]
    agents = [
        start_agent(facility, spool, facility.keys / "agent-worker", n)
        for n, spool in enumerate(spools)
    ]
    for recorder in recorders:
        written(recorder, 20)
    committed(client, run_id, 2 * 21)
    facility.run(
        "crema-aggregator", "--keys", facility.keys, "--key-role", "agent",
        "--revoke-key", "worker",
    )  # fmt: skip
    for agent in agents:
        assert agent.wait(20) == 3
    for recorder in recorders:
        written(recorder, 30)
        recorder.writer.close()
    assert all(any(spool.glob("sp-*")) for spool in spools)
    late = start_agent(facility, spools[0], facility.keys / "agent-worker", 2)
    wait_for(lambda: "key_refused" in (tmp_path / "agent-2.log").read_text(), 20, "a refusal")
    late.terminate()
    late.wait(20)
    assert state_of(client, _client.RUN_QUERY, run_id=run_id).committed < 2 * 52
    heirs = [
        start_agent(facility, spool, facility.keys / "agent-other", 3 + n)
        for n, spool in enumerate(spools)
    ]
    committed(client, run_id, 2 * 52)
    state = ended(client, run_id, [listed(recorder, 52) for recorder in recorders])
    with nothing_lost_or_twice():
        assert state.verdict == "COMPLETE", state.reasons
        with crema.open(state.path) as run:
            rows = [row for row in run.rows("summary/completeness") if row.expected == 52]
            assert [(row.received, row.lost) for row in rows] == [(52, 0)] * 2
    for heir in heirs:
        heir.terminate()
        assert heir.wait(20) == 0
    said = [line for line in says(facility, "key_revoked") if "name=worker" in line]
    assert len(said) == 1 and "role=agent" in said[0], said


def test_uid_of_a_key_changes_without_an_end_of_its_runs(facility, users, tmp_path):
    """Promised: to change a uid, edit `uid` in `keys/server/client.alice.key` and send the aggregator SIGHUP; records of another user are
    passed over, counted and logged, `stream_refused` (keys.md). The key is the same, so nothing of it is revoked; what lies in the spool
    is not lost."""
    me = os.geteuid()
    facility.run(
        "crema-aggregator", "--add-key", "carol", "--keys", facility.keys, "--key-uid", me + 1
    )
    hang_up(facility)
    client, run_id = users("carol")
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    recorder = Recorder(spool, run_id)
    agent = start_agent(facility, spool, facility.keys / "agent", 0)
    written(recorder, 10)
    wait_for(lambda: says(facility, "stream_refused"), 20, "a stream that is refused")
    assert state_of(client, _client.RUN_QUERY, run_id=run_id).committed == 0
    file = facility.keys / "server" / "client.carol.key"
    text = file.read_text()
    assert len(re.findall(rf'uid = "?{me + 1}"?', text)) == 1, text
    file.write_text(re.sub(rf'(uid = "?){me + 1}', rf"\g<1>{me}", text))
    hang_up(facility)
    committed(client, run_id, 11)
    recorder.writer.close()
    state = ended(client, run_id, [listed(recorder, 12)])
    assert state.verdict == "COMPLETE", state.reasons
    assert not says(facility, "key_revoked")
    agent.terminate()
    assert agent.wait(20) == 0


def test_key_of_the_aggregator_that_is_removed_for_a_while_costs_nothing(facility, users, tmp_path):
    """Promised: the servers, so the sink too, notice when a file is removed or added (keys.md); a key that is not listed is not admitted,
    and a revoked one is refused within 2 s (attacks.md); a record that was written arrives once, whatever ends (protocol.md). A program
    that ended is started again by its supervisor (operation.md)."""
    client, run_id = users("bob")
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    recorder = Recorder(spool, run_id)
    agent = start_agent(facility, spool, facility.keys / "agent", 0)
    written(recorder, 10)
    committed(client, run_id, 11)
    (file,) = (facility.keys / "server").glob("aggregator.*key")
    aside = file.rename(facility.directory / "aside.key")
    wait_for(lambda: says(facility, "refused_by_sink"), 30, "an aggregator that is refused")
    written(recorder, 20)
    assert state_of(client, _client.RUN_QUERY, run_id=run_id).committed == 11
    aside.rename(file)
    facility.processes["crema-sink"].send_signal(signal.SIGHUP)
    committed(client, run_id, 31)
    recorder.writer.close()
    state = ended(client, run_id, [listed(recorder, 32)])
    assert state.verdict == "COMPLETE", state.reasons
    said = says(facility, "key_revoked", "crema-sink") + says(facility, "key_revoked")
    assert len(said) == 1 and "role=aggregator" in said[0], said
    agent.terminate()
    assert agent.wait(20) == 0


# ---------------------------------------------------------------- keys that runs lend


def lend(client, run_id: bytes, keys: list[bytes]) -> None:
    """Each key with a question about its run, as the collector does it."""
    for n, key in enumerate(keys):
        while not client.send(_client.RUN_QUERY, run_id=run_id, agent_key=key):
            list(client.states(run_id, 0.05))
        if n % 64 == 63:
            list(client.states(run_id, 0.001))
    state_of(client, _client.RUN_QUERY, run_id=run_id)


class Pair:
    """A pair of keys with which an agent of some run could come."""

    def __init__(self, facility: Facility, name: str):
        self.facility, self.directory = facility, facility.directory / name
        pair = AgentKeys.fresh(server_key(facility.keys))
        self.public = pair.public
        self.directory.mkdir(mode=0o700)
        for file, text in pair.files.items():
            (self.directory / file).write_text(text)
            (self.directory / file).chmod(0o600)

    def is_admitted(self, run_id: bytes, timeout_s: float) -> bool:
        """An agent with it gets WELCOME."""
        thief = Thief(self.facility.aggregator, self.directory, "agent")
        thief.socket.sndtimeo = 200
        deadline = time.monotonic() + timeout_s
        try:
            while time.monotonic() < deadline:
                hello = MESSAGES["Hello"](
                    agent_id=os.urandom(16), boot=1, ver_min=2, ver_max=2, host="h", run_id=run_id
                )
                with contextlib.suppress(zmq.Again):  # not connected
                    thief.say(HELLO, hello)
                while thief.socket.poll(300):
                    if thief.socket.recv()[5] == WELCOME:
                        return True
            return False
        finally:
            thief.close()


@pytest.mark.slow
def test_lent_keys_that_fill_their_places_take_none_of_a_run_that_goes_on(facility, users):
    """Promised: a client's key has agents admitted for its own runs, up to 16,384 at a time; for one more its oldest finished run is
    forgotten, never one that goes on; if none is finished, the new key is refused and logged (attacks.md). Others notice nothing."""
    first, late, of_other = (Pair(facility, name) for name in ("first", "late", "of-other"))
    alice, done = users("alice")
    lend(alice, done, [os.urandom(32) for _ in range(100)])
    assert ended(alice, done, []).phase == _client.SEALED
    _, going_on = users("alice")
    lend(alice, going_on, [first.public])
    assert first.is_admitted(going_on, 15)
    lend(alice, going_on, [os.urandom(32) for _ in range(LENT - 101)])
    assert state_of(alice, _client.RUN_QUERY, run_id=done).refusal == 0, "forgotten too early"
    lend(alice, going_on, [os.urandom(32)])  # takes the places of the run that is over
    forgotten = state_of(alice, _client.RUN_QUERY, run_id=done)
    assert forgotten.refusal == UNKNOWN_RUN
    path = facility.directory / f"{uuid.UUID(bytes=done)}.h5"
    assert path.exists(), "its file is another matter"
    before = facility.log("crema-aggregator")
    lend(alice, going_on, [os.urandom(32) for _ in range(99)])  # now all places are taken
    assert facility.log("crema-aggregator") == before
    lend(alice, going_on, [late.public])
    added = wait_for(
        lambda: facility.log("crema-aggregator")[len(before) :], 10, "a line about the key"
    )
    print(added)
    assert not late.is_admitted(going_on, 3)
    assert first.is_admitted(going_on, 15), "a key of a run that goes on was displaced"
    bob, of_bob = users("bob")
    lend(bob, of_bob, [of_other.public])
    assert of_other.is_admitted(of_bob, 15)
    assert state_of(alice, _client.RUN_QUERY, run_id=going_on).phase == _client.OPEN
