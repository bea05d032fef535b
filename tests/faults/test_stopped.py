"""A process of Dask that stands still when the block is left: it is waited for once, and named alone."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sys
import time

import pytest
from distributed import Client

import crema
import measured_runs
import workloads
from children import Child
from clusters import LocalCluster
from paths import ROOT
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
TIMEOUT_S = 10
# Beside what is waited for: asking for lines, sealing, taking the plugins back.
BESIDE_S = 6


def leave(
    client: Client, output: pathlib.Path, stopped: int
) -> tuple[crema.MetricsCollector, float]:
    """A run that is left while this process stands still, and how long leaving took."""
    mc = crema.MetricsCollector(client, output=output, quiet=True, timeout=TIMEOUT_S)
    with mc:
        client.gather(client.map(workloads.burn, [0.05] * 16, pure=False))
        os.kill(stopped, signal.SIGSTOP)
        began = time.monotonic()
    took_s = time.monotonic() - began
    print(f"{took_s:.1f} s, {mc.verdict}, {mc.path}, {mc.reasons}")
    return mc, took_s


def leave_nothing(mc: crema.MetricsCollector) -> None:
    """What was not ended is kept: its agent would serve it for another minute."""
    for agent in measured_runs.processes("crema-agent", mc.run_id.replace("-", "")):
        os.kill(agent, signal.SIGKILL)
    shutil.rmtree(mc._config.spool_dir(), ignore_errors=True)


def test_a_worker_that_stands_still_is_named_alone(tmp_path):
    with (
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        address, pid = sorted(pids.items())[1]
        try:
            mc, took_s = leave(client, tmp_path, pid)
        finally:
            os.kill(pid, signal.SIGCONT)
        named = " ".join(f"{one['subject']} {one['text']}" for one in mc.reasons)
        assert address in named
        assert not [other for other in pids if other != address and other in named]
        assert mc.verdict == "PARTIAL" and mc.path.exists()
        assert took_s < TIMEOUT_S + 5 + BESIDE_S
    leave_nothing(mc)


def test_a_worker_that_stands_still_when_the_block_begins_delays_it_by_seconds(tmp_path):
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        pids = client.run(os.getpid)  # the scheduler has connections to all of them
        address, pid = sorted(pids.items())[1]
        others = [other for other in pids if other != address]
        mc = crema.MetricsCollector(client, output=tmp_path, quiet=True)
        os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            with mc:
                took_s = time.monotonic() - began
                client.gather(client.map(workloads.burn, [0.05] * 8, pure=False, workers=others))
                os.kill(pid, signal.SIGCONT)
                client.submit(workloads.burn, 0.05, pure=False, workers=[address]).result()
        finally:
            os.kill(pid, signal.SIGCONT)
        print(f"{took_s:.1f} s, {mc.verdict}, {mc.reasons}")
        assert took_s < 20, "5 s for the plugin, 5 s for a second question, a busy machine"
        assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
        with crema.open(mc.path) as run:
            computed = run["task_events"].query("action == 'compute'")
            assert len(computed) == 9 and computed.worker.nunique() == 3, (
                "it records once it goes on"
            )


def test_a_scheduler_that_stands_still_is_asked_once(tmp_path):
    where, dask = tmp_path / "scheduler.json", [sys.executable, "-m", "distributed.cli."]
    options = ["--scheduler-file", where, "--no-dashboard"]
    here = {"cwd": ROOT / "tests" / "lib"}  # both import the tasks
    scheduler = Child([*dask[:2], f"{dask[2]}dask_scheduler", "--port", "0", *options], **here)
    with scheduler:
        wait_for(where.exists, 60, "a scheduler")
        command = [*dask[:2], f"{dask[2]}dask_worker", "--nthreads", "2", *options]
        worker = Child(command, **here)
        try:
            with Client(scheduler_file=str(where)) as client:
                client.wait_for_workers(1)
                try:
                    mc, took_s = leave(client, tmp_path, scheduler.pid)
                finally:
                    os.kill(scheduler.pid, signal.SIGCONT)
            assert mc.verdict == "PARTIAL" and mc.path.exists()
            unknown = [one for one in mc.reasons if one["code"] == "writer_unknown"]
            assert all("did not answer" in one["text"] for one in unknown)
            (beside,) = (one for one in unknown if "beside" in one["subject"])
            assert "the scheduler was asked first" in beside["text"], "it is nobody else's fault"
            assert took_s < TIMEOUT_S + 5 + BESIDE_S
        finally:
            worker.end()
            scheduler.end()
    leave_nothing(mc)
