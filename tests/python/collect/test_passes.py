"""What recorded rows mean: passes over the same input, chunks that nobody recorded, input that coffea dropped, unknown values."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import math
import time

import distributed
import pytest
from coffea import processor
from coffea.nanoevents import BaseSchema
from distributed import Client

import crema
import hook_support as support
import missing
from clusters import LocalCluster, ProcessPool
from crema import MetricsCollector
from crema.collect import _runner
from crema.hook import _writers
from crema.read.html.page import first_screen
from waiting import wait_for

EVENTS = 3 * support.EVENTS  # of the three files


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def fileset(tmp_path):
    (tmp_path / "files").mkdir()
    return support.make_files(tmp_path / "files")


def analyse(mc, executor, fileset, instance, **options):
    options.setdefault("savemetrics", True)
    options.setdefault("checkpointer", mc.checkpointer)
    runner = processor.Runner(
        executor=executor, schema=BaseSchema, chunksize=support.CHUNK, **options
    )
    return runner(fileset, processor_instance=instance)


class Other(support.Counter):
    """Another processor over the same input."""


def _dask(client, heavy_input=None):
    return processor.DaskExecutor(client=client, status=False, heavy_input=heavy_input)


EXECUTORS = {
    "dask": _dask,
    "heavy input": functools.partial(_dask, heavy_input=b"heavy"),
    "futures": lambda client: processor.FuturesExecutor(pool=ProcessPool, workers=2, status=False),
    "iterative": lambda client: processor.IterativeExecutor(status=False),
}


@pytest.mark.parametrize("name", EXECUTORS)
def test_the_same_input_twice_counts_twice(client, fileset, tmp_path, name):
    """Whether Dask's keys repeat or not: both results were used, none of it is waste."""
    cluster = client if name in ("dask", "heavy input") else None
    with MetricsCollector(cluster, support.Counter(), output=tmp_path, quiet=True) as mc:
        executor = EXECUTORS[name](client)
        first, _ = analyse(mc, executor, fileset, support.Counter())
        if cluster is not None:
            wait_until_forgotten(client)
        second, report = analyse(mc, executor, fileset, support.Counter())
        mc.set_coffea_report(report)
    assert first["n"] == second["n"] == EVENTS
    assert mc.verdict == "COMPLETE", mc.reasons
    with crema.open(mc.path) as run:
        chunks, metrics = run["chunks"], run.summary()
        passes = run["summary/per_pass"].set_index("pass")
        wasted = run["summary/wasted"]
    assert len(chunks) == 18
    assert sorted(chunks["pass"]) == [1] * 9 + [2] * 9
    assert set(chunks["attempt"]) == {1}
    assert not (chunks["quality"] & 8).any()
    assert metrics["total_events"] == 2 * EVENTS
    assert metrics["num_chunks"] == 18
    assert metrics["num_superseded_attempts"] == 0
    assert len(wasted) == 0
    assert list(passes.n_events) == [EVENTS, EVENTS]
    assert list(passes.n_chunks) == [9, 9]
    assert passes.cpu_s.sum() == pytest.approx(metrics["process_cpu_time"])
    assert math.isnan(metrics["closure_events_chunks_vs_report"])  # one report, two passes


def wait_until_forgotten(client):
    """Until Dask has no result any more that a second call would use instead of computing it: futures are released late."""
    gc.collect()
    wait_for(lambda: client.run_on_scheduler(lambda dask_scheduler: not dask_scheduler.tasks), 60)


@pytest.mark.parametrize("all_futures", [True, False])
def test_results_that_dask_still_has_are_not_missing(
    client, fileset, tmp_path, monkeypatch, all_futures
):
    """The same input again while futures of the first call live, of its chunks or of their sum only: coffea counts both."""
    held, submit = [], client.map

    def hold(*args, **options):
        held[:] = [*(held if all_futures else []), submit(*args, **options)]
        return held[-1]

    monkeypatch.setattr(client, "map", hold)
    with MetricsCollector(client, support.Counter(), output=tmp_path, quiet=True) as mc:
        for _ in range(2):
            out, report = analyse(mc, _dask(client), fileset, support.Counter())
        mc.set_coffea_report(report)
    assert out["n"] == EVENTS
    assert mc.verdict == "COMPLETE", mc.reasons
    with crema.open(mc.path) as run:
        assert run.attributes["coffea.processed_chunks"] == "18"
        chunks, counts = run["chunks"], run["custom"]
    if hasattr(processor, "Ok"):  # keys do not repeat
        assert len(chunks) == 18
    else:
        again = counts.chunk_id[counts.metric == "crema.tasks_again"]
        assert chunks.task_key.isin(again).all()
        assert not all_futures or len(chunks) == 9
        reused = sum(note["count"] for note in mc.notes if note["code"] == "result_reused")
        assert reused == 18 - len(chunks.groupby(["chunk_id", "pass"]))


@pytest.mark.skipif(hasattr(processor, "Ok"), reason=missing.OTHER_VERSIONS)
def test_a_submission_that_is_still_under_way_when_the_block_ends_counts(
    client_here, fileset, tmp_path, monkeypatch
):
    """The client holds the result already: the second call ends before the scheduler has read its graphs."""
    held, submit = [], client_here.map
    monkeypatch.setattr(
        client_here, "map", lambda *a, **o: held.append(submit(*a, **o)) or held[-1]
    )
    with MetricsCollector(client_here, support.Counter(), output=tmp_path, quiet=True) as mc:
        analyse(mc, _dask(client_here), fileset, support.Counter())
        monkeypatch.setattr(distributed.scheduler, "offload", late)
        out, report = analyse(mc, _dask(client_here), fileset, support.Counter())
        mc.set_coffea_report(report)
    assert out["n"] == EVENTS
    assert mc.verdict == "COMPLETE", mc.reasons
    assert [(note["code"], note["count"]) for note in mc.notes] == [("result_reused", 9)]


async def late(function, *args, **kwargs):
    """As on a busy scheduler."""
    await asyncio.sleep(0.5)
    return function(*args, **kwargs)


def test_a_run_beside_another_one_has_used_no_result_again(client, fileset, tmp_path):
    """The scheduler has the plugins of both runs; each hears of every submission."""
    with (
        MetricsCollector(client, support.Counter(), output=tmp_path, quiet=True),
        MetricsCollector(client, support.Counter(), output=tmp_path, quiet=True) as mc,
    ):
        _, report = analyse(mc, _dask(client), fileset, support.Counter())
        mc.set_coffea_report(report)
    assert (mc.verdict, mc.notes) == ("COMPLETE", [])
    with crema.open(mc.path) as run:
        assert len(run["chunks"]) == 9
        assert "crema.tasks_again" not in set(run["custom"].metric)


def listed_twice(fileset):
    """The fileset with its first file once more, and that file."""
    path = next(iter(fileset["ds0"]["files"]))
    return {"ds0": [*fileset["ds0"]["files"], path], "ds1": list(fileset["ds1"]["files"])}, path


@pytest.mark.parametrize("name", ["dask", "iterative"])
def test_a_file_that_is_listed_twice_is_noted(client, fileset, tmp_path, name):
    """Dask computes its chunks once, other executors twice; coffea's result counts them twice."""
    twice, path = listed_twice(fileset)
    cluster = client if name == "dask" else None
    with MetricsCollector(cluster, support.Counter(), output=tmp_path, quiet=True) as mc:
        runner = processor.Runner(
            EXECUTORS[name](client), schema=BaseSchema, chunksize=support.CHUNK, savemetrics=True
        )
        out, report = runner(twice, support.Counter(), treename="Events")
        mc.set_coffea_report(report)
    assert out["n"] == EVENTS + support.EVENTS
    assert report["chunks"] == 12
    assert mc.verdict == "COMPLETE", mc.reasons
    assert [(note["code"], note["subject"]) for note in mc.notes] == [("input_repeated", path)]
    with crema.open(mc.path) as run:
        assert len(run["chunks"]) == (9 if name == "dask" else 12)


def test_a_chunk_that_is_missing_is_missed_beside_a_file_that_is_listed_twice(
    client, fileset, tmp_path
):
    twice, _ = listed_twice(fileset)
    with MetricsCollector(client, support.Counter(), output=tmp_path, quiet=True) as mc:
        runner = processor.Runner(
            _dask(client), schema=BaseSchema, chunksize=support.CHUNK, savemetrics=True
        )
        _, report = runner(twice, support.Counter(), treename="Events")
        mc.set_coffea_report({**report, "chunks": report["chunks"] + 1})
    assert mc.verdict == "PARTIAL"
    assert [(r["code"], r["count"]) for r in mc.reasons] == [("chunks_unseen", 1)]


def test_two_processors_are_two_passes(client, fileset, tmp_path):
    with MetricsCollector(client, support.Counter(), output=tmp_path, quiet=True) as mc:
        for instance in (support.Counter(), Other()):
            analyse(mc, _dask(client), fileset, instance)
    with crema.open(mc.path) as run:
        chunks = run["chunks"]
        by_pass = chunks.groupby("pass", observed=True)["task_prefix"].unique()
    assert [list(names) for names in by_pass] == [["Counter"], ["Other"]]
    assert not (chunks["quality"] & 8).any()


def test_a_runner_without_the_checkpointer_is_no_complete_run(
    client, fileset, tmp_path, monkeypatch
):
    monkeypatch.setattr(_runner, "_replace_all", lambda: None)  # as where the Runner is elsewhere
    with MetricsCollector(client, support.Counter(), output=tmp_path, quiet=True) as mc:
        _, report = analyse(mc, _dask(client), fileset, support.Counter(), checkpointer=None)
        mc.set_coffea_report(report)
    assert mc.verdict == "PARTIAL"
    (reason,) = mc.reasons
    assert (reason["code"], reason["count"]) == ("chunks_unseen", 9)
    with crema.open(mc.path) as run:
        assert [r["code"] for r in run.reasons] == ["chunks_unseen"]
        rows = run["summary/bottlenecks"]
        assert not rows["evidence"].str.contains("nan").any(), list(rows["evidence"])


@pytest.mark.parametrize("savemetrics", [True, False])
def test_processes_that_record_nothing_make_no_complete_run(fileset, tmp_path, savemetrics):
    """They can tell nobody, but their chunks are in the result."""
    with MetricsCollector(None, support.Counter(), output=tmp_path, quiet=True) as mc:
        analyse_unrecorded(mc, fileset, savemetrics=savemetrics)
    assert mc.verdict == "PARTIAL"
    assert [(r["code"], r["count"]) for r in mc.reasons] == [("chunks_unseen", 9)]


def analyse_unrecorded(mc, fileset, **options):
    register = _writers.register_path(mc._config.spool_dir(), mc._config.run_id)
    aside = register.with_suffix(".aside")
    with contextlib.suppress(FileNotFoundError):
        register.rename(aside)
    register.mkdir()  # it cannot be written to
    result = analyse(mc, EXECUTORS["futures"](None), fileset, support.Counter(), **options)
    register.rmdir()
    with contextlib.suppress(FileNotFoundError):
        aside.rename(register)
    return result


@pytest.mark.skipif(not hasattr(processor, "Ok"), reason=missing.OTHER_VERSIONS)
def test_chunks_of_a_result_type_are_missed(fileset, tmp_path):
    with MetricsCollector(None, support.Counter(), output=tmp_path, quiet=True) as mc:
        result = analyse_unrecorded(
            mc, fileset, savemetrics=False, use_result_type=True, skipbadfiles=True
        )
    assert result.unwrap()["n"] == EVENTS
    assert [(r["code"], r["count"]) for r in mc.reasons] == [("chunks_unseen", 9)]


@pytest.mark.parametrize("name", ["dask", "iterative"])
def test_files_that_coffea_dropped_are_named(client, fileset, tmp_path, name, capsys):
    marks = tmp_path / "marks"
    marks.mkdir()
    instance = support.Flaky(marks, OSError, always="f0.root")
    cluster = client if name == "dask" else None
    with MetricsCollector(cluster, support.Flaky, output=tmp_path) as mc:
        out, report = analyse(mc, EXECUTORS[name](client), fileset, instance, skipbadfiles=True)
        mc.set_coffea_report(report)
    assert out["n"] == EVENTS - support.CHUNK
    assert mc.verdict == "COMPLETE", mc.reasons  # the user asked for it
    (note,) = mc.notes
    assert (note["code"], note["count"]) == ("input_dropped", support.CHUNK)
    assert note["subject"].endswith("f0.root")
    with crema.open(mc.path) as run:
        assert run.notes == mc.notes
    assert "200 events of this file are not in the result" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["dask", "futures"])
def test_files_that_coffea_could_not_open_are_named(client, fileset, tmp_path, name):
    bad = tmp_path / "files" / "bad.root"
    bad.write_bytes(b"root" + bytes(500))
    fileset["ds0"]["files"][str(bad)] = "Events"
    cluster = client if name == "dask" else None
    with MetricsCollector(cluster, support.Counter(), output=tmp_path, quiet=True) as mc:
        executor = EXECUTORS[name](client)
        instance = support.Counter()
        out, _ = analyse(
            mc, executor, fileset, instance, skipbadfiles=(OSError, ValueError, Exception)
        )
    assert out["n"] == EVENTS
    assert mc.verdict == "COMPLETE", mc.reasons
    assert [(note["code"], note["subject"]) for note in mc.notes] == [("input_dropped", str(bad))]


def test_chunks_of_the_users_checkpointer_are_not_missing(fileset, tmp_path):
    class Keeps(processor.CheckpointerABC):
        """Has everything already."""

        kept: dict = {}  # noqa: RUF012

        def load(self, metadata, processor_instance):
            return self.kept.get((metadata["filename"], metadata["entrystart"]))

        def save(self, output, metadata, processor_instance):
            self.kept[metadata["filename"], metadata["entrystart"]] = output

    for expected in (9, 0):
        with MetricsCollector(None, support.Counter(), output=tmp_path, quiet=True) as mc:
            executor = processor.IterativeExecutor(status=False)
            own = mc.checkpointer_around(Keeps())
            _, report = analyse(mc, executor, fileset, support.Counter(), checkpointer=own)
            mc.set_coffea_report(report)
        assert report["chunks"] == 9
        assert mc.verdict == "COMPLETE", mc.reasons
        with crema.open(mc.path) as run:
            assert len(run["chunks"]) == expected


class FailsAtTheEnd(support.Counter):
    def process(self, events):
        if events.metadata["entrystart"]:
            raise ValueError("no such jet")
        return super().process(events)


def test_a_call_without_a_result_is_noted(fileset, tmp_path):
    one = {"ds0": fileset["ds0"]}
    with MetricsCollector(None, support.Counter(), output=tmp_path, quiet=True) as mc:
        executor = processor.IterativeExecutor(status=False, retries=0)
        with pytest.raises(Exception, match="no such jet"):
            analyse(mc, executor, one, FailsAtTheEnd())
        analyse(mc, executor, one, support.Counter())
    assert mc.verdict == "COMPLETE"
    assert [note["code"] for note in mc.notes] == ["result_missing"]
    with crema.open(mc.path) as run:
        assert run.notes == mc.notes
        assert run.summary()["num_chunks"] == 7  # six, and one of the call that failed
        assert len(json.loads(run.attributes["coffea.failed_calls"])) == 1


class FailsLate(support.Counter):
    """All chunks of a file but the last."""

    def process(self, events):
        if events.metadata["entrystart"] >= support.EVENTS - support.CHUNK:
            raise ValueError("no such jet")
        return super().process(events)


def test_chunks_of_a_call_that_failed_do_not_stand_for_missing_ones(fileset, tmp_path):
    one = {"ds0": fileset["ds0"]}
    with MetricsCollector(None, support.Counter(), output=tmp_path, quiet=True) as mc:
        for _ in range(2):
            executor = processor.IterativeExecutor(status=False, retries=0)
            with pytest.raises(Exception, match="no such jet"):
                analyse(mc, executor, one, FailsLate())
        analyse_unrecorded(mc, one, savemetrics=False)
    assert mc.verdict == "PARTIAL"
    assert [(r["code"], r["count"]) for r in mc.reasons] == [("chunks_unseen", 6)]
    with crema.open(mc.path) as run:
        chunks = run["chunks"]
        assert (chunks.status == "ok").sum() == 4
        start_ns, end_ns = json.loads(run.attributes["coffea.without_result_ns"])
        began_ns = chunks.t_start_ns - run.attributes["t_run_start_ns"]
    assert began_ns.between(start_ns, end_ns).all()


def test_chunks_that_dask_kept_of_a_failed_call_are_not_missing(client, fileset, tmp_path):
    """A notebook keeps the traceback of a cell that failed, and with it the futures: the next call uses what they have."""
    held = []
    marks = tmp_path / "marks"
    marks.mkdir()
    instance = support.Flaky(marks, ValueError)
    with MetricsCollector(client, support.Flaky, output=tmp_path, quiet=True) as mc:
        try:
            analyse(mc, processor.DaskExecutor(client, status=False, retries=0), fileset, instance)
        except Exception as error:
            held.append(error)
        out, report = analyse(mc, _dask(client), fileset, instance)
        mc.set_coffea_report(report)
    assert out["n"] == EVENTS
    assert mc.verdict == "COMPLETE", mc.reasons
    assert held


def analyse_while_the_clock_is_set(fileset, directory):
    """In a process of its own: Dask's loops of this one would wait until it is what it was."""
    seconds, nanoseconds, first = time.time, time.time_ns, time.time()

    def set_the_clock(events):
        if time.time() > first:
            time.time = lambda: seconds() - 7200
            time.time_ns = lambda: nanoseconds() - 7200 * 10**9
        return support.Counter().process(events)

    with MetricsCollector(None, set_the_clock, output=directory, quiet=True) as mc:
        _, report = analyse(mc, processor.IterativeExecutor(status=False), fileset, set_the_clock)
    return report["processtime"], mc.verdict, mc.notes, mc.path


def test_a_wall_clock_that_is_set_changes_no_duration(fileset, tmp_path):
    """Two hours back, in the middle of the first chunk: coffea then says that it took -7,200 s."""
    began = time.monotonic()
    with ProcessPool(1) as pool:
        processtime, verdict, notes, path = pool.submit(
            analyse_while_the_clock_is_set, fileset, tmp_path
        ).result()
    took_s = time.monotonic() - began
    assert processtime < -7000
    assert verdict == "COMPLETE"
    (note,) = [note for note in notes if note["code"] == "clock_stepped"]
    assert "-7200." in note["text"]
    with crema.open(path) as run:
        assert run.notes == notes
        assert float(run.attributes["clock_stepped_s"]) == pytest.approx(-7200, abs=0.5)
        assert run["chunks"].wall_s.between(0, took_s).all()
        metrics = run.summary()
        assert run["summary/bottlenecks"].saving_s.isna().all()
        assert "no diagnosis: the wall clock was set" in first_screen(run)
        assert "the wall clock was set" in run.plot.waterfall().texts[0].get_text()
    assert 0 < metrics["process_wall_time"] < metrics["wall_time"] < took_s
