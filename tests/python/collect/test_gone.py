"""When the block has been left, no process of crema is alive on the client's host, however long one takes to end."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import crema
from children import Child
from crema.collect import _host_agent, _marking, _runner, _service
from crema.collect._dialogue import Dialogue
from crema.hook._agent import agent_of, lock_is_held
from crema.hook._config import HookConfig
from run_traces import assert_nothing_left, run_dir
from waiting import wait_for

# Loaded into every program that is started here, and sleeps at the end of agents alone.
_SLOW_TO_END = """
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>
__attribute__((destructor)) static void
linger(void)
{
    if (strcmp(program_invocation_short_name, "crema-agent") == 0)
        sleep(1);
}
"""


@pytest.fixture
def slow_agents(tmp_path, monkeypatch):
    source, shim = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text(_SLOW_TO_END)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(shim))


@pytest.fixture
def client():
    from distributed import Client

    from clusters import LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("interrupted", [False, True], ids=["done", "interrupted"])
def test_an_agent_that_is_slow_to_end_is_waited_for(client, slow_agents, interrupted, tmp_path):
    mc = crema.MetricsCollector(client, output=tmp_path, quiet=True)
    try:
        with mc:
            assert client.submit(sum, [1, 2]).result() == 3
            if interrupted:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert interrupted
    assert_nothing_left(mc)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


def test_a_python_that_was_built_for_old_kernels_gets_its_verdict_too(
    client, tmp_path, monkeypatch
):
    monkeypatch.delattr(os, "pidfd_open")  # conda's
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        assert client.submit(sum, [1, 2]).result() == 3
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


def test_an_agent_that_was_never_seen_serving_is_waited_for(tmp_path):
    spool = tmp_path / "spool"
    config = HookConfig("0" * 32, aggregator="tcp://127.0.0.1:9", spool=str(spool))
    stand_in = tmp_path / "crema-agent"
    shutil.copy("/bin/sh", stand_in)
    command = [stand_in, "-c", "echo; sleep 1; true", "--spool", spool]
    with Child(command, stdout=subprocess.PIPE) as agent:
        assert agent.stdout.readline() == b"\n"
        with contextlib.closing(_host_agent.HostAgent(config)) as host:
            host.wait(time.monotonic() + 20)
        assert agent.poll() == 0


def test_an_interrupt_when_the_file_is_there_takes_no_verdict_away(client, slow_agents, tmp_path):
    mc = crema.MetricsCollector(client, output=tmp_path, quiet=True)

    def interrupt_when_sealed() -> None:
        until = time.monotonic() + 60
        while not (tmp_path / f"{mc.run_id}.h5").exists() and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt_when_sealed)
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a test's process may ignore it
    try:
        with pytest.raises(KeyboardInterrupt), mc:
            assert client.submit(sum, [1, 2]).result() == 3
            watcher.start()
        watcher.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    with crema.open(mc.path) as run:
        assert run.verdict == "COMPLETE"


def test_an_interrupt_while_entering_leaves_dask_as_it_was(client, tmp_path, monkeypatch):
    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_runner, "hook", interrupt)
    with pytest.raises(KeyboardInterrupt), crema.MetricsCollector(client, output=tmp_path):
        pytest.fail("the analysis ran")
    assert not _marking._undo


def test_an_interrupt_before_that_leaves_a_file_of_what_has_arrived(
    client, tmp_path, monkeypatch, capfd
):
    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    mc = crema.MetricsCollector(client, output=tmp_path, quiet=True)
    with pytest.raises(KeyboardInterrupt), mc:
        assert client.submit(sum, [1, 2]).result() == 3
        wait_for(lambda: any(mc._service.store.glob("*/*.journal")), 60, "a journal")
        monkeypatch.setattr(mc._service.supervisor, "given_up", interrupt)  # asked while it waits
    assert mc.verdict == "UNKNOWN"
    said, spool = capfd.readouterr().err, mc._config.spool_dir()
    assert "is being made of what has arrived" in said
    assert str(spool) in said or not any(spool.glob("sp-*")), "what has not arrived is named"
    wait_for(lambda: not run_dir(mc).exists(), 60, "an end of its directory")
    with crema.open(tmp_path / f"{mc.run_id}.h5") as run:
        assert run.verdict == "PARTIAL"
        assert not run.live
    assert not list(tmp_path.glob("*.left.txt"))
    if lock_is_held(spool / "agent.lock"):  # it would wait for a minute
        os.kill(int((spool / "agent.lock").read_text()), signal.SIGKILL)
    shutil.rmtree(spool, ignore_errors=True)


def test_a_job_leaves_no_agent_for_its_batch_system_to_kill(tmp_path):
    """A worker with its own scratch directory, as jobs have; what it leaves there is killed."""
    from distributed import Client

    from clusters import LocalCluster

    scratch = tmp_path / "job"
    scratch.mkdir()
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard"]
    with (
        LocalCluster(
            n_workers=1, protocol="tcp", processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc,
    ):
        environment = os.environ | {"TMPDIR": str(scratch)}
        with Child([*command, cluster.scheduler_address], env=environment) as job:
            client.wait_for_workers(2, timeout=60)
            assert client.map(lambda n: n, range(100), pure=False)
            (lock,) = wait_for(lambda: list(scratch.glob("crema-*/run-*/agent.lock")))
            wait_for(lambda: lock_is_held(lock))
            job.terminate()
        left = lock_is_held(lock)
        if left:
            os.kill(int(lock.read_text()), signal.SIGKILL)
    assert not left
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


@pytest.mark.parametrize("moved", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_records_of_a_killed_agent_and_worker_on_this_host_are_delivered(
    moved, tmp_path, monkeypatch
):
    """Also where the analysis has changed the directory for temporary files meanwhile."""
    from distributed import Client

    from clusters import LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            assert client.gather(client.map(abs, range(20))) == list(range(20))
            (worker,) = client.run(os.getpid).values()
            spool = mc._config.spool_dir()
            agent = wait_for(lambda: agent_of(spool), 30, "an agent")
            if moved:
                monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
            for nanny in cluster.workers.values():
                nanny.auto_restart = False
            for pid in (agent[0], worker):
                os.kill(pid, signal.SIGKILL)
        assert mc.verdict == "PARTIAL"
        codes = {reason["code"] for reason in mc.reasons}
        assert codes <= {"writer_killed", "writer_unknown"}, mc.reasons  # not agent_lost
        assert not spool.exists() or not any(spool.glob("sp-*"))
        assert not list(tmp_path.glob("crema-*"))
    monkeypatch.undo()
    assert_nothing_left(mc)


def _interrupted_at(number, codes, work):
    """Run `work` with Ctrl-C at the `number`-th line that these functions run; whether there were as many."""
    left = number

    def each_line(frame, event, arg):
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return each_line

    sys.settrace(lambda frame, event, arg: each_line if frame.f_code in codes else None)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return left <= 0


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_line_of_the_removal_leaves_nothing(tmp_path, step):
    codes = {
        value.__code__
        for owner in (_service.Service, _service.LocalService)
        for name, value in vars(owner).items()
        if name in ("close", "_end_guard")
    }
    codes.add(crema.MetricsCollector._take_down.__code__)
    for number in range(1, 100, step):
        mc = crema.MetricsCollector(output=tmp_path, quiet=True)
        mc.__enter__()
        if not _interrupted_at(number, codes, functools.partial(mc.__exit__, None, None, None)):
            break
        assert mc.verdict == "COMPLETE"
        wait_for(lambda mc=mc: not run_dir(mc).exists(), 60, f"an end of directory {number}")
        assert not list(tmp_path.glob("*.left.txt")), number
        with crema.open(mc.path) as run:
            assert run.verdict == "COMPLETE"
    assert number > 20


def test_an_interrupt_at_any_line_of_the_blocks_end_leaves_a_file_and_nothing_else(tmp_path):
    from coffea.processor import Runner

    before = Runner.__dict__["__call__"]
    for number in range(1, 100):
        mc = crema.MetricsCollector(output=tmp_path, quiet=True)
        mc.__enter__()
        codes = {crema.MetricsCollector._end_block.__code__}
        if not _interrupted_at(number, codes, functools.partial(mc.__exit__, None, None, None)):
            break
        wait_for(lambda mc=mc: not run_dir(mc).exists(), 60, f"an end of directory {number}")
        assert Runner.__dict__["__call__"] is before, number
        with crema.open(tmp_path / f"{mc.run_id}.h5") as run:
            assert not run.live
    assert number > 5


def test_a_block_on_a_cluster_that_never_began_leaves_nothing(client, tmp_path, monkeypatch):
    """Its workers have opened streams by then, and their agent serves them."""

    def fail(self):
        raise OSError("not today")

    monkeypatch.setattr(crema.MetricsCollector, "_begin_block", fail)
    with crema.MetricsCollector(client, output=tmp_path) as mc:
        spool = HookConfig(mc.run_id).spool_dir()
    assert mc.verdict == "UNKNOWN"
    assert not run_dir(mc).exists()
    wait_for(lambda: not spool.exists() and agent_of(spool) is None, 30, "an end of the agent")


def test_a_file_is_made_of_what_has_arrived_when_the_wait_fails(tmp_path, monkeypatch, capfd):
    """As in a generator that is closed with its interpreter, when nothing can be imported any more."""

    def fail(*arguments):
        raise ImportError("sys.meta_path is None")

    monkeypatch.setattr(Dialogue, "until_sealed", fail)
    with crema.MetricsCollector(output=tmp_path) as mc:
        crema.record_metric("crumbs", 1)
    assert mc.verdict == "UNKNOWN"
    assert f"{mc.run_id}.h5 is being made of what has arrived" in capfd.readouterr().err
    wait_for(lambda: not run_dir(mc).exists(), 60)
    with crema.open(tmp_path / f"{mc.run_id}.h5") as run:
        assert run.verdict == "PARTIAL"
        assert len(run["custom"]) == 1
