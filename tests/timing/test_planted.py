"""Small analyses with a planted trouble, on a real cluster: the diagnosis names it first. `test_bottlenecks.py` has those of the analysis itself."""

from __future__ import annotations

import importlib
import os
import time

import numpy as np
import pytest
import uproot
from distributed import Client, LocalCluster, worker_client
from distributed.diagnostics.plugin import SchedulerPlugin

import crema
import workloads
from measured_runs import CROWDED, NOT_OURS, measure, table, waited_for_cores

pytestmark = pytest.mark.timing

FILES, EVENTS = 4, 60  # events of a file
CHUNK = 10
MEMORY_LIMIT = "800MB"


def _warm_up():
    for module in ("coffea.nanoevents", "coffea.processor", "crema.hook.worker", "workloads"):
        importlib.import_module(module)


@pytest.fixture(scope="module")
def fileset(tmp_path_factory):
    where, files = tmp_path_factory.mktemp("input"), {}
    for i in range(FILES):
        path = where / f"events-{i}.root"
        with uproot.recreate(path) as file:
            types = {"run": "u4", "luminosityBlock": "u4", "event": "u8", "MET_pt": "f4"}
            columns = {name: np.arange(EVENTS).astype(kind) for name, kind in types.items()}
            file.mktree("Events", types).extend(columns)
        files[str(path)] = "Events"
    return {"made": {"files": files}}


@pytest.fixture(scope="module")
def cluster():
    """Two processes of one thread, which their nannies start again."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        memory_limit=MEMORY_LIMIT,
        dashboard_address=None,
        host="127.0.0.1",
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(2)
        client.run(_warm_up)
        yield client


@pytest.fixture
def first(fileset, tmp_path):
    """What comes first in the diagnosis of a run, and its share of the capacity."""

    def run(client, instance, chunksize=CHUNK):
        path = measure(client, fileset, instance, tmp_path, chunksize=chunksize, dask=False).path
        ranking = table(path, "summary/bottlenecks").sort_values("rank")
        print(ranking[["name", "fraction", "status", "evidence"]].head(5).to_string())
        passed_over = NOT_OURS | ({"cores"} if waited_for_cores(path) > CROWDED else set())
        return next(ranking[~ranking.name.isin(passed_over)].itertuples()).name

    return run


def test_one_slow_file(client, first):
    assert first(client, workloads.SlowAtFile(0.1, 0.7, "events-1")) == "slow_files"


def test_one_slow_worker(client, first):
    pid = min(client.run(os.getpid).values())
    assert first(client, workloads.SlowInOneProcess(0.15, 1.0, pid)) == "slow_workers"


def test_outputs_that_are_expensive_to_merge(client, first):
    assert first(client, workloads.MergesSlowly(0.05, 0.1)) == "merging"


def test_garbage(client, first):
    assert first(client, workloads.MakesGarbage(0.2)) == "garbage_collection"


def test_memory_at_its_limit(client, first):
    assert first(client, workloads.FillsItsMemory(0.05, 3.0)) == "spill"


def test_a_lost_worker(client, first, tmp_path):
    instance = workloads.DiesOnce(0.1, str(tmp_path / "died"), CHUNK, after_s=3.0)
    assert first(client, instance) == "wasted"


class Sluggish(SchedulerPlugin):
    """Keeps the scheduler busy whenever a chunk is done."""

    name = "sluggish"

    def transition(self, key, start, finish, *args, **kwargs):
        if finish == "memory" and "Waits" in str(key):
            time.sleep(0.06)


def test_a_worker_without_a_task_did_not_come_late(client, tmp_path):
    busy, *_ = client.nthreads()
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        client.gather(client.map(time.sleep, [0.1] * 10, workers=[busy], pure=False))
    spent = table(mc.path, "summary/bottlenecks").set_index("name")["thread_seconds"]
    waterfall = table(mc.path, "summary/waterfall").set_index("category")["thread_seconds"]
    assert waterfall["idle_join"] > 0.7  # as the row says: before its first task
    assert spent["scaling"] < 0.1
    assert spent["imbalance"] > 0.7


def wait_for_others(seconds, n):
    """A task that leaves its slot while the tasks that it submits run."""
    with worker_client() as client:
        client.gather(client.map(time.sleep, [seconds] * n, pure=False))


def test_a_task_that_left_its_slot_takes_no_time_of_it(client, tmp_path):
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        waits = client.map(wait_for_others, [0.1] * 2, [10] * 2, pure=False)
        client.gather(waits)
    with crema.open(mc.path) as run:
        waterfall = run["summary/waterfall"].set_index("category")
        tasks, activities = run["task_events"], run["activities"]
    assert 2.0 <= waterfall.thread_seconds["unattributed"] < 2.3  # the sleeping
    assert abs(waterfall.fraction["residual"]) < 0.03
    waited = tasks[tasks.task_prefix == "wait_for_others"]
    assert len(waited) == 2 and ((waited.t_stop_ns - waited.t_start_ns) < 1e8).all()
    seceded = activities[activities.activity == "seceded"]
    assert set(seceded.context) == {"busy"} and set(seceded.task_prefix) == {"wait_for_others"}
    assert 1.8 < seceded.value.sum() < 2.6


def test_a_scheduler_that_cannot_keep_up(first):
    """Most chunks take less time than the scheduler needs to hand them to eight threads; one is always being processed."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=8, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(_warm_up)
        client.register_plugin(Sluggish())
        assert first(client, workloads.Waits(0.05, 1.2), chunksize=5) == "latency"
