"""A collector in asynchronous code: ``async with``, on a cluster whose scheduler and client share the caller's event loop."""

from __future__ import annotations

import asyncio
import time

import pytest
from distributed import Client

import crema
from clusters import LocalCluster
from waiting import wait_for


def nap(number: int) -> int:
    time.sleep(0.02)
    return number


def on_a_cluster(use, processes: bool):
    """What `use` makes of an asynchronous client; how long its event loop stood still at most."""
    lags = [0.0]

    async def tick() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.05)
            lags.append(time.monotonic() - began - 0.05)

    async def main():
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        async with (
            LocalCluster(asynchronous=True, processes=processes, **options) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            ticking = asyncio.ensure_future(tick())
            found = await use(client)
            ticking.cancel()
            return found

    return asyncio.run(asyncio.wait_for(main(), 180)), max(lags)


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_an_asynchronous_client_is_recorded(tmp_path, processes):
    async def use(client):
        async with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            futures = client.map(nap, range(20), pure=False)
            assert sum(await client.gather(futures)) == 190
        return mc

    mc, _ = on_a_cluster(use, processes)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    with crema.open(mc.path) as run:
        events = run.table("task_events")
        assert (events["side"] != "foreign").sum() >= 20


def test_an_exception_passes_and_the_run_is_complete(tmp_path):
    async def use(client):
        mc = crema.MetricsCollector(client, output=tmp_path, quiet=True)
        with pytest.raises(ZeroDivisionError):
            async with mc:
                await client.submit(lambda: 1 / 0, pure=False)
        return mc

    mc, _ = on_a_cluster(use, False)
    assert mc.verdict == "COMPLETE"
    with crema.open(mc.path) as run:
        assert "ZeroDivisionError" in run.attributes["exception"]


def test_a_block_that_waits_says_how_to_enter_it(tmp_path, capfd):
    """At once: the thread that would wait for the answers is the one that runs the event loop."""

    async def use(client):
        began = time.monotonic()
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            assert await client.submit(nap, 3, pure=False) == 3
        assert (
            time.monotonic() - began < 30
        )  # a call that Dask does not answer is given up after 60
        return mc

    mc, _ = on_a_cluster(use, False)
    assert mc.verdict == "UNKNOWN"
    assert "enter the collector with `async with`" in capfd.readouterr().err


def test_one_that_is_cancelled_leaves_nothing(tmp_path):
    async def use(client):
        mc = crema.MetricsCollector(client, output=tmp_path, quiet=True)

        async def block() -> None:
            async with mc:
                raise AssertionError("not reached")

        task = asyncio.ensure_future(block())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return mc

    mc, _ = on_a_cluster(use, False)
    assert mc._service is None
    wait_for(lambda: not list(tmp_path.iterdir()), 30, "an end of the live file")
