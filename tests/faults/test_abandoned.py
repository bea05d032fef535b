"""A notebook that is killed: what it started on the cluster delivers what it can and leaves, the cluster goes on."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import pytest
from distributed import Client

import crema
import crema.hook.scheduler
import measured_runs
from children import Child
from clusters import LocalCluster
from paths import ROOT
from waiting import wait_for

pytestmark = pytest.mark.timeout(240)
GONE_S = 3.0
DRAIN_S = 2

NOTEBOOK = """
import sys, time
from distributed import Client
import crema, workloads
with Client(sys.argv[1]) as client:
    with crema.MetricsCollector(client, processor_instance=None, output=sys.argv[2]) as collector:
        client.gather(client.map(workloads.burn, [0.2] * 4, pure=False))
        print(collector.run_id, flush=True)
        time.sleep(600)
"""
ENDING = NOTEBOOK.replace(
    "time.sleep(600)",
    """
        import os, signal, measured_runs
        for program in measured_runs.processes("crema-sink", str(os.getpid())):
            os.kill(program, signal.SIGSTOP)
""",
)  # leaves the block, and no verdict comes


@pytest.fixture
def cluster(monkeypatch):
    """Its scheduler is in this process, its two workers share a host and so an agent."""
    monkeypatch.setattr(crema.hook.scheduler, "CLIENT_GONE_S", GONE_S)
    monkeypatch.setenv("CREMA_AGENT_DRAIN_TIMEOUT", f"{DRAIN_S}s")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture
def start(cluster, tmp_path):
    """Starts the notebook; returns it and the id of its run. What is left of it in the end is removed."""
    started = []

    def start(script=NOTEBOOK, **environment) -> tuple[subprocess.Popen, str]:
        started.append(_start(script, cluster, tmp_path, environment))
        return started[-1]

    yield start
    private = pathlib.Path(tempfile.gettempdir(), f"crema-{os.getuid()}")
    for notebook, run_id in started:
        notebook.kill()
        notebook.wait()
        run = uuid.UUID(run_id)
        for stopped in measured_runs.processes("crema-sink", str(run)):  # by ENDING
            os.kill(stopped, signal.SIGKILL)
        for left in (*private.glob(f"run-{run.hex}-*"), private / str(run)):
            shutil.rmtree(left, ignore_errors=True)


def _start(script, cluster, output, environment) -> tuple[subprocess.Popen, str]:
    notebook = Child(
        [sys.executable, "-c", script, cluster.scheduler_address, str(output)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT / "tests" / "lib",
        env=os.environ | environment,
    )
    for line in notebook.stdout:
        word = line.strip()
        if len(word.replace("-", "")) == 32 and " " not in word:
            return notebook, word
    raise AssertionError("the notebook did not come to its run")


def hooks(client) -> list[str]:
    """Of crema, on workers and scheduler."""

    def on_worker(dask_worker):
        return [name for name in dask_worker.plugins if name.startswith("crema-")]

    def on_scheduler(dask_scheduler):
        names = [*dask_scheduler.plugins, *dask_scheduler.worker_plugins]
        return [str(name) for name in names if str(name).startswith("crema-")]

    found = client.run(on_worker).values()
    return [name for names in found for name in names] + client.run_on_scheduler(on_scheduler)


def must_be_gone(cluster, run_id, within_s):
    with Client(cluster) as client:
        assert hooks(client), "there was nothing to leave"
        wait_for(lambda: not hooks(client), 2 * GONE_S + 20, "an end of the recording")
        began = time.monotonic()
        wait_for(
            lambda: not measured_runs.processes("crema-agent", run_id),
            within_s,
            "an agent that left",
        )
        print(f"the agent left after {time.monotonic() - began:.1f} s more")
        assert client.submit(lambda: 6 * 7).result() == 42


def test_agents_leave_after_a_killed_notebook(cluster, start):
    """Its sink and aggregator died with it: the records stay where they are."""
    notebook, run_id = start()
    assert len(measured_runs.processes("crema-agent", run_id)) == 1
    notebook.kill()
    notebook.wait()
    must_be_gone(cluster, run_id, within_s=60)


def test_a_notebook_killed_between_end_and_verdict_leaves_nothing(cluster, start):
    notebook, run_id = start(ENDING)
    hook = cluster.scheduler.plugins[f"crema-{uuid.UUID(run_id).hex}"]
    wait_for(lambda: hook.is_over, 30, "an end of the run")
    notebook.kill()
    notebook.wait()
    must_be_gone(cluster, run_id, within_s=60)


@pytest.mark.slow
def test_agents_of_an_operators_pipeline_deliver_everything_first(cluster, start, pipelines):
    """Its aggregator was away when the notebook was killed; the agent waits for it."""
    pipeline = pipelines(spools=0)
    notebook, run_id = start(CREMA_AGGREGATOR=pipeline.endpoint)
    (agent,) = measured_runs.processes("crema-agent", run_id)
    spool = pathlib.Path(f"/proc/{agent}/cmdline").read_text().split("\0")
    spool = pathlib.Path(spool[spool.index("--spool") + 1])
    pipeline.aggregator.kill(restart=False)
    notebook.kill()
    notebook.wait()
    with Client(cluster) as client:
        wait_for(lambda: not hooks(client), 2 * GONE_S + 20, "an end of the recording")
    time.sleep(3 * DRAIN_S)  # longer than an agent of a run's own pipeline waits
    assert measured_runs.processes("crema-agent", run_id) == [agent]
    assert any(spool.glob("sp-*"))
    pipeline.aggregator.start()
    wait_for(lambda: not measured_runs.processes("crema-agent", run_id), 60, "an agent that left")
    assert not any(spool.glob("sp-*"))
