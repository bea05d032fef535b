"""Who is asked when the block is entered and left: each worker once, by the scheduler's plugin where that is possible."""

from __future__ import annotations

import collections
import functools

import pytest
from distributed import Client, Scheduler, Worker, core
from distributed import scheduler as dask_scheduler

import crema
from crema.hook import _messages, scheduler, worker


@pytest.fixture
def client(client_here):
    return client_here


@pytest.fixture
def asked(monkeypatch) -> collections.Counter:
    """Messages of the scheduler to workers, by operation, those that it awaits no answer to, and events of workers about runs."""
    found: collections.Counter = collections.Counter()
    send_recv, log_event = core.send_recv, Worker.log_event

    async def counted(comm, *, op, **options):
        if op in ("run", "crema_end", "plugin-add", "plugin-remove"):
            found[op] += 1
            found["unanswered"] += not options.get("reply", True)
        return await send_recv(comm, op=op, **options)

    def logged(worker, topic, msg):
        found["event"] += "crema" in topic
        log_event(worker, topic, msg)

    for module in (core, dask_scheduler):
        monkeypatch.setattr(module, "send_recv", counted)
    monkeypatch.setattr(Worker, "log_event", logged)
    return found


def run(client: Client, tmp_path) -> crema.MetricsCollector:
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        assert client.submit(sum, [1, 2], pure=False).result() == 3
    return mc


def test_each_worker_is_asked_once_on_entering_and_twice_on_leaving(client, asked, tmp_path):
    """The one event is that of the worker that has started its host's agent; it may come before or after the scheduler's own."""
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert asked.pop("event", 0) <= 1
    assert asked == {"run": 2, "crema_end": 2, "plugin-remove": 2, "unanswered": 2}


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
    del asked["event"]
    assert asked == {"run": 3, "crema_end": 1, "plugin-remove": 2, "unanswered": 2}


def test_where_the_scheduler_has_an_earlier_version_the_client_asks(
    client, asked, tmp_path, monkeypatch
):
    monkeypatch.delattr(scheduler, "stop")
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    del asked["event"]
    assert asked == {"run": 4, "plugin-remove": 2, "unanswered": 2}


LEFT = "inproc://192.0.2.1/1/1"


def to_one_that_left(monkeypatch, operation: str) -> None:
    """Let an operation go to an address besides where no worker is any more."""
    broadcast, send = Scheduler.broadcast, _messages._send

    async def with_it(self, *, msg, workers=None, **options):
        workers = list(self.workers if workers is None else workers)
        return await broadcast(self, msg=msg, workers=[*workers, LEFT], **options)

    async def send_to_it(scheduler, worker, message, reply):
        if message["op"] == operation:
            assert await send(scheduler, LEFT, message, reply) is None
        return await send(scheduler, worker, message, reply)

    if operation == "run":
        monkeypatch.setattr(Scheduler, "broadcast", with_it)
    monkeypatch.setattr(_messages, "_send", send_to_it)


@pytest.mark.parametrize("operation", ["run", "crema_end", "plugin-remove"])
def test_a_worker_that_leaves_meanwhile_takes_nobody_with_it(
    client, operation, tmp_path, monkeypatch
):
    """Dask's own functions to register a plugin and to take it back fail if one worker cannot be asked."""
    to_one_that_left(monkeypatch, operation)
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    dask = client.cluster.scheduler
    assert not [n for n in (*dask.plugins, *dask.worker_plugins) if str(n).startswith("crema")]


def test_a_worker_that_joins_while_the_run_ends_is_not_in_its_list(client, tmp_path, monkeypatch):
    ask, joined = _messages.ask, []

    async def with_one_that_joins(scheduler, workers, **message):
        if not joined:
            joined.append(await Worker(scheduler.address, nthreads=1, dashboard=False))
        return await ask(scheduler, workers, **message)

    monkeypatch.setattr(_messages, "ask", with_one_that_joins)
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    names = {writer["name"] for part in mc._parts for writer in part["writers"]}
    assert joined and joined[0].address not in names
    client.sync(joined[0].close)
