"""Who is asked when the block is entered and left: each worker once, by the scheduler's plugin where that is possible."""

from __future__ import annotations

import collections
import functools

import pytest
from distributed import Client, Scheduler, Worker

import crema
from crema.hook import scheduler, worker


@pytest.fixture
def client(client_here):
    return client_here


@pytest.fixture
def asked(monkeypatch) -> collections.Counter:
    """Workers that the scheduler's plugin asks, by operation; those that the client asks are not counted."""
    found: collections.Counter = collections.Counter()
    broadcast = Scheduler.broadcast

    async def counted(self, *, msg, workers=None, **options):
        found[msg["op"]] += len(self.workers if workers is None else workers)
        return await broadcast(self, msg=msg, workers=workers, **options)

    monkeypatch.setattr(Scheduler, "broadcast", counted)
    return found


def run(client: Client, tmp_path) -> crema.MetricsCollector:
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        assert client.submit(sum, [1, 2], pure=False).result() == 3
    return mc


def test_each_worker_is_asked_once_on_entering_and_twice_on_leaving(client, asked, tmp_path):
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert asked == {"run": 2, "crema_end": 2, "plugin-remove": 2}


def test_a_worker_is_not_asked_again_whose_report_is_late(client, tmp_path, monkeypatch):
    """What it answers on entering is its report: the scheduler need not wait for an event, which may come much later."""
    asked: collections.Counter = collections.Counter()

    def count(one: Worker, operation: str) -> None:
        handler = one.handlers[operation]

        @functools.wraps(handler)
        def counted(*args, **kwargs):
            asked[one.address] += 1
            return handler(*args, **kwargs)

        monkeypatch.setitem(one.handlers, operation, counted)

    workers = list(client.cluster.workers.values())
    for one in workers:
        monkeypatch.setattr(one, "log_event", lambda topic, msg: None)
        count(one, "run")
        count(one, "plugin-add")
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        assert asked == {one.address: 1 for one in workers}
        assert client.submit(sum, [1, 2], pure=False).result() == 3
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


def test_a_worker_of_an_earlier_version_is_asked_by_the_client(
    client, asked, tmp_path, monkeypatch
):
    first = next(iter(client.cluster.workers.values()))
    add = worker._add_operation
    monkeypatch.setattr(worker, "_add_operation", lambda one: one is not first and add(one))
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert asked == {"run": 2, "crema_end": 1, "plugin-remove": 2}


def test_where_the_scheduler_has_an_earlier_version_the_client_asks(
    client, asked, tmp_path, monkeypatch
):
    monkeypatch.delattr(scheduler, "stop")
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert asked == {"run": 2, "plugin-remove": 2}


@pytest.mark.parametrize("operation", ["run", "plugin-remove"])
def test_a_worker_that_leaves_meanwhile_takes_nobody_with_it(
    client, operation, tmp_path, monkeypatch
):
    """Dask's own functions to register a plugin and to take it back fail if one worker cannot be asked."""
    broadcast = Scheduler.broadcast

    async def with_one_that_left(self, *, msg, workers=None, **options):
        workers = list(self.workers if workers is None else workers)
        if msg["op"] == operation:
            workers.append("inproc://192.0.2.1/1/1")
        return await broadcast(self, msg=msg, workers=workers, **options)

    monkeypatch.setattr(Scheduler, "broadcast", with_one_that_left)
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    dask = client.cluster.scheduler
    assert not [n for n in (*dask.plugins, *dask.worker_plugins) if str(n).startswith("crema")]


def test_a_worker_that_joins_while_the_run_ends_is_not_in_its_list(client, tmp_path, monkeypatch):
    broadcast = Scheduler.broadcast
    joined = []

    async def with_one_that_joins(self, *, msg, **options):
        if msg["op"] == "crema_end" and not joined:
            from distributed import Worker

            joined.append(await Worker(self.address, nthreads=1, dashboard=False))
        return await broadcast(self, msg=msg, **options)

    monkeypatch.setattr(Scheduler, "broadcast", with_one_that_joins)
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    names = {writer["name"] for part in mc._parts for writer in part["writers"]}
    assert joined and joined[0].address not in names
    client.sync(joined[0].close)
