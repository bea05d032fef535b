"""A cluster on which the analysis cannot go on is named, without advice that cannot help."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

import crema
from children import Child
from crema.collect import _watch
from waiting import wait_for


class Cluster:
    """What Dask's client knows, one look after the other."""

    def __init__(self, status="pending", cluster=None):
        self.said, self.restarts = [], 0
        self.client = SimpleNamespace(
            _scheduler_identity={},
            futures={"key": SimpleNamespace(status=status)},
            cluster=cluster,
        )
        self.watch = _watch.Watch(self.client, self.said.append, self.restart)

    def restart(self):
        self.restarts += 1

    def at(self, now_s, n_workers, scheduler="one"):
        self.client._scheduler_identity = {"id": scheduler, "n_workers": n_workers, "workers": {}}
        self.watch._look(now_s)
        return self.said[-1] if self.said else ""


def test_a_cluster_without_workers_is_named_once_with_the_time():
    seen = Cluster()
    assert not seen.at(1000.0, 2) and not seen.at(1010.0, 0) and not seen.at(1039.0, 0)
    since = time.strftime("%H:%M:%S", time.localtime(1010.0))
    assert seen.at(1040.0, 0) == f"crema: no worker is left since {since}, and Dask will start none"
    seen.at(2000.0, 0)
    assert len(seen.said) == 1
    seen.at(2001.0, 1)
    seen.at(2002.0, 0)
    seen.at(2032.0, 0)
    assert len(seen.said) == 2


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ({"status": "finished"}, ""),  # nothing waits for a worker
        ({"cluster": SimpleNamespace(_adaptive=object())}, "Dask may start others"),
        (
            {"cluster": SimpleNamespace(workers={0: SimpleNamespace(status=SimpleNamespace(name="running"))})},
            "Dask may start others",
        ),
        (
            {"cluster": SimpleNamespace(workers={0: SimpleNamespace(status=SimpleNamespace(name="closed"))})},
            "Dask will start none",
        ),
    ],
)  # fmt: skip
def test_plans_of_dask_are_said_as_far_as_they_are_known(case, said):
    seen = Cluster(**case)
    for now_s, n in ((0.0, 1), (10.0, 0), (60.0, 0)):
        line = seen.at(now_s, n)
    assert said in line and bool(line) == bool(said)


def test_workers_that_have_not_come_yet_are_not_missed():
    seen = Cluster()
    assert not seen.at(0.0, 0) and not seen.at(100.0, 0)


def test_an_earlier_dask_lists_its_workers_alone():
    seen = Cluster()
    seen.client._scheduler_identity = {"id": "one", "workers": {"tcp://a": {}}}
    seen.watch._look(5.0)
    assert seen.watch._had_workers


def test_a_restarted_scheduler_is_named_once():
    seen = Cluster()
    assert not seen.at(0.0, 1)
    assert "the scheduler was restarted" in seen.at(1.0, 0, "two")
    seen.at(2.0, 1, "two")
    assert len(seen.said) == 1 and seen.restarts == 1


def test_an_analysis_that_hangs_without_workers_is_told_why(tmp_path, monkeypatch, capfd):
    from distributed import Client, LocalCluster

    monkeypatch.setattr(_watch, "NONE_LEFT_S", 1.0)
    monkeypatch.setattr(_watch, "LOOK_S", 0.2)
    said = ""
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
        crema.MetricsCollector(client, output=tmp_path, quiet=True, timeout=20),
    ):  # fmt: skip
        assert client.submit(sum, [1, 2]).result() == 3
        (worker,) = cluster.workers.values()
        cluster.sync(worker.close)
        waiting = client.submit(sum, [3, 4])
        end = time.monotonic() + 20
        while "no worker" not in said and time.monotonic() < end:
            time.sleep(0.1)
            said += capfd.readouterr().err
        waiting.cancel()
    assert re.search(
        r"crema: no worker is left since \d\d:\d\d:\d\d, and Dask will start none\n", said
    )


@pytest.mark.slow
def test_a_restarted_scheduler_is_named_as_that(tmp_path, capfd):
    from distributed import Client

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, dask, started = f"tcp://127.0.0.1:{port}", [sys.executable, "-m", "dask"], []

    def start(*command):
        command = [*dask, *command, "--no-dashboard"]
        started.append(Child(command, cwd=tmp_path, stderr=subprocess.DEVNULL))
        return started[-1]

    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", str(port)]
    worker = ["worker", address, "--nthreads", "1", "--no-nanny"]
    said = ""
    try:
        first = start(*scheduler)
        start(*worker)
        with Client(address, timeout=60) as client:
            client.wait_for_workers(1, timeout=60)
            with crema.MetricsCollector(client, output=tmp_path, quiet=True, timeout=20) as mc:
                client.submit(sum, range(10)).result(timeout=30)
                first.kill()
                first.wait(30)
                start(*scheduler)
                start(*worker)
                wait_for(
                    lambda: client.status == "running" and client.scheduler_info()["workers"], 60
                )
                end = time.monotonic() + 20
                while "restarted" not in said and time.monotonic() < end:
                    time.sleep(0.1)
                    said += capfd.readouterr().err
                assert client.submit(sum, range(100)).result(timeout=30) == 4950
    finally:
        for child in reversed(started):
            child.kill()
            child.wait(30)
    assert "crema: the scheduler was restarted: what runs from now on is not recorded" in said
    assert mc.verdict == "PARTIAL"
    texts = [reason["text"] for reason in mc.reasons]
    assert any(
        "the scheduler was restarted, and this worker joined after that" in t for t in texts
    ), texts
    assert not [
        t for t in texts if "ClusterError" in t or "checkpointer" in t or "plugin is not" in t
    ]
    assert all("restarted" in t for t in texts), texts
