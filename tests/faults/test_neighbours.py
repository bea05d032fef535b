"""Users who share services: what one of them does, or loses, neither delays nor spoils the run of another."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from crema.collect import _client
from crema.collect._keys import AgentKeys, server_key
from facility_kit import Facility, Recorder, opened, state_of
from paths import BIN


@pytest.fixture
def facility(tmp_path):
    made = Facility(tmp_path)
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
                subprocess.Popen(
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


@pytest.fixture
def users(facility):
    """Opens runs of users."""
    clients = []

    def start(name: str, **fields):
        client, run_id = opened(facility, name, **fields)
        clients.append(client)
        return client, run_id

    yield start
    for client in clients:
        client.close()


def lent_pair(facility: Facility, directory: pathlib.Path) -> AgentKeys:
    """A pair of keys for a run's own agents, in `directory` as the hook would put it."""
    pair = AgentKeys.fresh(server_key(facility.keys))
    directory.mkdir(mode=0o700)
    for name, text in pair.files.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o600)
    return pair


def records(spool: pathlib.Path, run_id: bytes) -> dict:
    """Write a whole stream of a worker; what its collector lists of it."""
    recorder = Recorder(spool, run_id)
    recorder.writer.close()
    return {"stream_id": recorder.writer.stream_id, "last": 2, "kind": 0, "state": 1, "name": "w"}


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
    assert state.verdict == "COMPLETE", state
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
    agent = agents(tmp_path / "spool-b", "--heartbeat-interval", "500ms")
    writers = [records(tmp_path / "spool-b", of_bob)]
    delivered(bob, of_bob)
    agent.kill()
    state = ends(bob, of_bob, writers, 120)
    assert state.verdict == "PARTIAL"
    assert [reason.code for reason in state.reasons] == ["agent_lost"]
