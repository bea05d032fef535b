"""A cluster and its client outlive many runs: nothing of a run stays in them."""

from __future__ import annotations

import collections
import contextlib
import gc
import pathlib
import threading

import pytest
from distributed import Client

import crema
from crema.hook import scheduler
from waiting import wait_for

RUNS = 3


@pytest.fixture
def client(client_here):
    return client_here


def of_crema() -> collections.Counter:
    """Objects of crema's classes, by class."""
    gc.collect()
    classes = (type(thing) for thing in gc.get_objects())
    return collections.Counter(c for c in classes if str(c.__module__).startswith("crema."))


def opened() -> list[str]:
    """What the descriptors of this process are open on."""
    found = []
    for fd in pathlib.Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the list itself
            found.append(str(fd.readlink()))
    return found


def what_stays(client: Client) -> collections.Counter:
    """What client, scheduler and workers keep; all are in this process."""
    dask = client.cluster.scheduler
    workers = list(client.cluster.workers.values())
    found = {
        "operations": len(dask.handlers) + sum(len(worker.handlers) for worker in workers),
        "streams": len(dask.stream_handlers),
        "plugins": len(dask.plugins) + sum(len(worker.plugins) for worker in workers),
        "plugins of workers": len(dask.worker_plugins),
        "topics": sum(name.startswith("crema") for name in dask._broker._topics),
        "clients": len(dask.clients),
        "threads": sum(thread.name.startswith("crema") for thread in threading.enumerate()),
        "descriptors": len(opened()),
    }
    return collections.Counter(found)


def test_a_run_leaves_nothing_in_the_cluster(client, tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "LATE_S", 0.05)

    def run() -> None:
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            assert client.submit(sum, [1, 2], pure=False).result() == 3
        assert (mc.verdict, mc.reasons) == ("COMPLETE", [])

    def is_as_before() -> bool:
        nonlocal more  # the last look is the one that counts: a descriptor may be open for an instant
        more = what_stays(client) - before
        return not more

    run()  # some things are made once
    wait_for(lambda: not what_stays(client)["topics"], 20)
    before, objects, there = what_stays(client), of_crema(), collections.Counter(opened())
    more = collections.Counter()
    for _ in range(RUNS):
        run()
    with contextlib.suppress(AssertionError):
        wait_for(is_as_before, 60)
    assert not more, f"{threading.enumerate()} {collections.Counter(opened()) - there}"
    assert not of_crema() - objects
