"""Opening and process() are told apart whatever the Runner's flags are, also in chunks that fail: a planted load in each is found again."""

from __future__ import annotations

import concurrent.futures
import functools
import gc
import json
import math
import multiprocessing
import os
import pathlib
import time
import types

import pytest
from coffea import processor
from coffea.nanoevents import BaseSchema, NanoEventsFactory
from distributed import Client

import hook_support as support
import spool_reader
from clusters import LocalCluster
from crema import track_metrics
from crema.collect import _runner
from crema.hook import _recorder, chunks
from crema.hook.chunks import ChunkHook

CPU_S, WAIT_S = 0.03, 0.05  # planted in each part
NEAR_S = (
    0.02  # CPU time beside what was planted: of coffea, and of the clock that is read from outside
)


class Marks:
    """What the planted load sees of itself: time and CPU time of its thread, in the directory that the environment names."""

    @staticmethod
    def put(name):
        at = {"real": time.time(), "cpu": time.thread_time()}
        pathlib.Path(os.environ["PLANTED"], name).write_text(json.dumps(at))

    @staticmethod
    def of(directory):
        return {
            path.name: types.SimpleNamespace(**json.loads(path.read_text()))
            for path in directory.iterdir()
        }


class Slow(BaseSchema):
    """A schema that computes, waits and collects garbage while events are built."""

    def __init__(self, *args, **kwargs):
        Marks.put("open")
        support.spin(CPU_S)
        time.sleep(WAIT_S)
        gc.collect()
        super().__init__(*args, **kwargs)
        Marks.put("opened")


class Cannot(BaseSchema):
    """A schema that fails after some work."""

    def __init__(self, *args, **kwargs):
        Marks.put("open")
        support.spin(CPU_S)
        Marks.put("opened")
        raise ValueError("no such schema")


class Worker(processor.ProcessorABC):
    """Computes and waits; opens the file again, as one that reads friends does; fails if it is told to."""

    def __init__(self, fails=False):
        self.fails = fails

    def process(self, events):
        Marks.put("process")
        support.spin(CPU_S)
        meta = events.metadata
        file = {meta["filename"]: meta["treename"]}
        NanoEventsFactory.from_root(file, schemaclass=BaseSchema).events()
        time.sleep(WAIT_S)
        Marks.put("end")
        if self.fails:
            raise ValueError("as told")
        return {"n": len(events)}

    def postprocess(self, accumulator):
        return accumulator


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    """Where the marks are; the workers, which are started later, inherit the environment."""
    directory = tmp_path_factory.mktemp("planted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANTED", str(directory))
        yield directory


@pytest.fixture(scope="module")
def fileset(tmp_path_factory):
    return support.make_files(tmp_path_factory.mktemp("files"), 1)


def _iterative():
    yield functools.partial(processor.IterativeExecutor, status=False)


def _futures():
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        yield functools.partial(processor.FuturesExecutor, pool=pool, status=False)


def _dask():
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(_import)
        yield functools.partial(processor.DaskExecutor, client=client, status=False)


def _import():
    import coffea.nanoevents  # noqa: F401 - the first import is no part of opening


@pytest.fixture(
    scope="module", params=[_iterative, _futures, _dask], ids=["iterative", "futures", "dask"]
)
def executor(request, marks):
    yield from request.param()


def recorded(make, fileset, directory, instance, **options):
    """Rows of a run's chunks; the run may fail."""
    settings = support.config(directory)
    client = make.keywords.get("client")
    pool = make.keywords.get("pool")
    options = {"schema": Slow, "savemetrics": False, "chunksize": support.EVENTS} | options
    runner = processor.Runner(executor=make(retries=0), **options)

    def run():
        _runner.hook(settings.run_id, functools.partial(ChunkHook, settings))
        try:
            runner(fileset, processor_instance=instance)
        except Exception as error:
            print("the run fails:", error)
        finally:
            _runner.unhook(settings.run_id)

    if client is not None:
        with support.recording(client, settings) as streams:
            run()
    else:
        run()
        if pool is not None:
            pool.submit(chunks.close, settings.run_id).result()
        chunks.close(settings.run_id)
        streams = spool_reader.read(settings.spool_dir())
    rows = spool_reader.chunks(streams)
    print(rows.filter(regex="_s$|status|quality").T.to_string())
    return rows


def must_tell_apart(row, marks):
    """The planted load lies on the right side of the end of opening, with all that it used."""
    seen = Marks.of(marks)
    opened = seen["opened"].real - seen["open"].real
    assert row.open_s >= opened >= CPU_S + WAIT_S
    # Its place in time is late by as long as the thread had no core between the reading of two clocks.
    assert seen["opened"].real - 1e-3 <= row.t_start_ns * 1e-9 <= seen["process"].real + NEAR_S
    assert row.t_end_ns * 1e-9 >= seen["end"].real - 1e-3
    assert row.wall_s >= seen["end"].real - seen["process"].real - 1e-3 >= CPU_S + WAIT_S - 1e-3
    assert abs(row.t_end_ns - row.t_start_ns - row.wall_s * 1e9) < 1e6
    in_opening = seen["opened"].cpu - seen["open"].cpu
    in_process = seen["end"].cpu - seen["process"].cpu
    assert in_opening - 1e-3 <= row.open_cpu_s <= in_opening + NEAR_S
    assert in_process - 1e-3 <= row.cpu_s - row.open_cpu_s <= in_process + NEAR_S
    assert row.open_proc_cpu_s >= 0.99 * row.open_cpu_s
    assert row.proc_cpu_s >= 0.99 * row.cpu_s
    assert 0 < row.open_gc_s < in_opening - CPU_S + 1e-3
    assert row.open_gc_s <= row.gc_s < row.cpu_s
    assert 0 <= row.open_cpu_wait_s <= row.cpu_wait_s
    # What is neither waited for nor planted to sleep was on a core or ready for one.
    assert row.open_cpu_s + row.open_cpu_wait_s <= row.open_s - WAIT_S + NEAR_S
    assert row.cpu_s + row.cpu_wait_s <= row.open_s + row.wall_s - 2 * WAIT_S + NEAR_S
    assert not row.quality & 1 << 7


@pytest.mark.timing
@pytest.mark.parametrize("savemetrics", [False, True])
def test_opening_and_process_each_have_their_times(executor, fileset, tmp_path, marks, savemetrics):
    rows = recorded(executor, fileset, tmp_path, Worker(), savemetrics=savemetrics)
    (row,) = rows.itertuples()
    assert row.status == "ok" and row.quality == 0
    must_tell_apart(row, marks)


def test_opening_and_process_are_told_apart_in_a_chunk_that_fails(
    executor, fileset, tmp_path, marks
):
    (row,) = recorded(executor, fileset, tmp_path, Worker(fails=True)).itertuples()
    assert row.status == "error"
    must_tell_apart(row, marks)


def test_a_chunk_that_cannot_be_opened_was_never_in_process(executor, fileset, tmp_path, marks):
    (row,) = recorded(executor, fileset, tmp_path, Worker(), schema=Cannot).itertuples()
    assert row.status == "error" and row.wall_s == 0
    seen = Marks.of(marks)
    planted_s = seen["opened"].cpu - seen["open"].cpu
    assert planted_s - 1e-3 <= row.open_cpu_s <= planted_s + NEAR_S
    assert row.open_s >= CPU_S and row.cpu_s == row.open_cpu_s
    assert not row.quality & 1 << 7


class Marked(Worker):
    """Recorded by its decorator: nobody sees the file being opened."""

    @track_metrics
    def process(self, events):
        return super().process(events)


def test_opening_that_nobody_saw_is_unknown(fileset, tmp_path, marks):
    settings = support.config(tmp_path)
    _recorder.announce(settings)
    try:
        executor = processor.IterativeExecutor(status=False)
        runner = processor.Runner(executor=executor, schema=Slow, chunksize=support.EVENTS)
        runner(fileset, processor_instance=Marked())
    finally:
        _recorder.withdraw(settings)
        chunks.close(settings.run_id)
    (row,) = spool_reader.chunks(spool_reader.read(settings.spool_dir())).itertuples()
    seen = Marks.of(marks)
    assert row.wall_s >= seen["end"].real - seen["process"].real - 1e-3
    planted_s = seen["end"].cpu - seen["process"].cpu
    assert planted_s <= row.cpu_s <= planted_s + NEAR_S
    assert math.isnan(row.open_s) and math.isnan(row.open_cpu_s) and row.quality == 0


def test_coffea_is_as_before_when_nothing_is_recorded(fileset, tmp_path, marks):
    before = NanoEventsFactory.events
    executor = functools.partial(processor.IterativeExecutor, status=False)
    recorded(executor, fileset, tmp_path, Worker())
    assert NanoEventsFactory.events is before
