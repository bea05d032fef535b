"""A client, or a whole cluster, that is closed inside the block: the collector asks by a client of its own, or says that nobody answers."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from distributed import Client, Scheduler

import crema
from clusters import LocalCluster
from crema.collect import _cluster, _host_agent, _reach
from crema.hook import _agent, scheduler
from crema.hook.scheduler import CLIENT_AGAIN
from run_traces import assert_nothing_left

NOWHERE = "tcp://192.0.2.1:9"  # of a network for documentation: records travel over Dask


def small_cluster() -> LocalCluster:
    return LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")


@pytest.mark.parametrize("way", ["direct", "over Dask"])
def test_the_run_is_whole_though_its_client_was_closed(way, tmp_path, capfd, monkeypatch):
    if way == "over Dask":
        monkeypatch.setattr(_reach.Plan, "endpoints", lambda plan, bound: NOWHERE)
    with small_cluster() as cluster, Client(cluster) as client:
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            assert client.submit(sum, [1, 2]).result() == 3
            client.close()
            began = time.monotonic()
        took_s = time.monotonic() - began
        assert_nothing_left(mc)
        with Client(cluster) as another:
            assert another.submit(sum, [1, 2]).result() == 3
            assert not [n for n in cluster.scheduler.clients if CLIENT_AGAIN in n]
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert took_s < 45, (
        "only the scheduler's plugin has ended it, a minute after its client was gone"
    )
    assert "NoneType" not in capfd.readouterr().err


def test_an_agent_may_announce_its_key_after_that(tmp_path, monkeypatch):
    asked, log_event = threading.Event(), Scheduler.log_event

    def log_late(scheduler: Scheduler, topic: Any, msg: Any) -> None:
        def wait() -> None:
            asked.wait(20)
            time.sleep(0.5)
            scheduler.loop.add_callback(log_event, scheduler, topic, msg)

        if str(topic).startswith(_agent.key_topic("")):
            threading.Thread(target=wait, daemon=True).start()
        else:
            log_event(scheduler, topic, msg)

    def read_events(client: Client, topic: str, ask: Any) -> list[Any]:
        found = events(client, topic, ask)
        asked.set()
        return found

    events = _cluster.events
    monkeypatch.setattr(_host_agent, "public_key", lambda directory: "")  # as of another host
    monkeypatch.setattr(Scheduler, "log_event", log_late)
    monkeypatch.setattr(_cluster, "events", read_events)
    with small_cluster() as cluster, Client(cluster) as client:
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            assert client.submit(sum, [1, 2]).result() == 3
            client.close()
        assert_nothing_left(mc)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


def test_the_key_of_an_agent_on_this_host_needs_no_event(tmp_path, monkeypatch):
    """A cluster that is closed while its agent starts loses the event."""
    log_event = Scheduler.log_event

    def log_others(scheduler: Scheduler, topic: Any, msg: Any) -> None:
        if not str(topic).startswith(_agent.key_topic("")):
            log_event(scheduler, topic, msg)

    monkeypatch.setattr(Scheduler, "log_event", log_others)
    with small_cluster() as cluster, Client(cluster) as client:
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            assert client.submit(sum, [1, 2]).result() == 3
        assert_nothing_left(mc)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


def test_a_cluster_that_was_closed_is_said_to_be(tmp_path, capfd, monkeypatch, caplog):
    monkeypatch.setattr(scheduler, "CLIENT_GONE_S", 0.2)
    with small_cluster() as cluster, Client(cluster) as client:
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            assert client.submit(sum, [1, 2]).result() == 3
            cluster.close()
        assert_nothing_left(mc)
        time.sleep(0.5)
    assert "is gone" not in caplog.text, "its client is there and has ended the run"
    said = capfd.readouterr().err
    assert said.count("crema: the client was closed, and its scheduler does not answer") == 1
    assert "NoneType" not in said
    assert mc.verdict == "PARTIAL"
    assert all("does not answer" in reason["text"] for reason in mc.reasons), mc.reasons
    assert any("joined or left" in reason["subject"] for reason in mc.reasons), mc.reasons


@pytest.mark.filterwarnings("error")
def test_a_client_whose_loop_has_ended_costs_no_warning(tmp_path, capfd):
    with small_cluster() as cluster:
        client = Client(cluster.scheduler_address)
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            client.close()
            cluster.close()
        assert_nothing_left(mc)
    assert mc.verdict == "PARTIAL"
    assert "never awaited" not in capfd.readouterr().err
