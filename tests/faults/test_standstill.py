"""What stands still for half a minute is not lost: a notebook whose GIL is held, a scheduler whose event loop is blocked; all workers restarted."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time

import pytest
from distributed import Client

import crema
from children import Child
from crema.collect import _reach
from losses import nothing_lost_or_twice

pytestmark = [pytest.mark.timing, pytest.mark.timeout(300)]

NOWHERE = "tcp://192.0.2.1:9"  # of a network for documentation: records travel over Dask
# Seconds that somebody stands still, and the agents' heartbeats: silence of ten of them, 50 s over Dask, is a loss.
SHORT = (4, "200ms")
LONG = pytest.param((30, "1s"), marks=pytest.mark.long)


@pytest.fixture(params=[SHORT, LONG], ids=["short", "long"])
def limits(request):
    return request.param


@pytest.fixture
def client(limits, tmp_path):
    """Of a cluster in processes of its own: scheduler, and two workers with nannies."""
    environ = {**os.environ, "CREMA_HEARTBEAT_INTERVAL": limits[1]}
    file = tmp_path / "scheduler.json"
    options = ("--scheduler-file", str(file), "--no-dashboard")
    commands = [
        ("scheduler", "--port", "0", *options),
        ("worker", *options, "--nthreads", "1", "--nworkers", "2"),
    ]
    with contextlib.ExitStack() as stack:
        for command in commands:
            log = stack.enter_context(open(tmp_path / f"{command[0]}.log", "wb"))
            process = Child(
                [sys.executable, "-m", "dask", *command],
                env=environ,
                cwd=tmp_path,
                stdout=log,
                stderr=log,
            )
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
        while not file.exists():
            time.sleep(0.05)
        client = stack.enter_context(Client(scheduler_file=str(file)))
        client.wait_for_workers(2, timeout=60)
        yield client


def hold_the_gil(client, seconds: int) -> None:
    ctypes.PyDLL(None).sleep(seconds)  # as a call of C code that does not let go of it


def block_the_scheduler(client, seconds: int) -> None:
    def stand_still(dask_scheduler, seconds) -> None:
        import time

        time.sleep(seconds)

    client.run_on_scheduler(stand_still, seconds=seconds)


def naps(client, n: int, nap_s: float = 0.05) -> list:
    def nap(number: int, nap_s: float) -> int:
        import time

        time.sleep(nap_s)
        return number

    return client.map(nap, range(n), nap_s=nap_s, pure=False)


@pytest.mark.parametrize("way", ["direct", "over Dask"])
def test_workers_and_records_outlast_a_standstill(client, limits, way, tmp_path, monkeypatch):
    seconds, _ = limits
    if way == "over Dask":
        monkeypatch.setattr(_reach.Plan, "endpoints", lambda plan, bound: NOWHERE)
    done = 0
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        done += len(client.gather(naps(client, 20)))
        until = time.monotonic() + 60
        while way == "over Dask" and not mc._plugins.carrier.hosts:
            assert time.monotonic() < until
            time.sleep(0.05)
        for trouble in (hold_the_gil, block_the_scheduler):
            work = naps(client, 40, seconds / 40)  # goes on where it can
            trouble(client, seconds)
            done += len(client.gather(work))
        client.restart()
        done += len(client.gather(naps(client, 20)))
        log = (mc._service.run_dir / "crema-aggregator.log").read_text()
    assert "agent_lost" not in log
    # Dask kills a worker that takes too long to close: it is named, since its last moments are unknown.
    with nothing_lost_or_twice():
        assert {reason["code"] for reason in mc.reasons} <= {"writer_killed"}, mc.reasons
        assert mc.verdict == ("PARTIAL" if mc.reasons else "COMPLETE")
    with crema.open(mc.path) as run:
        found = run.table("task_events").astype({"action": str, "status": str, "task_prefix": str})
    found = found.query("action == 'compute' and status == 'ok' and task_prefix == 'nap'")
    with nothing_lost_or_twice():
        assert len(found) == done
