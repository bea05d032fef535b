"""HTCondor, one node of it: dask-jobqueue's cluster, jobs that are removed or evicted, and the example of docs/sites/htcondor.md."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest
from distributed import Client

import measured_runs
import workloads
from children import Child, none_outlive_this
from conftest import ROOT
from ports import free_port
from waiting import wait_for

handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
from dask_jobqueue import HTCondorCluster  # noqa: E402

for number, handler in handlers.items():  # its runner.py takes them over for the whole process
    signal.signal(number, handler)

pytestmark = pytest.mark.timeout(600)
E2E = ROOT / "tests" / "lib"  # where the jobs find the processor


def make(directory: pathlib.Path, python: str = sys.executable) -> HTCondorCluster:
    return HTCondorCluster(
        cores=1,
        processes=1,
        memory="1GB",
        disk="1GB",
        python=python,
        log_directory=str(directory),
        scheduler_options={"dashboard_address": ":0"},
        job_extra_directives={"environment": f'"PYTHONPATH={E2E}"'},
    )


def test_workers_that_are_jobs_are_recorded(pool, nano_files, tmp_path):
    with make(tmp_path) as cluster, Client(cluster) as client:

        def submit_jobs(mc) -> None:
            cluster.scale(jobs=2)
            client.wait_for_workers(2, timeout=120)

        run = measured_runs.measure(
            client, nano_files, workloads.JetCounter(), tmp_path, during=submit_jobs, quiet=True
        )
    measured_runs.must_be_complete_and_equal(run)


def measure_while(client, fileset, tmp_path, happens) -> measured_runs.Measured:
    """A run during which `happens()` once there are some chunks, in a thread that has ended when this returns."""
    diary = tmp_path / "diary"
    diary.mkdir()
    failed = []

    def interfere() -> None:
        try:
            wait_for(lambda: len(list(diary.iterdir())) >= 4, 120, "four chunks")
            happens()
        except BaseException as why:  # it would be lost in the thread
            failed.append(why)

    thread = threading.Thread(target=interfere)
    instance = workloads.Diary(0.3, str(diary))
    run = measured_runs.measure(
        client,
        fileset,
        instance,
        tmp_path,
        chunksize=2,
        during=lambda mc: thread.start(),
        dask=False,
        quiet=True,
    )
    thread.join()
    assert not failed, failed
    return run


def address_of(cluster: HTCondorCluster, client: Client, job_id: str) -> str:
    (name,) = [job.name for job in cluster.workers.values() if job.job_id == job_id]
    workers = client.scheduler_info()["workers"].items()
    return next(address for address, worker in workers if worker["name"] == name)


@pytest.mark.parametrize("command", [["condor_rm"], ["condor_vacate_job", "-fast"]], ids=" ".join)
def test_a_job_that_is_killed_is_named(command, pool, nano_files, tmp_path):
    """Worker and agent die at once, and their directory goes with them: a job that is evicted starts again, with nothing."""
    with make(tmp_path) as cluster, Client(cluster) as client:
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=120)
        job, *_ = pool.jobs()
        killed = address_of(cluster, client, job)

        def kill() -> None:
            pool.say(*command, job)
            wait_for(lambda: killed not in client.nthreads(), 60, "the worker is gone")

        run = measure_while(client, nano_files, tmp_path, kill)
    assert run.verdict == "PARTIAL"
    assert {reason["code"] for reason in run.reasons} <= {"agent_lost", "stream_not_closed"}
    assert any(killed in reason["text"] for reason in run.reasons), run.reasons
    measured_runs.must_have_counted(run)


@pytest.mark.parametrize("way", ["scale", "adapt"])
def test_a_job_that_is_no_longer_needed_delivers(way, pool, nano_files, tmp_path):
    """The job is removed at once, so it has to be the worker itself: a shell around it would not pass SIGTERM on."""
    python = f"exec {sys.executable}"
    with make(tmp_path, python) as cluster, Client(cluster) as client:
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=120)

        def shrink() -> None:
            if way == "scale":
                cluster.scale(jobs=1)
            else:
                cluster.adapt(minimum=1, maximum=1, interval="200ms", wait_count=1)
            wait_for(lambda: len(client.nthreads()) == 1, 60, "one worker is left")

        run = measure_while(client, nano_files, tmp_path, shrink)
    assert (run.verdict, run.reasons) == ("COMPLETE", [])
    measured_runs.must_have_counted(run)


# A user's script, whose processor lives in it.
ANALYSIS = """
import json, os, sys, time
from coffea import processor
from coffea.nanoevents import NanoAODSchema
from distributed import Client
import crema

class Counter(processor.ProcessorABC):
    def __init__(self, diary):
        self.diary = diary

    def process(self, events):
        open(f"{self.diary}/{time.time_ns()}", "x").close()
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
        return {"events": len(events)}

    def postprocess(self, accumulator):
        return accumulator

scheduler, fileset, diary = sys.argv[1:]
with Client(scheduler) as client:
    client.wait_for_workers(2, timeout=120)
    counter = Counter(diary)
    run = processor.Runner(
        processor.DaskExecutor(client=client, status=False), schema=NanoAODSchema, chunksize=2, savemetrics=True
    )
    with crema.MetricsCollector(client, processor_instance=counter, quiet=True) as mc:
        output, report = run(json.loads(fileset), processor_instance=counter, treename="Events")
        mc.set_coffea_report(report)
    keys = {"path": str(mc.path), "verdict": mc.verdict, "reasons": mc.reasons, "output": output}
    print(json.dumps(keys | {"chunks": report["chunks"], "entries": report["entries"]}))
"""


@pytest.fixture
def example(pool, services, tmp_path):
    """The submit host of docs/sites/htcondor.md, up to its console lines; returns what runs one of these."""
    page = (ROOT / "docs" / "sites" / "htcondor.md").read_text()
    folder, *lines = re.findall(r"^\$ (.*)$", page, re.M)
    work = tmp_path / folder.removeprefix("cd ")
    shutil.copytree(ROOT / work.relative_to(tmp_path), work)
    programs = pathlib.Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["crema", "keys", "keys"], cwd=work, env=environment, check=True)
    shutil.copytree(work / "keys" / "agent", work / "agent-keys")
    keys, store = ("--keys", work / "keys"), ("--store", tmp_path / "store", "--output", tmp_path)
    sink = services("crema-sink", "--bind", "tcp://127.0.0.1:*", *store, *keys)
    to_sink = ("--sink", f"tcp://127.0.0.1:{sink.port()}")
    aggregator = services("crema-aggregator", "--bind", "tcp://0.0.0.0:*", *to_sink, *keys)
    port = free_port()
    scheduler = Child(
        [programs / "dask", "scheduler", "--port", str(port), "--no-dashboard"], cwd=work
    )
    (work / "analysis.py").write_text(ANALYSIS)
    given = {":5700": f":{aggregator.port()}", ":8786": f":{port}", "count=40": "count=2"}

    def start(line: str, *arguments: str) -> Child:
        """A line that begins so or has it, with the ports of today."""
        (found,) = [text for text in lines if line in text]
        for old, new in given.items():
            found = found.replace(old, new)
        return Child(
            ["bash", "-c", f'{found} "$@"', "-", *arguments],
            cwd=work,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    start.scheduler = f"tcp://{socket.getfqdn()}:{port}"
    with none_outlive_this():
        yield start
    scheduler.terminate()
    scheduler.wait(60)


@pytest.mark.parametrize("happens", ["nothing", "condor_vacate_job", "condor_vacate_job -fast"])
def test_the_example_works(happens, example, pool, nano_files, tmp_path):
    """An evicted job brings its spool back and takes it along when it starts again; one that is killed has nothing to bring."""
    diary = tmp_path / "diary"
    diary.mkdir()
    assert example("condor_submit").wait(60) == 0
    analysis = example("python", example.scheduler, json.dumps(nano_files), str(diary))
    if happens != "nothing":
        wait_for(lambda: len(list(diary.iterdir())) >= 4, 120, "four chunks")
        job, *_ = pool.jobs()
        pool.say(*happens.split(), job)
        wait_for(lambda: pool.jobs()[job] == 2, 120, "the job has started again")
    said, _ = analysis.communicate(timeout=300)
    assert analysis.returncode == 0
    run = json.loads(said.splitlines()[-1])
    if happens.endswith("-fast"):
        assert run["verdict"] == "PARTIAL"
        assert "agent_lost" in {reason["code"] for reason in run["reasons"]}
    else:
        assert (run["verdict"], run["reasons"]) == ("COMPLETE", [])
    chunks = measured_runs.counted_chunks(run["path"])
    assert int(chunks["n_events"].sum()) == run["entries"] == run["output"]["events"] > 0
    assert len(chunks) == run["chunks"]
