"""Whatever executes the analysis, the records of its chunks are the same."""

from __future__ import annotations

import concurrent.futures
import functools
import importlib.util
import multiprocessing
import os
import sys
import time

import pytest
from coffea import processor
from distributed import Client

import crema
import hook_support as support
import missing
import spool_reader
from clusters import LocalCluster
from crema import MetricsCollector
from crema.hook import chunks
from crema.hook.chunks import ChunkHook
from paths import ROOT

SUPPORT = ROOT / "tests" / "lib"  # modules that the workers of a pool import too

# What the analysis is run with: options of the Runner, of the executor, of DaskExecutor alone.
VARIANTS = {
    "plain": ({}, {}, {}),
    "no metrics": ({"savemetrics": False}, {}, {}),
    "some chunks, not compressed": ({"maxchunks": 2}, {"compression": None}, {"treereduction": 2}),
    "a bad file": ({"skipbadfiles": True}, {"retries": 1}, {"treereduction": 100}),
}


@pytest.fixture(scope="module")
def fileset(tmp_path_factory):
    return support.make_files(tmp_path_factory.mktemp("files"))


def _processes(method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        yield functools.partial(processor.FuturesExecutor, pool=pool, status=False)


def _threads():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield functools.partial(processor.FuturesExecutor, pool=pool, status=False)


def _dask(processes):
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=processes, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield functools.partial(processor.DaskExecutor, client=client, status=False)


def _parsl(directory):
    if importlib.util.find_spec("parsl") is None:
        pytest.skip(missing.PARSL)
    import parsl
    from parsl.providers import LocalProvider

    config = parsl.Config(
        executors=[
            parsl.HighThroughputExecutor(
                address="127.0.0.1",
                max_workers_per_node=2,
                provider=LocalProvider(
                    min_blocks=1, max_blocks=1, worker_init=f"export PYTHONPATH={SUPPORT}"
                ),
            )
        ],
        run_dir=str(directory),
        usage_tracking=0,
    )
    with pytest.MonkeyPatch.context() as patch:  # as in an environment that was activated
        patch.setenv("PATH", f"{sys.prefix}/bin", prepend=os.pathsep)
        with parsl.load(config):
            yield functools.partial(processor.ParslExecutor, status=False)


@pytest.fixture(
    scope="module",
    params=["fork", "spawn", "threads", "dask processes", "dask threads", "parsl"],
)
def executor(request, tmp_path_factory):
    """What makes the executor, given its options; its workers serve all variants."""
    kind, _, how = request.param.rpartition(" ")
    if kind == "dask":
        yield from _dask(how == "processes")
    elif how == "threads":
        yield from _threads()
    elif how == "parsl":
        yield from _parsl(tmp_path_factory.mktemp("parsl"))
    else:
        yield from _processes(how)


def records(make, fileset, directory, variant):
    """Rows of a run's chunks, and coffea's result."""
    options, of_executor, of_dask = VARIANTS[variant]
    settings = support.config(directory)
    bad = variant == "a bad file"
    instance = support.Flaky(directory, OSError, "f0.root") if bad else support.Counter()
    client = getattr(make, "keywords", {}).get("client")
    if client is not None:
        of_executor = {**of_executor, **of_dask}
        with support.recording(client, settings) as streams:
            result = support.run(
                make(**of_executor), ChunkHook(settings), fileset, instance, **options
            )
    else:
        result = support.run(make(**of_executor), ChunkHook(settings), fileset, instance, **options)
        chunks.close(settings.run_id)
        streams = spool_reader.read(settings.spool_dir())
    return spool_reader.chunks(streams), result


@pytest.fixture(scope="module")
def expected(fileset, tmp_path_factory):
    """What IterativeExecutor records, by variant."""
    make = functools.partial(processor.IterativeExecutor, status=False)
    return {
        variant: records(make, fileset, tmp_path_factory.mktemp("iterative"), variant)
        for variant in VARIANTS
    }


def told(rows):
    """What of the rows must be the same everywhere."""
    columns = ["chunk_id", "dataset", "file", "entry_start", "entry_stop", "n_events"]
    columns += ["bytes_read_b", "n_branches", "quality"]
    return sorted(rows[columns].itertuples(index=False, name=None))


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_executor_gives_the_same_records(executor, fileset, tmp_path, variant, expected):
    rows, result = records(executor, fileset, tmp_path, variant)
    iterative, its_result = expected[variant]
    assert set(result["processed"]) == set(its_result["processed"])
    ok = rows[rows.status == "ok"]
    assert told(ok) == told(iterative[iterative.status == "ok"])
    assert len(ok) == len(result["processed"])
    assert (ok.wall_s > 0.01).all() and (ok.cpu_s > 0.009).all() and (rows.provisional == 0).all()
    bad = rows[rows.status != "ok"]
    assert set(bad.status) <= {"error"}
    assert set(bad.chunk_id) == set(iterative[iterative.status == "error"].chunk_id)
    assert len(set(bad.chunk_id)) == (variant == "a bad file")


@pytest.mark.parametrize("executor", ["fork", "spawn", "threads", "parsl"], indirect=True)
def test_a_pool_that_outlives_the_run_costs_neither_verdict_nor_time(executor, fileset, tmp_path):
    for _ in range(2):
        with MetricsCollector(
            processor_instance=support.Counter(), output=tmp_path, quiet=True
        ) as mc:
            result = support.run(executor(), mc.checkpointer, fileset, support.Counter())
            ended = time.monotonic()
        assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
        print(f"verdict after {time.monotonic() - ended:.2f} s")
        assert time.monotonic() - ended < 20
        with crema.open(mc.path) as run:
            assert len(run["chunks"]) == len(result["processed"]) == 9
