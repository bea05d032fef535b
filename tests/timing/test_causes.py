"""Analyses that wait for one thing each, in a real cluster: the file names it, with section, server or peer, and the line."""

from __future__ import annotations

import contextlib
import inspect

import numpy as np
import pytest
import uproot
from coffea import processor
from distributed import Client, LocalCluster

import crema
import hook_support as support
from crema.hook import _kernel
from crema.read.html.sentences import findings
from late_server import answers_after
from measured_runs import table
from planted_waits import Asks, Children, Locked, Pool, Python, Reads
from throttled import throttled

pytestmark = [
    pytest.mark.timing,
    pytest.mark.skipif(bool(_kernel.why_not()), reason=_kernel.why_not()),
]
# Of a run of some seconds, on a machine with other work.
NOT_OURS = {
    "startup", "drained", "preprocessing", "tail", "starved", "cores", "scaling", "latency", "imbalance",
}  # fmt: skip


def marked_line(kind: type) -> str:
    lines, first = inspect.getsourcelines(kind)
    [at] = [i for i, line in enumerate(lines) if "# HERE" in line]
    return f"planted_waits.py:{first + at}"


@pytest.fixture(scope="module")
def service():
    with answers_after(0.2, "127.0.0.2") as address:
        yield address


@contextlib.contextmanager
def cluster(workers: int, threads: int, processes: bool = True):
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=processes,
            dashboard_address=None,
        ) as made,
        Client(made) as client,
    ):
        yield client


def recorded(client, fileset, instance, output, chunksize, **options):
    """The run file."""
    executor = processor.DaskExecutor(client=client, status=False)
    runner = processor.Runner(executor, schema=support.BaseSchema, chunksize=chunksize, **options)
    with crema.MetricsCollector(client, instance, output=output, quiet=True) as mc:
        runner(fileset, processor_instance=instance)
    return mc.path


def rows_of(path):
    ranking = table(path, "summary/bottlenecks").sort_values("rank")
    print(ranking[["name", "fraction", "status", "evidence"]].head(6).to_string())
    return ranking[~ranking.name.isin(NOT_OURS)].reset_index()


@pytest.mark.parametrize(
    ("kind", "workers", "threads", "processes", "cause"),
    [
        (Pool, 1, 1, True, "native"),
        (Asks, 1, 2, True, "service"),
        (Children, 1, 1, True, "children"),
        (Python, 1, 4, True, "gil"),
        (Python, 4, 1, False, "gil"),
        (Locked, 1, 4, True, "lock"),
    ],
)
def test_cause_of_the_wait_comes_first_with_its_line(
    kind, workers, threads, processes, cause, service, tmp_path
):
    instance = kind(service) if kind is Asks else kind()
    fileset = support.make_files(
        tmp_path, 4 * workers
    )  # each looks for itself, rarely where looks are dear
    with cluster(workers, threads, processes) as client:
        path = recorded(client, fileset, instance, tmp_path, 300)
    rows = rows_of(path)
    assert rows.name[0] == cause
    assert marked_line(kind) in rows.evidence[0]
    with crema.open(path) as file:
        [said] = [f.finding for f in findings(file, shown=20) if f.name == cause]
        assert marked_line(kind) in said
        looks = file["looks"]
        seen = looks[looks.phase == "process"].groupby("state", observed=False).seconds.sum()
        assert seen["unknown"] <= 0.05 * seen.sum()
    if kind is Asks:
        assert "section inference" in said and f"{service[0]}:{service[1]}" in said


def test_a_slow_server_is_named_and_loses_nothing_to_opening(tmp_path):
    for i in range(12):
        with uproot.recreate(tmp_path / f"f{i}.root") as file:
            file.mktree("Events", {"x": "f8"}).extend({"x": np.random.default_rng(i).random(2000)})
    with throttled(tmp_path, 0.005) as fast, throttled(tmp_path, 0.15) as slow:
        files = {f"{slow if i % 2 else fast}/f{i}.root": "Events" for i in range(12)}
        with cluster(1, 2) as client:
            path = recorded(client, {"ds": {"files": files}}, Reads(), tmp_path, 1000)
    rows = rows_of(path)
    assert rows.name[0] == "slow_servers"
    assert slow.partition("://")[2] in rows.evidence[0]


def test_opening_is_waiting_before_process_without_coffeas_metrics(tmp_path):
    with uproot.recreate(tmp_path / "f.root") as file:
        file.mktree("Events", {"x": "f8"}).extend({"x": np.ones(4000)})
    with throttled(tmp_path, 0.15) as server, cluster(1, 2) as client:
        files = {f"{server}/f.root": "Events"}
        path = recorded(client, {"ds": {"files": files}}, Reads(), tmp_path, 500, savemetrics=False)
    rows = rows_of(path)
    assert rows.name[0] == "opening"
    assert server.partition("://")[2] in rows.evidence[0]


def test_threads_of_pure_python_wait_for_all_others(tmp_path):
    """k threads of pure Python wait (k - 1) / k of the time, on idle cores."""
    with cluster(1, 4) as client:
        path = recorded(client, support.make_files(tmp_path, 4), Python(), tmp_path, 300)
    chunks = table(path, "chunks")
    full = chunks.sort_values("t_start_ns").head(8)  # four at a time
    waits = (full.gil_s.sum() + full.cpu_wait_s.sum()) / (full.wall_s.sum() + full.open_s.sum())
    assert waits == pytest.approx(3 / 4, abs=0.05)
