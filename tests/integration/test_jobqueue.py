"""dask-jobqueue, whose workers are jobs: they come when the run has begun, and every total is Dask's and coffea's own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

import pytest
from distributed import Client

import measured_runs
import missing
import workloads
from paths import ROOT

handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
dask_jobqueue = pytest.importorskip("dask_jobqueue", reason=missing.DASK_JOBQUEUE)
for number, handler in handlers.items():  # its runner.py takes them over for the whole process
    signal.signal(number, handler)
pytestmark = pytest.mark.timeout(300)


HERE = str(ROOT / "tests" / "lib")  # where the jobs find the processor


def answers(*command: str) -> bool:
    """Whether a batch system of that command is here."""
    return (
        bool(shutil.which(command[0]))
        and not subprocess.run(command, capture_output=True, timeout=30).returncode
    )


def make(system: str, directory):
    common = {"cores": 1, "processes": 1, "memory": "1GB", "log_directory": str(directory)}
    common |= {"python": sys.executable, "scheduler_options": {"dashboard_address": ":0"}}
    if system == "local":  # the jobs are processes of this host
        from dask_jobqueue.local import LocalCluster

        return LocalCluster(**common)
    common["job_script_prologue"] = [f"export PYTHONPATH={HERE}"]
    if not answers("sinfo"):
        pytest.skip(missing.SLURM)
    return dask_jobqueue.SLURMCluster(**common, walltime="00:10:00")


@pytest.mark.slow
@pytest.mark.parametrize("system", ["local", "Slurm"])
def test_workers_that_are_jobs_are_recorded(system, nano_files, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", HERE)  # a job of this host has no script
    with make(system, tmp_path) as cluster, Client(cluster) as client:

        def submit_jobs(mc) -> None:
            cluster.scale(jobs=2)
            client.wait_for_workers(2, timeout=120)

        fileset = {"dy": nano_files["dy"]}
        run = measured_runs.measure(
            client, fileset, workloads.JetCounter(), tmp_path, during=submit_jobs, quiet=True
        )
    measured_runs.must_be_complete_and_equal(run)
