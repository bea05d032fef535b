"""What an aggregator refuses a client, and how it notices that one is gone."""

from __future__ import annotations

import subprocess
import time

import pytest

import crema
from crema.collect import _alive, _attributes, _client, _service
from crema.hook._programs import program


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    """Starts sink and aggregator with options from the environment; collectors use them."""
    started = []

    def start(**environment):
        for name, value in environment.items():
            monkeypatch.setenv(f"CREMA_{name}", value)
        service = _service.LocalService(_attributes.new_run_id(), tmp_path)
        started.append(service)
        service.start()
        for name in environment:
            monkeypatch.delenv(f"CREMA_{name}")
        monkeypatch.setenv("CREMA_AGGREGATOR", service.endpoint)
        monkeypatch.setenv("CREMA_KEYS", str(service.keys))
        return service

    yield start
    for service in started:
        service.close(sealed=True)


def phase(link, run_id, wanted, within_s):
    """The state of a run once it is in one of the phases, or the last one."""
    state, deadline = None, time.monotonic() + within_s
    while time.monotonic() < deadline:
        link.send(_client.RUN_QUERY, run_id=run_id)
        for state in link.states(run_id, 0.1):
            if state.phase in wanted:
                return state
    return state


def test_a_second_run_beyond_the_clients_share_is_refused_with_a_sentence(pipeline, tmp_path):
    pipeline(RUNS_PER_CLIENT="1")
    with crema.MetricsCollector(output=tmp_path, quiet=True) as first:
        second = crema.MetricsCollector(output=tmp_path, quiet=True, on_error="raise")
        began = time.monotonic()
        with pytest.raises(crema.CremaError, match=r"at most 1 at a time .*--runs-per-client"):
            second.__enter__()
        assert time.monotonic() - began < 5  # not after twenty seconds without an answer
    assert first.verdict == "COMPLETE"
    with crema.MetricsCollector(output=tmp_path, quiet=True) as third:
        pass
    assert third.verdict == "COMPLETE"


def test_an_id_that_is_taken_is_refused(pipeline, tmp_path):
    service = pipeline()
    link = _client.AggregatorClient(service.endpoint, service.keys)
    mc = crema.MetricsCollector(output=tmp_path, quiet=True, on_error="raise")
    deadline = time.monotonic() + 20
    try:
        # Nothing is answered before the sink has said what it holds, so a client repeats itself.
        state = None
        while state is None or state.phase != _client.OPEN:
            assert time.monotonic() < deadline
            link.send(_client.RUN_OPEN, run_id=mc._run_id.bytes, t_start_ns=1)
            state = phase(link, mc._run_id.bytes, (_client.OPEN,), 0.2)
        with pytest.raises(crema.CremaError, match="began at another time"):
            mc.__enter__()
    finally:
        link.close()


def test_a_client_whose_key_was_revoked_says_so(pipeline, tmp_path):
    service = pipeline()
    other = _client.AggregatorClient(service.endpoint, service.keys)
    revoke = [program("crema-aggregator"), "--revoke-key", "default"]
    with crema.MetricsCollector(output=tmp_path, quiet=True, timeout=60) as mc:
        assert phase(other, mc._run_id.bytes, (_client.OPEN,), 5).phase == _client.OPEN
        subprocess.run([*revoke, "--keys", service.run_dir / "keys"], check=True)
        deadline = time.monotonic() + 5
        while not other.fenced:
            assert time.monotonic() < deadline
            phase(other, mc._run_id.bytes, (), 0.2)
        other.close()
        began = time.monotonic()
    assert time.monotonic() - began < 10  # not once nothing has moved for a minute
    assert mc.verdict == "UNKNOWN"
    (reason,) = mc.reasons
    assert f"{service.endpoint} refuses this client: its key" in reason["text"]


def test_a_run_goes_on_while_its_client_gives_signs_of_life(pipeline, monkeypatch):
    monkeypatch.setattr(_alive, "ALIVE_S", 0.2)
    service = pipeline(ABANDON_AFTER="1s")
    run_id = _attributes.new_run_id().bytes
    link = _client.AggregatorClient(service.endpoint, service.keys)
    run_open = {"run_id": run_id, "t_start_ns": 5}
    assert link.send(_client.RUN_OPEN, 10.0, **run_open)
    alive = _alive.SignOfLife(
        signs := _client.AggregatorClient(service.endpoint, service.keys), run_open
    )
    try:
        time.sleep(2.5)  # a query would itself be a sign
        assert phase(link, run_id, (_client.OPEN,), 5).phase == _client.OPEN
        alive.stop()
        time.sleep(2.5)
        assert phase(link, run_id, (_client.BARRIER,), 5).phase == _client.BARRIER
    finally:
        alive.stop()
        signs.close()
        link.close()


def test_a_run_that_meets_its_limit_is_told_while_it_goes_on(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(_alive, "ALIVE_S", 0.3)
    monkeypatch.setenv("CREMA_RUN_LIMIT", "64Ki")
    said = ""
    with crema.MetricsCollector(output=tmp_path, quiet=True, timeout=20) as mc:
        end = time.monotonic() + 20
        while "--run-limit" not in said and time.monotonic() < end:
            for i in range(2000):
                crema.record_metric(f"metric-{i}", 1.5)
            time.sleep(0.1)
            said += capfd.readouterr().err
    assert said.count("crema: this run has reached the sink's limit") == 1
    assert mc.verdict == "PARTIAL"
    assert "records_lost" in [reason["code"] for reason in mc.reasons]


def test_a_full_store_is_told_with_its_remedy(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("CREMA_JOURNAL_LIMIT", "1Mi")
    with crema.MetricsCollector(output=tmp_path, quiet=True, timeout=2) as mc:
        for _ in range(30):
            for i in range(2000):
                crema.record_metric(f"metric-{i}", 1.5)
            time.sleep(0.02)
    assert mc.verdict == "PARTIAL" and mc.path.exists()
    assert "records_missing" in [reason["code"] for reason in mc.reasons]
    said = capfd.readouterr().err
    assert said.count("store is full") == 1
    assert "--journal-limit" in said
