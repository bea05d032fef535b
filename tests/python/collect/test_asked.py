"""Who is asked when the block is entered and left: each worker once, by the scheduler's plugin where that is possible."""

from __future__ import annotations

import asyncio
import collections
import functools
import queue
import threading

import pytest
from distributed import Client, Worker, core
from distributed import scheduler as dask_scheduler

import crema
from crema.hook import _messages, scheduler, worker
from crema.hook._reports import END


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
    assert asked.pop("event", 0) <= 2  # the second one if an agent needs long to start
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


def test_client_asks_where_the_scheduler_has_an_earlier_version(
    client, asked, tmp_path, monkeypatch
):
    monkeypatch.delattr(scheduler, "stop")
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    del asked["event"]
    assert asked == {"run": 4, "plugin-remove": 2, "unanswered": 2}


@pytest.fixture
def in_groups(monkeypatch) -> list[str]:
    """Workers of one host pass messages on from the second one; addresses to which the scheduler has sent something."""
    sent: list[str] = []
    exchange = _messages._exchange

    async def noted(scheduler, address, *rest):
        sent.append(address)
        return await exchange(scheduler, address, *rest)

    monkeypatch.setattr(_messages, "FEW", 1)
    monkeypatch.setattr(_messages, "_exchange", noted)
    return sent


def test_one_of_many_workers_on_a_host_passes_messages_on(client, asked, in_groups, tmp_path):
    """The scheduler sends three messages to one of two workers, which sends each of the three to both."""
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert len(in_groups) == 3 and len(set(in_groups)) == 1
    del asked["event"]
    assert asked == {"run": 3 + 2, "crema_end": 2, "plugin-remove": 2, "unanswered": 2}
    assert not [
        name
        for one in client.cluster.workers.values()
        for name in one.plugins
        if name.startswith("crema")
    ]


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("reply", [True, False])
def test_workers_beside_one_that_has_left_are_asked(
    client, in_groups, position, reply, monkeypatch
):
    """Also if it is the one that should pass the message on."""
    monkeypatch.setattr(_messages, "_CONNECT_S", 0.5)
    client.cluster.scheduler.rpc.timeout = 1
    here = list(client.cluster.workers.values())
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    for one in here:

        def note(one: Worker = one) -> str:
            done.put(one.address)
            return one.address

        one.handlers["note"] = note
    addresses = [one.address for one in here]
    left = addresses[0].rpartition("/")[0] + "/999999"
    asked = [*addresses[:position], left, *addresses[position:]]

    async def ask(dask_scheduler):
        return await _messages.ask(dask_scheduler, asked, reply=reply, op="note")

    answers = client.run_on_scheduler(ask)
    assert answers == ({one: one for one in addresses} if reply else {})
    assert {done.get(timeout=30) for _ in addresses} == set(addresses)


@pytest.mark.parametrize("few", [1, 8], ids=["passed on", "one by one"])
@pytest.mark.parametrize("position", [0, 1])
def test_a_worker_that_does_not_answer_is_late_and_no_other(client, few, position, monkeypatch):
    """Also if others share its message, or if it is the one that should pass the message on."""
    monkeypatch.setattr(_messages, "FEW", few)
    here = list(client.cluster.workers.values())
    go_on = threading.Event()

    async def stand_still() -> str:
        while not go_on.is_set():
            await asyncio.sleep(0.01)
        return "late"

    for one in here:
        one.handlers["note"] = lambda: "answer"
    here[position].handlers["note"] = stand_still
    addresses = [one.address for one in here]

    async def ask(dask_scheduler):
        return await _messages.ask(dask_scheduler, addresses, limit_s=0.6, op="note")

    answers = client.run_on_scheduler(ask)
    go_on.set()
    assert "did not answer within 0.6 s" in str(answers.pop(addresses[position]))
    assert answers == {addresses[1 - position]: "answer"}


def test_workers_are_asked_by_the_scheduler_where_none_passes_messages_on(
    client, in_groups, tmp_path, monkeypatch
):
    monkeypatch.setattr(_messages, "_passing_on", lambda: b"no function")
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert len(in_groups) == 3 * (1 + 2)


LEFT = "inproc://192.0.2.1/1/1"


def to_one_that_left(monkeypatch, operation: str) -> None:
    """Let an operation go to an address besides where no worker is any more."""
    ask = _messages.ask

    async def with_it(scheduler, workers, *, op, **message):
        more = [LEFT] if op == operation else []
        answers = await ask(scheduler, [*workers, *more], op=op, **message)
        assert LEFT not in answers
        return answers

    monkeypatch.setattr(_messages, "ask", with_it)


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
        if message["op"] == END and not joined:
            joined.append(await Worker(scheduler.address, nthreads=1, dashboard=False))
        return await ask(scheduler, workers, **message)

    monkeypatch.setattr(_messages, "ask", with_one_that_joins)
    mc = run(client, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    names = {writer["name"] for part in mc._parts for writer in part["writers"]}
    assert joined and joined[0].address not in names
    client.sync(joined[0].close)
