"""Why a worker went stands in the file and in the verdict: real deaths below a real nanny."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import sys
import time

import pytest
from coffea import processor
from distributed import Client

import crema
import workloads
from children import Child
from clusters import LocalCluster
from crema._demo_data import make_fileset
from crema._demo_processor import Schema
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

MEMORY = pathlib.Path("/sys/fs/cgroup/memory")  # version 1


def die(how: str, mark: str) -> None:
    if pathlib.Path(mark).exists():
        return
    pathlib.Path(mark).touch()
    time.sleep(0.3)
    if how == "exit":
        os._exit(7)
    if how == "memory":
        kept = []
        while True:
            kept.append(os.urandom(1 << 20) * 10)
            time.sleep(0.01)
    os.kill(os.getpid(), signal.Signals[how])
    time.sleep(60)


def deaths(path) -> dict:
    """By worker: cause, exit status and signal, of those that were lost."""
    with crema.open(path) as run:
        rows = run["membership"]
    rows = rows[rows.event == "lost"]
    return {r.worker: (r.cause, r.exit_status, r.signal) for r in rows.itertuples()}


def test_each_death_has_its_cause(tmp_path):
    want = {
        "exit": (("exited", 7, -1), r"exited with status 7;"),
        "SIGSEGV": (("signal", -1, 11), r"was killed by signal 11 \(SIGSEGV\);"),
        "SIGKILL": (("signal", -1, 9), r"was killed by signal 9 \(SIGKILL\);"),
        "SIGTERM": (("terminated", -1, 15), r"was ended by SIGTERM"),
        "memory": (
            ("memory_nanny", -1, 15),
            r"was killed; memory: \d{3} of 700 MB, ended by its nanny;",
        ),
    }
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="700MB", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        victims = {}
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            for how in want:
                client.wait_for_workers(1)
                (victims[how],) = client.nthreads()
                client.submit(die, how, str(tmp_path / how)).result()
    found = deaths(mc.path)
    texts = {reason["subject"]: reason["text"] for reason in mc.reasons}
    assert {reason["code"] for reason in mc.reasons} == {"writer_killed"}
    for how, (row, text) in want.items():
        assert found[victims[how]] == row, how
        assert re.search(text, texts[victims[how]]), (how, texts[victims[how]])


def test_a_chunk_that_ends_workers_is_named(tmp_path):
    fileset = make_fileset(tmp_path / "files", 4800, lambda n: None)
    (tmp_path / "marks").mkdir()
    instance = workloads.Troubled(0.02, str(tmp_path / "marks"), kill_at=400, fail_at=[])
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        crema.MetricsCollector(client, instance, output=tmp_path, quiet=True) as mc,
    ):
        processor.Runner(
            executor=processor.DaskExecutor(client=client, status=False),
            schema=Schema,
            chunksize=200,
        ).run(fileset, processor_instance=instance, treename="Events")
    (reason,) = mc.reasons
    assert re.search(
        r"killed by signal 9 \(SIGKILL\).*; it ran events 400 to 600 of \S+\.root, which counts elsewhere;",
        reason["text"],
    ), reason["text"]


def test_a_retired_worker_that_is_killed_later_is_complete(tmp_path):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc,
    ):
        futures = client.map(time.sleep, [8.0] * 2, pure=False)
        wait_for(lambda: all(client.processing().values()), 30, "a task on each worker")
        cluster.scale(1)
        client.gather(futures)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    with crema.open(mc.path) as run:
        notes = [n for n in run.notes if n["code"] == "killed_after_retirement"]
    assert len(notes) == 1 and "signal 9" in notes[0]["text"]


@contextlib.contextmanager
def cgroup(limit_b: int):
    """Directory of a new memory cgroup; skips where none can be made."""
    path = MEMORY / f"crema-test-{os.getpid()}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(limit_b))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        yield path
    finally:
        wait_for(lambda: not (path / "cgroup.procs").read_text(), 30, "an empty cgroup")
        path.rmdir()


def test_the_kernel_ends_a_worker_at_the_limit_of_its_cgroup(tmp_path):
    with (
        cgroup(900 << 20) as group,
        LocalCluster(n_workers=0, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        into = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        words = ["-m", "distributed.cli.dask_worker", client.scheduler.address]
        options = ["--nworkers", "1", "--nthreads", "1", "--memory-limit", "0", "--no-dashboard"]
        here = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = ["/bin/sh", "-c", into, "sh", sys.executable, *words, *options]
        with Child(command, env=here) as worker:
            client.wait_for_workers(1, timeout=60)
            with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
                (victim,) = client.nthreads()
                client.submit(die, "memory", str(tmp_path / "mark")).result()
            worker.terminate()
            worker.wait(30)
    assert deaths(mc.path)[victim] == ("memory_kernel", -1, 9)
    (reason,) = [r for r in mc.reasons if r["subject"] == victim]
    assert "memory: the kernel ended it, limit 900 MiB of its cgroup" in reason["text"]
