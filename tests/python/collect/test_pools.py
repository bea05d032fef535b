"""Executors that work on this machine make their processes when they need them: what that costs is their start, not workers that came late."""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import time

import pytest
from coffea import processor

import crema
import hook_support as support
from crema import MetricsCollector
from crema.read.html.sentences import findings

LATE = "scaling"


def _pool(workers):
    return functools.partial(processor.FuturesExecutor, workers=workers, status=False)


def _measured(make, fileset, directory, times=1):
    with MetricsCollector(processor_instance=support.Counter(), output=directory, quiet=True) as mc:
        for _ in range(times):
            support.run(make(), mc.checkpointer, fileset, support.Counter())
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    return mc.path


def _told(path):
    """Seconds of each cause, of each category of the budget, and the run's sentences."""
    with crema.open(path) as run:
        causes = {row.name: row.thread_seconds for row in run.rows("summary/bottlenecks")}
        spent = {row.category: row.thread_seconds for row in run.rows("summary/waterfall")}
        sentences = " ".join(each.finding for each in findings(run, shown=20))
        return causes, spent, sentences, run["chunks"], run.table("dict/worker"), run.summary()


@pytest.fixture(scope="module")
def fileset(tmp_path_factory):
    return support.make_files(tmp_path_factory.mktemp("files"))


def test_the_start_of_a_pool_is_not_a_late_worker(fileset, tmp_path):
    path = _measured(_pool(3), fileset, tmp_path)
    causes, spent, sentences, chunks, known, summary = _told(path)
    assert causes[LATE] == 0 and "came late" not in sentences
    assert abs(spent["residual"]) < 1e-6
    # A process of such a pool imports coffea before its first chunk; it exists meanwhile.
    first = chunks.groupby("worker_id").t_start_ns.min()
    began = known.set_index("id").t_first_ns
    waited_s = 1e-9 * (first - began[first.index])
    assert (waited_s > 0.3).all(), waited_s
    assert spent["idle_startup"] + spent["idle_join"] > 0.5 * waited_s.sum()
    assert causes["startup"] >= spent["idle_startup"] + spent["idle_join"]
    # Also what passed before there was any process: no cause but the start has it.
    cap_s = sum(spent.values())
    with crema.open(path) as run:
        before_s = 1e-9 * (chunks.t_start_ns.min() - run.attributes["t_run_start_ns"])
    assert causes["startup"] >= before_s * cap_s / summary["wall_time"] - 0.1 * cap_s
    assert "executor started its processes" in sentences


@pytest.mark.slow
def test_threads_are_none_between_pools(fileset, tmp_path):
    with MetricsCollector(processor_instance=support.Counter(), output=tmp_path, quiet=True) as mc:
        support.run(_pool(2)(), mc.checkpointer, fileset, support.Counter())
        time.sleep(3)
        support.run(_pool(2)(), mc.checkpointer, fileset, support.Counter())
    causes, spent, sentences, *_ = _told(mc.path)
    assert causes[LATE] == 0 and "came late" not in sentences
    assert spent["absent"] > 2 * 3 - 1 and causes["starved"] > 2 * 3 - 1


def test_own_process_is_there_all_the_time(fileset, tmp_path):
    make = functools.partial(processor.IterativeExecutor, status=False)
    causes, spent, sentences, chunks, known, _ = _told(_measured(make, fileset, tmp_path))
    assert causes[LATE] == 0 and "came late" not in sentences
    assert spent["absent"] < 0.01 * sum(spent.values())
    assert len(known) == 1 and known.t_first_ns[0] <= chunks.t_start_ns.min()


@pytest.mark.slow
def test_a_pool_from_before_the_block_is_there_all_the_time(fileset, tmp_path):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(support.spin, [0.5, 0.5])) == [None, None]
        make = functools.partial(processor.FuturesExecutor, pool=pool, status=False)
        causes, spent, sentences, *_ = _told(_measured(make, fileset, tmp_path, 2))
    assert causes[LATE] == 0 and "came late" not in sentences
    assert spent["absent"] < 0.1 * sum(spent.values())
