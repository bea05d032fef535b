"""crema keeps no event loop of Dask waiting, and a worker that leaves takes nothing with it."""

from __future__ import annotations

import fcntl
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from distributed import Client

import crema
import hook_support as support
from clusters import LocalCluster
from crema.hook import worker
from crema.hook._config import HookConfig
from waiting import wait_for


@pytest.fixture
def waits(monkeypatch):
    """Calls of crema that may wait, in threads that run an event loop: what was called, by which function."""
    found: list[tuple[str, str]] = []

    def watch(owner, name, waits=lambda *args: True):
        before = getattr(owner, name)

        def call(*args, **kwargs):
            if waits(*args) and _runs_a_loop():
                found.extend((name, by) for by in _by_hook(sys._getframe(1)))
            return before(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    watch(time, "sleep")
    watch(subprocess.Popen, "__init__")
    watch(subprocess.Popen, "wait")
    watch(subprocess.Popen, "communicate")
    watch(os, "fsync")
    watch(os, "fdatasync")
    watch(os, "waitpid")
    watch(fcntl, "flock", lambda fd, how, *rest: not how & (fcntl.LOCK_NB | fcntl.LOCK_UN))
    watch(socket, "create_connection")
    watch(socket, "getaddrinfo")
    watch(threading.Thread, "join")
    return found


def _runs_a_loop():
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _by_hook(frame):
    """The innermost function of the hooks among the callers, if there is one."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("crema.hook"):
            return [frame.f_code.co_name]
        frame = frame.f_back
    return []


def test_event_loops_do_not_wait_for_crema(waits, tmp_path):
    """Worker, scheduler and client are in this process, each step of a run is gone through, an agent that is killed too."""
    fileset = support.make_files(tmp_path, 1)
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        crema.MetricsCollector(
            client, support.Counter(), output=tmp_path, sample_interval=0.05, quiet=True
        ) as mc,
    ):
        support.run(support.dask(client), mc.checkpointer, fileset, support.Counter())
        (state,) = client.run(worker.status, mc.run_id).values()
        lock = pathlib.Path(state["spool"]) / "agent.lock"
        wait_for(lambda: lock.exists() and lock.read_text(), 60)
        os.kill(int(lock.read_text()), signal.SIGKILL)
        wait_for(
            lambda: next(iter(client.run(worker.status, mc.run_id).values()))["agent"] == "held",
            60,
        )
        cluster.scale(2)
        client.wait_for_workers(2)
        cluster.scale(1)
        wait_for(lambda: len(client.scheduler_info()["workers"]) == 1, 60)
    assert mc.verdict == "COMPLETE", mc.reasons
    assert waits == []
    with crema.open(mc.path) as run:
        looks = run["worker_samples"]["gil_contention"].dropna()
    assert len(looks) > 2 and looks.between(0, 1).all()


def test_the_last_records_leave_before_their_worker_does(tmp_path):
    """Where the container ends with the worker, whatever is in its spool then is lost."""

    def work(item):
        return item

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc,
    ):
        client.gather(client.map(work, range(20)))
        leaving = sorted(client.scheduler_info()["workers"])[0]
        pid = client.run(os.getpid, workers=[leaving])[leaving]
        stream = client.run(worker.status, mc.run_id, workers=[leaving])[leaving]["stream_id"]
        client.retire_workers([leaving], close_workers=True, remove=True)
        wait_for(lambda: not is_alive(pid), 60)
        left = list(HookConfig(mc.run_id).spool_dir().glob(f"sp-{stream}-*"))
    assert left == []
    assert mc.verdict == "COMPLETE", mc.reasons


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("when", ["during the run", "while the verdict is awaited"])
def test_a_worker_that_leaves_waits_for_its_agent(when, tmp_path, monkeypatch):
    """The agent stands still meanwhile: the worker is not gone before it has gone on."""
    monkeypatch.setattr(worker, "_DELIVERY_S", 60.0)
    with (
        LocalCluster(n_workers=2, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        ThreadPoolExecutor() as beside,
    ):

        def retire():
            """Returns what the worker leaves in the spool."""
            try:
                if when != "during the run":
                    wait_for(lambda: not client.run(worker.status, mc.run_id, workers=[name])[name])
                retiring = beside.submit(client.retire_workers, [name])
                wait_for(lambda: leaving.status.name == "closing", 60)
                time.sleep(0.5)
                segments = list(spool.glob(f"sp-{state['stream_id']}-*"))
                assert segments and leaving.status.name == "closing"
            finally:
                os.kill(agent, signal.SIGCONT)
            wait_for(lambda: leaving.status.name == "closed", 60)
            left = list(spool.glob(f"sp-{state['stream_id']}-*"))
            retiring.result(60)
            return left

        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            (name, state), *_ = sorted(client.run(worker.status, mc.run_id).items())
            spool = pathlib.Path(state["spool"])
            lock = spool / "agent.lock"
            wait_for(lambda: lock.exists() and lock.read_text(), 60)
            agent = int(lock.read_text())
            (leaving,) = (w for w in cluster.workers.values() if w.address == name)
            os.kill(agent, signal.SIGSTOP)
            retired = beside.submit(retire)
            if when == "during the run":
                retired.result(60)
        left = retired.result(60)
    assert left == []
    assert mc.verdict == "COMPLETE", mc.reasons
