"""Every number of the summaries is what docs/metrics.md says: computed again from the raw tables of real runs, without crema."""

from __future__ import annotations

import functools
import math
import os
import pathlib
import signal
import threading
import time

import numpy as np
import pytest
from coffea import processor
from distributed import Client, rejoin, secede, worker_client
from distributed.metrics import context_meter

import crema
import recompute
import recompute_tables as tables
import totals
import workloads
from clusters import LocalCluster
from crema._demo_data import make_fileset
from crema._demo_processor import Schema
from synthetic_runs import make_run

pytestmark = pytest.mark.timeout(240)
CHUNK = 300


class Eventful(workloads.Troubled):
    """Fails once at some entries, marks nested sections, and records numbers of every kind."""

    def process(self, events):
        with crema.track_time("all"):
            with crema.track_bytes("read"):
                len(events.Jet.pt)
            with crema.track_memory("größe ✓"), crema.track_time("inner"):
                time.sleep(0.01)
        for value in (float("nan"), float("-inf"), 10**25):
            crema.record_metric("odd", value, "µs")
        return super().process(events)


def analyse(mc, executor, instance, fileset) -> None:
    runner = processor.Runner(
        executor=executor,
        schema=Schema,
        chunksize=CHUNK,
        savemetrics=True,
        checkpointer=mc.checkpointer,
        metadata_cache={},
    )
    mc.set_coffea_report(runner.run(fileset, instance, treename="Events")["metrics"])


def metered(s: float) -> None:
    with context_meter.meter("lookup"):
        time.sleep(s)
    context_meter.digest_metric(("a", "tuple"), 7, "bytes")
    workloads.burn(s)


def leaves_its_slot(s: float) -> None:
    secede()
    time.sleep(s)
    rejoin()
    workloads.burn(s)


def asks(s: float) -> None:
    with worker_client() as client:
        client.submit(workloads.burn, s, pure=False).result()


def raises(s: float) -> None:
    workloads.burn(s)
    raise ValueError("always")


def kill_a_worker_that_has_results(client: Client) -> None:
    def held(dask_scheduler):
        return {a: len(worker.has_what) for a, worker in dask_scheduler.workers.items()}

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = client.run_on_scheduler(held)
        if found and max(found.values()) >= 5:
            worker = max(found, key=found.get)
            os.kill(client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)
            return
        time.sleep(0.05)


def trouble(directory: pathlib.Path) -> pathlib.Path:
    """Chunks of several sizes that fail, and of which some are computed again since their worker is killed."""
    fileset = make_fileset(directory / "files", 3600, lambda n: None)
    small = make_fileset(directory / "small", 400, lambda n: None)
    fileset["multijet"]["files"] |= small["multijet"]["files"]
    (directory / "marks").mkdir()
    instance = Eventful(0.05, str(directory / "marks"), kill_at=-1, fail_at=[0])
    with (
        LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        Client(cluster) as client,
        crema.MetricsCollector(client, instance, output=directory, quiet=True) as mc,
    ):
        killer = threading.Thread(target=kill_a_worker_that_has_results, args=(client,))
        killer.start()
        analyse(mc, processor.DaskExecutor(client=client, status=False), instance, fileset)
        killer.join()
    return mc.path


def tasks(directory: pathlib.Path) -> pathlib.Path:
    """Tasks without coffea, beside those of another run."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        Client(cluster) as client,
        Client(cluster) as other,
    ):
        with (
            crema.MetricsCollector(other, output=directory, quiet=True),
            crema.MetricsCollector(client, output=directory, quiet=True) as mc,
        ):
            beside = other.map(workloads.burn, [0.1] * 8, pure=False)
            for function in (metered, leaves_its_slot, asks, raises):
                futures = client.map(function, [0.1] * 4, pure=False)
                client.gather(futures, errors="skip")
            other.gather(beside)
        return mc.path


def alone(directory: pathlib.Path) -> pathlib.Path:
    """Without Dask, the same input twice."""
    fileset = make_fileset(directory / "files", 2000, lambda n: None)
    instance = workloads.SlowCounter(0.02)
    with crema.MetricsCollector(None, instance, output=directory, quiet=True) as mc:
        for _ in range(2):
            analyse(mc, processor.IterativeExecutor(status=False), instance, fileset)
    return mc.path


RUNS = {
    "trouble": trouble,
    "tasks": tasks,
    "alone": alone,
    "toy": functools.partial(make_run, kind="toy"),
    "busy": functools.partial(make_run, kind="busy", count=400),
}


@pytest.fixture(scope="module", params=RUNS)
def run(request, tmp_path_factory):
    return recompute.Run(RUNS[request.param](tmp_path_factory.mktemp(request.param)))


@pytest.mark.parametrize("check", totals.ALL, ids=lambda check: check.__name__)
def test_parts_add_up_to_their_total(run, check):
    with crema.open(run.path) as file:
        check(file)


def must_equal(want: dict, got, where: object) -> None:
    for name, value in want.items():
        ours, theirs = float(value), float(got[name])
        if not (math.isnan(ours) and math.isnan(theirs)):
            assert theirs == pytest.approx(ours, rel=1e-6, abs=1e-6), (where, name)


def test_metrics_of_the_whole_run(run):
    must_equal(tables.workflow(run), run.of["summary/workflow"].set_index("name").value, "workflow")


def test_thread_seconds(run):
    rows = run.of["summary/waterfall"].set_index("category").thread_seconds
    want = tables.waterfall(run)
    assert set(want) == set(rows.index)
    must_equal(want, rows, "waterfall")
    assert (rows.drop("residual") >= 0).all()
    assert rows.sum() == pytest.approx(run.cap_s)


def test_efficiency(run):
    must_equal(tables.efficiency(run), run.of["summary/efficiency"].iloc[0], "efficiency")


KEYS = {
    "per_worker": ["worker_id"],
    "per_task_prefix": ["task_prefix_id"],
    "per_activity": ["context", "task_prefix", "activity", "unit", "side"],
    "split": ["side"],
    "per_dataset": ["dataset_id"],
    "per_section": ["section_id"],
    "per_pass": ["pass"],
    "wasted": ["worker_id", "what", "reason"],
}


@pytest.mark.parametrize("table", KEYS)
def test_rows_of_each_table(run, table):
    keys = KEYS[table]
    if table == "split" and not len(run.metered):
        return  # all but its idle row comes from Dask's meters; the next test has that one
    rows = run.of[f"summary/{table}"].to_dict("records")
    found = {tuple(row[key] for key in keys): row for row in rows}
    assert len(found) == len(rows)
    want = getattr(tables, table)(run)
    want = {key if isinstance(key, tuple) else (key,): row for key, row in want.items()}
    assert set(want) == {key for key in found if table != "per_dataset" or found[key]["n_chunks"]}
    for key, row in want.items():
        must_equal(row, found[key], (table, key))


def test_free_threads_of_the_workers_are_those_of_the_run(run):
    """And so are their chunks, events, and the seconds of their threads."""
    workers = run.of["summary/per_worker"]
    idle = run.of["summary/split"].set_index("side").noncpu_s["idle"]
    assert workers.idle_s.sum() == pytest.approx(idle, abs=1e-6)
    assert workers.thread_s.sum() == pytest.approx(run.thread_s)
    if len(run.chunks):
        assert workers.n_chunks.sum() == len(run.counted)
        assert workers.n_events.sum() == run.n_events


def test_models_and_stragglers(run):
    lines = run.of["summary/chunk_model"].set_index("dataset_id")
    want = tables.models(run)
    assert set(lines.index) == set(want)
    for dataset, of in want.items():
        row = {"n": len(of), "a_s": of.a.iloc[0], "b_s_per_event": of.b.iloc[0]}
        must_equal(row, lines.loc[dataset], dataset)
    slow = {row: of.score[row] for of in want.values() for row in of.index[of.score > 3.5]}
    found = run.of["summary/stragglers"].set_index("chunk_row")
    assert set(found.index) == set(slow)
    for row, score in slow.items():
        assert found.score[row] == pytest.approx(score)
        assert found.excess_s[row] + found.predicted_s[row] == pytest.approx(run.chunks.took_s[row])


def test_the_grid(run):
    grid = run.of.file["grid"]
    want = tables.grid(run, grid["time"][:])
    assert set(want) == set(grid) - {"time", "worker"}
    for name, values in want.items():
        np.testing.assert_allclose(grid[name][:], values, rtol=1e-6, atol=1e-6, err_msg=name)
    counts = run.of["worker_count"]
    assert list(zip(counts.t_ns, counts.n_workers, counts.n_threads, strict=True)) == run.steps


def test_causes_share_the_thread_seconds(run):
    causes = run.of["summary/bottlenecks"]
    causes = causes[causes.thread_seconds.notna()]  # waiting for a core is not always measured
    rows = run.of["summary/waterfall"].set_index("category").thread_seconds
    shared = run.cap_s - rows["residual"] - rows["other_runs"]
    assert causes.thread_seconds.sum() == pytest.approx(shared, abs=1e-6)
    assert (causes.thread_seconds >= 0).all()
    bounded = causes[causes.lo.notna()]
    assert (bounded.lo <= bounded.saving_s).all() and (bounded.saving_s <= bounded.hi).all()
    assert not (causes.saving_s > run.wall_s).any()
    if not len(run.chunks):
        assert not causes[causes.thread_seconds > 0].advice.str.contains("chunk").any()


def test_the_window_is_that_of_its_own_tasks(run):
    attributes = run.of.file.attrs
    for name, want in (
        ("t_first_task_ns", min(slot.t0 for slot in run.own)),
        ("t_last_task_end_ns", max(slot.t1 for slot in run.own)),
    ):
        assert attributes[name] == want
