"""The scheduler plugin: who was there, what was lost, and that it never stays behind."""

from __future__ import annotations

import time

import pytest
from distributed import Client

import hook_support as support
import spool_reader
from clusters import LocalCluster
from crema.hook import _records, scheduler
from crema.hook.scheduler import SchedulerHook


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster) as client:
        yield client


def only_stream(settings) -> spool_reader.Stream:
    (stream,) = spool_reader.read(settings.spool_dir())
    return stream


def test_workers_come_and_go(cluster, client, tmp_path):
    settings = support.config(tmp_path)
    hook = SchedulerHook(settings)
    client.register_plugin(hook)
    cluster.scale(3)
    client.wait_for_workers(3)
    retired = sorted(client.scheduler_info()["workers"])[0]
    client.retire_workers([retired])
    deadline = time.monotonic() + 10
    while retired in client.scheduler_info()["workers"] and time.monotonic() < deadline:
        time.sleep(0.05)
    client.submit(support.spin, 0.5).result()
    client.run_on_scheduler(scheduler.end, settings.run_id)
    stream = only_stream(settings)
    assert stream.end is not None and not stream.locked, "close() is done when it returns"
    client.unregister_scheduler_plugin(hook.name)
    assert stream.info.kind == _records.KIND_SCHEDULER
    assert stream.info.worker_name == client.scheduler.address and stream.info.worker_uuid == ""
    rows = stream.table("membership")
    seen = list(zip(rows.event, rows.evidence, strict=True))
    assert seen[:2] == [("join", "run_boundary")] * 2
    assert ("join", "explicit") in seen and ("retire", "explicit") in seen
    left = len(client.scheduler_info()["workers"])
    assert seen[-left:] == [("leave", "run_boundary")] * left
    assert rows[rows.event == "retire"].worker.tolist() == [retired]
    assert set(rows.nthreads) == {1} and (rows.memory_limit_b > 0).all()
    entries = [e for (kind, _), e in stream.names.items() if kind == "worker"]
    assert len({e.uuid for e in entries}) == 3 and all(e.pid > 0 for e in entries)
    samples = stream.table("worker_samples")
    assert set(samples.source) == {"scheduler"} and samples.processing.max() >= 1
    assert (samples.rss_b > 1e7).all() and samples.occupancy_s.max() > 0


def test_a_hook_that_was_only_unregistered_ends_its_stream(client, tmp_path):
    settings = support.config(tmp_path, sample_interval_s=0.1)
    hook = SchedulerHook(settings)
    client.register_plugin(hook)
    client.unregister_scheduler_plugin(hook.name)
    deadline = time.monotonic() + 5
    while only_stream(settings).end is None and time.monotonic() < deadline:
        time.sleep(0.05)
    stream = only_stream(settings)
    assert stream.end is not None and len(stream.table("membership")) >= 2


def test_a_spool_that_cannot_be_written_stops_no_scheduler(client, tmp_path):
    settings = support.config(tmp_path)
    settings.spool_dir().write_text("in the way")
    hook = SchedulerHook(settings)
    client.register_plugin(hook)
    assert client.submit(sum, [1, 2]).result() == 3
    client.unregister_scheduler_plugin(hook.name)


def test_more_workers_than_a_tick_takes_get_their_turn(cluster, client, tmp_path, monkeypatch):
    """The scheduler of a LocalCluster runs in this process."""
    monkeypatch.setattr(scheduler, "_SAMPLED_A_TICK", 1)
    settings = support.config(tmp_path, sample_interval_s=0.05)
    client.register_plugin(SchedulerHook(settings))
    time.sleep(0.6)
    client.run_on_scheduler(scheduler.end, settings.run_id)
    client.unregister_scheduler_plugin(f"crema-{settings.run_id}")
    samples = only_stream(settings).table("worker_samples")
    assert set(samples.worker) == set(client.scheduler_info()["workers"])
    assert samples.groupby("t_ns").size().iloc[:-1].max() == 1


def test_closing_the_cluster_ends_the_stream(tmp_path):
    settings = support.config(tmp_path)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(SchedulerHook(settings))
    stream = only_stream(settings)
    assert stream.end is not None
    assert stream.table("membership").event.tolist()[0] == "join"
