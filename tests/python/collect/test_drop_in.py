"""Analyses that were written for roastcoffea, or for nobody, are recorded as they are."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import uproot

import crema
import missing
from crema.collect import _runner
from crema.read import roastcoffea
from crema.read.compare import compare
from crema.read.series import MixedRunsError

N_EVENTS, CHUNK = 400, 100


@pytest.fixture(scope="module")
def fileset(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.root"
    with uproot.recreate(path) as file:
        file.mktree("Events", {"x": "f8"}).extend({"x": np.arange(float(N_EVENTS))})
    return {"small": {"files": {str(path): "Events"}}}


@pytest.fixture(scope="module")
def client():
    from distributed import Client

    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"
    ) as client:
        yield client


def make_runner(executor, **more):
    from coffea import processor
    from coffea.nanoevents import BaseSchema

    return processor.Runner(
        executor=executor, schema=BaseSchema, savemetrics=True, chunksize=CHUNK, **more
    )


def counter():
    """A processor."""
    from coffea import processor

    class Counter(processor.ProcessorABC):
        def process(self, events):
            return {"n": len(events)}

        def postprocess(self, accumulator):
            return accumulator

    return Counter()


# -------------------------------------------------------------- a Runner without a checkpointer


def executors(client):
    from coffea import processor

    yield "iterative", None, processor.IterativeExecutor(status=False)
    yield "futures", None, processor.FuturesExecutor(workers=2, status=False)
    yield "dask", client, processor.DaskExecutor(client=client, status=False)


@pytest.fixture
def parsl_executor(tmp_path):
    from coffea import processor

    parsl = pytest.importorskip("parsl", reason=missing.PARSL)
    threads = parsl.ThreadPoolExecutor(max_threads=2)
    config = parsl.Config(executors=[threads], run_dir=str(tmp_path), usage_tracking=0)
    with parsl.load(config):
        yield processor.ParslExecutor(status=False)


def test_a_coffea_that_fails_to_import_is_no_obstacle(monkeypatch):
    def fails(name):
        raise LookupError(name)

    broken = types.ModuleType("coffea.processor")
    broken.__getattr__ = fails
    monkeypatch.setitem(sys.modules, "coffea.processor", broken)
    _runner.hook("0" * 32, lambda own: own)
    assert _runner.unhook("0" * 32) == {}


@pytest.mark.parametrize("kind", ["iterative", "futures", "dask", "parsl"])
def test_a_runner_without_a_checkpointer_is_recorded(kind, client, fileset, tmp_path, request):
    from coffea.processor import Runner

    if kind == "parsl":
        cluster, executor = None, request.getfixturevalue("parsl_executor")
    else:
        (found,) = (row for row in executors(client) if row[0] == kind)
        _, cluster, executor = found
    before = {name: Runner.__dict__[name] for name in ("__call__", "run", "_filter_badfiles")}
    run, instance = make_runner(executor), counter()
    known = dict(vars(run))
    with crema.MetricsCollector(cluster, instance, output=tmp_path, quiet=True) as mc:
        _, report = run(fileset, processor_instance=instance, treename="Events")
        mc.set_coffea_report(report)
    assert mc.verdict == "COMPLETE", mc.reasons
    assert vars(run) == known and run.checkpointer is None
    assert {name: Runner.__dict__[name] for name in before} == before
    with crema.open(mc.path) as file:
        assert len(file["chunks"]) == report["chunks"]
        assert file["chunks"]["n_events"].sum() == report["entries"]
    run(fileset, processor_instance=instance, treename="Events")  # of no run any more


def test_a_checkpointer_of_the_users_own_is_kept_and_recorded(fileset, tmp_path):
    from coffea import processor

    class Own(processor.CheckpointerABC):
        saved = 0

        def load(self, metadata, processor_instance):
            return None

        def save(self, output, metadata, processor_instance):
            Own.saved += 1

    own = Own()
    run = make_runner(processor.IterativeExecutor(status=False), checkpointer=own)
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        _, report = run(fileset, processor_instance=counter(), treename="Events")
    assert run.checkpointer is own and Own.saved == report["chunks"]
    with crema.open(mc.path) as file:
        assert len(file["chunks"]) == report["chunks"]


def test_a_runner_of_the_users_own_class_keeps_what_it_notes_of_itself(fileset, tmp_path):
    from coffea import processor
    from coffea.nanoevents import BaseSchema

    class Noting(processor.Runner):
        n_chunks = 0

        def preprocess(self, *args, **kwargs):
            for chunk in super().preprocess(*args, **kwargs):
                self.n_chunks += 1
                yield chunk

        def run(self, *args, **kwargs):
            del self.note
            return super().run(*args, **kwargs)

    executor = processor.IterativeExecutor(status=False)
    run = Noting(executor=executor, schema=BaseSchema, savemetrics=True, chunksize=CHUNK)
    run.note = "to be removed"
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        _, report = run(fileset, processor_instance=counter(), treename="Events")
    assert run.n_chunks == report["chunks"] == n_chunks(mc)
    assert not hasattr(run, "note") and run.checkpointer is None


def test_hooks_of_several_runs_are_undone_with_the_last_in_any_order():
    from coffea.processor import Runner

    before = Runner.__dict__["run"]
    for run_id in ("a", "b"):
        _runner.hook(run_id, lambda own: own)
    assert Runner.__dict__["run"] is not before
    assert _runner.unhook("a") == {}
    assert Runner.__dict__["run"] is not before
    _runner.unhook("b")
    assert _runner.unhook("b") == {}
    assert Runner.__dict__["run"] is before


def test_a_function_that_another_put_in_its_place_stays(monkeypatch):
    from coffea.processor import Runner

    monkeypatch.setattr(Runner, "run", Runner.__dict__["run"])
    _runner.hook("a", lambda own: own)

    def theirs(self):
        return 1

    Runner.run = theirs
    _runner.unhook("a")
    assert Runner.__dict__["run"] is theirs


def test_the_chunks_of_a_run_that_another_wrapped_before_are_counted(
    fileset, tmp_path, monkeypatch
):
    from coffea import processor

    original = processor.Runner.run
    monkeypatch.setattr(
        processor.Runner, "run", lambda self, *args, **kwargs: original(self, *args, **kwargs)
    )
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        run = make_runner(processor.IterativeExecutor(status=False))
        _, report = run(fileset, processor_instance=counter(), treename="Events")
    with crema.open(mc.path) as file:
        assert file.attributes[_runner.PROCESSED] == str(report["chunks"])


# -------------------------------------------------------------- what cannot be recorded is said


def test_a_processors_task_without_a_chunk_is_told_while_the_run_goes_on(client, tmp_path, capfd):
    said = ""
    with crema.MetricsCollector(client, counter(), output=tmp_path, quiet=True):
        for i in range(3):
            client.submit(abs, -i, key=f"Counter-{i}").result()
        end = time.monotonic() + 20
        while "without a recorded chunk" not in said and time.monotonic() < end:
            time.sleep(0.05)
            said += capfd.readouterr().err
    said += capfd.readouterr().err
    assert said.count("crema: a task 'Counter' has ended without a recorded chunk") == 1


def test_events_that_are_read_without_a_runner_are_noted(fileset, tmp_path):
    from coffea.nanoevents import BaseSchema, NanoEventsFactory

    path = next(iter(next(iter(fileset.values()))["files"]))
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        events = NanoEventsFactory.from_root({path: "Events"}, schemaclass=BaseSchema).events()
        assert len(events)
    assert mc.verdict == "COMPLETE"
    assert [(n["code"], n["subject"]) for n in mc.notes] == [("input_direct", "NanoEventsFactory")]


@pytest.mark.parametrize("inside", [False, True])
def test_apply_to_fileset_is_noted(fileset, tmp_path, monkeypatch, inside):
    """Wherever it was imported: before the block or inside it."""
    pytest.importorskip("dask_awkward", reason=missing.DASK_AWKWARD)
    from coffea.dataset_tools import apply_to_fileset, preprocess
    from coffea.nanoevents import BaseSchema

    available, _ = preprocess(fileset, scheduler="synchronous")
    if inside:
        for name in [name for name in sys.modules if name.startswith("coffea.dataset_tools")]:
            monkeypatch.delitem(sys.modules, name)
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        if inside:
            from coffea.dataset_tools import apply_to_fileset
        apply_to_fileset(len, available, schemaclass=BaseSchema)
    assert [(n["code"], n["subject"]) for n in mc.notes] == [("input_direct", "apply_to_fileset")]


def n_chunks(mc) -> int:
    with crema.open(mc.path) as file:
        return len(file["chunks"])


def test_an_outer_block_says_what_an_inner_one_recorded(fileset, tmp_path, capfd):
    from coffea import processor

    run, instance = make_runner(processor.IterativeExecutor(status=False)), counter()
    with crema.MetricsCollector(output=tmp_path) as outer:
        with crema.MetricsCollector(output=tmp_path, quiet=True):
            pass  # takes nothing
        with crema.MetricsCollector(output=tmp_path, quiet=True) as inner:
            run(fileset, processor_instance=instance)
        run(fileset, processor_instance=instance)
    assert n_chunks(inner) == n_chunks(outer) == N_EVENTS // CHUNK
    assert (inner.notes, outer.reasons) == ([], [])
    assert [(n["code"], n["subject"]) for n in outer.notes] == [("chunks_inner", inner.run_id)]
    with crema.open(outer.path) as file:
        assert json.loads(file.attributes["inner_runs"]) == [inner.run_id]
    said = [line for line in capfd.readouterr().err.splitlines() if inner.run_id in line]
    assert [line.split(":")[0].strip() for line in said] == ["crema", "note"]


def test_an_error_while_chunks_are_counted_does_not_pass(fileset, tmp_path, monkeypatch):
    from coffea import processor

    def fail(*args):
        raise RuntimeError

    monkeypatch.setattr(_runner, "_count_processed", fail)
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        run = make_runner(processor.IterativeExecutor(status=False))
        assert run(fileset, processor_instance=counter())[0]["n"] == N_EVENTS
    assert n_chunks(mc) == N_EVENTS // CHUNK


def test_a_block_beside_another_takes_nothing_from_it(fileset, tmp_path):
    """Neither is inside the other: each thread has its own context."""
    from coffea import processor

    def analyse() -> crema.MetricsCollector:
        with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
            run = make_runner(processor.IterativeExecutor(status=False))
            run(fileset, processor_instance=counter())
        return mc

    with (
        crema.MetricsCollector(output=tmp_path, quiet=True) as mc,
        ThreadPoolExecutor(1) as thread,
    ):
        other = thread.submit(analyse).result()
    assert (mc.notes, other.notes) == ([], [])
    assert n_chunks(other) == N_EVENTS // CHUNK


_FORKS = """
import os, sys
import crema
with crema.MetricsCollector(output=sys.argv[1], quiet=True) as mc:
    child = os.fork()
    if child == 0:
        sys.exit(7)  # leaves the block too
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert mc._service.keys.is_dir()
    crema.record_metric("after the child", 1)
print(mc.path)
"""


def test_a_forked_child_that_leaves_the_block_ends_nothing(tmp_path):
    command = [sys.executable, "-c", _FORKS, tmp_path]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    with crema.open(said.stdout.strip()) as run:
        assert (run.verdict, run.reasons) == ("COMPLETE", [])
        assert len(run["custom"]) == 1


# -------------------------------------------------------------- roastcoffea's calls


class Counting(crema.BaseInstrumentationContext):
    def __exit__(self, exc_type, exc_val, exc_tb):
        self.record_metric("my_metric", 42.0)


def roast():
    """A processor as it is written for roastcoffea."""
    from coffea import processor

    class Roasted(processor.ProcessorABC):
        @crema.track_metrics
        def process(self, events):
            with crema.track_time(self, "selection"):
                n = len(events[events.x > 3])
            with crema.track_memory(self, "filling"), crema.track_bytes(self, events, "reading"):
                pass
            with Counting():
                pass
            return {"n": n}

        def postprocess(self, accumulator):
            return accumulator

    return Roasted()


@pytest.fixture(scope="module")
def roasted(client, fileset, tmp_path_factory):
    from coffea import processor

    instance = roast()
    with crema.MetricsCollector(
        client,
        backend="dask",
        track_workers=True,
        worker_tracking_interval=0.5,
        processor_instance=instance,
        output=tmp_path_factory.mktemp("roasted"),
    ) as collector:
        run = make_runner(processor.DaskExecutor(client=client, status=False))
        output, report = run(fileset, processor_instance=instance, treename="Events")
        collector.set_coffea_report(report)
        collector.extract_metrics_from_output(output)
    return collector, report


def test_every_name_of_the_collector_is_there(roasted, capsys):
    collector, report = roasted
    assert collector.verdict == "COMPLETE", collector.reasons
    collector.print_summary()
    assert "COMPLETE" in capsys.readouterr().out
    metrics = collector.get_metrics()
    assert collector.metrics.keys() == metrics.keys()
    assert metrics["total_events"] == report["entries"]
    assert metrics["num_chunks"] == metrics["num_successful_chunks"] == report["chunks"]
    besides_s = metrics["total_cpu_time"] - report["processtime"]  # coffea's own metrics
    assert 0 < besides_s < 0.5 * report["processtime"]
    assert metrics["total_bytes_read"] == report["bytesread"]
    assert metrics["elapsed_time_seconds"] == metrics["wall_time"] > 0
    wall_s = metrics["wall_time"]
    assert metrics["event_rate_elapsed_khz"] == pytest.approx(report["entries"] / wall_s / 1e3)
    assert metrics["processor_cpu_percent"] + metrics["processor_io_wait_percent"] == pytest.approx(
        100
    )
    for name in ("avg_workers", "peak_workers", "total_cores", "core_efficiency", "data_rate_gbps"):
        assert math.isfinite(metrics[name]), name
    datasets = metrics["per_dataset"]
    assert sum(row["total_events"] for row in datasets.values()) == report["entries"]
    assert sum(row["num_chunks"] for row in datasets.values()) == report["chunks"]
    counts = {name: row["count"] for name, row in metrics["sections"].items()}
    expected = dict.fromkeys(("selection", "filling", "reading", "Counting"), report["chunks"])
    assert counts == expected


def test_a_dataset_has_one_of_two_results_of_a_chunk(roasted, tmp_path):
    """The other was lost with its worker and computed again; it is not in coffea's output."""
    collector, report = roasted
    copy = shutil.copy(collector.path, tmp_path / "superseded.h5")
    with h5py.File(copy, "r+") as file:
        rows = file["chunks"][:]
        rows["quality"][0] |= 8
        file["chunks"][:] = rows
    with crema.open(copy) as run:
        datasets = roastcoffea.metrics(run)["per_dataset"]
    assert sum(row["num_chunks"] for row in datasets.values()) == report["chunks"] - 1
    events = sum(row["total_events"] for row in datasets.values())
    assert events == report["entries"] - rows["n_events"][0]


def test_bytes_read_of_each_file_are_a_share_of_its_tree(roasted):
    collector, _ = roasted
    metrics = collector.get_metrics()
    with crema.open(collector.path) as run:
        chunks = run["chunks"]
    percent = metrics["bytes_read_percent_per_file"]
    touched_b = chunks.groupby("file", observed=True).bytes_accessed_b.sum()
    for name, touched in touched_b.items():
        with uproot.open(name) as file:
            whole_b = file["Events"].compressed_bytes
            assert percent[name] == pytest.approx(100 * touched / whole_b)
            n_branches = len(file["Events"].keys())
    assert metrics["avg_bytes_read_percent"] == pytest.approx(sum(percent.values()) / len(percent))
    branches = 100 * chunks.n_branches.mean() / n_branches  # the files have the same ones
    assert metrics["avg_branches_read_percent"] == pytest.approx(branches)


def test_measurements_of_a_context_of_the_users_own_are_recorded(roasted):
    collector, report = roasted
    with crema.open(collector.path) as run:
        custom = run["custom"]
        mine = custom[custom.metric == "my_metric"]
        assert mine.value.tolist() == [42.0] * report["chunks"]
        assert (mine.chunk_id != 0).all()
        sections = run["sections"]
        assert set(sections[sections.depth == 0].section) == {"selection", "filling", "Counting"}


def test_span_metrics_are_dasks(roasted):
    collector, _ = roasted
    spans = collector.span_metrics
    prefixes = {key[1] for key in spans if key[0] == "execute"}
    assert "Roasted" in prefixes
    summary = collector.get_metrics()
    cpu_s = sum(v for k, v in spans.items() if k[0] == "execute" and k[2] == "thread-cpu")
    assert cpu_s == pytest.approx(summary["cpu_time_seconds"])
    per_task = crema.extract_per_task_metrics(spans)
    assert set(per_task) == prefixes
    assert per_task["Roasted"]["thread-cpu"] == spans["execute", "Roasted", "thread-cpu", "seconds"]


@pytest.mark.parametrize("turn", [1, -1])
def test_spans_of_reads_and_writes_are_in_bytes_all_others_in_seconds(turn):
    """Whatever comes last; Dask meters the disk in seconds, counts and bytes."""
    units = {"seconds": 2.0, "count": 3.0, "bytes": 5e6}
    spans = {
        ("execute", "x", activity, unit): value
        for activity in ("disk-read", "disk-write", "memory-read", "thread-cpu")
        for unit, value in list(units.items())[::turn]
    }
    spans |= {("execute", "x", "own", "count"): 1.0, ("get-data", "disk-read", "bytes"): 7.0}
    wanted = dict.fromkeys(("disk-read", "disk-write", "memory-read"), 5e6)
    assert crema.extract_per_task_metrics(spans) == {"x": {**wanted, "thread-cpu": 2.0, "own": 1.0}}


def test_plots_take_span_metrics(roasted, tmp_path):
    import matplotlib.pyplot as plt

    spans = roasted[0].span_metrics
    _, ax = crema.plot_per_task_cpu_io(
        span_metrics=spans, title="a title", figsize=(14, 6), output_path=tmp_path / "x.png"
    )
    assert ax.get_title() == "a title" and (tmp_path / "x.png").stat().st_size > 1000
    heights = {bar.get_height() for bars in ax.containers for bar in bars}
    assert spans["execute", "Roasted", "thread-cpu", "seconds"] in heights
    _, ax = crema.plot_per_task_bytes_read(span_metrics=spans)
    assert ax.get_ylabel() == "GB"
    for plot in (
        crema.plot_per_task_cpu_io,
        crema.plot_per_task_bytes_read,
        crema.plot_per_task_overhead,
    ):
        with pytest.raises(ValueError, match="Dask metered no"):
            plot(span_metrics={})
    overhead = {("execute", "x", "serialize", "seconds"): 2.0}
    _, ax = crema.plot_per_task_overhead(overhead)
    assert max(bar.get_height() for bars in ax.containers for bar in bars) == 2.0
    plt.close("all")


def test_measurements_are_written_and_read_back(roasted, tmp_path):
    collector, _ = roasted
    directory = collector.save_measurement(tmp_path, measurement_name="first")
    assert directory == tmp_path / "first"
    metrics, start_s, end_s = crema.load_measurement(directory)
    ours = collector.get_metrics()
    assert end_s - start_s == pytest.approx(ours["wall_time"], abs=1e-5)
    assert metrics["total_events"] == ours["total_events"]
    assert metrics["sections"] == ours["sections"]
    assert json.loads((directory / "metadata.json").read_text())["format"].startswith("roastcoffea")
    text = (directory / "metrics.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    with crema.open(directory / collector.path.name) as run:
        assert run.verdict == "COMPLETE"
    with pytest.raises(FileNotFoundError, match="no measurement"):
        crema.load_measurement(tmp_path / "second")
    (directory / "start_end_time.txt").write_text("now")
    with pytest.raises(ValueError, match="not two times"):
        crema.load_measurement(directory)


def test_custom_metrics_replace_the_reports(tmp_path, capfd):
    rows = {
        "TTbar": {
            "entries": 500_000,
            "duration": 60.0,
            "performance_counters": {"num_requested_bytes": 6_000_000_000},
        },
        "WJets": {
            "entries": 500_000,
            "duration": 40.0,
            "performance_counters": {"num_requested_bytes": 4_000_000_000},
        },
        "comment": "no dataset",
    }
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        mc.set_coffea_report({"entries": 1, "chunks": 0}, custom_metrics=rows)
    metrics = mc.get_metrics()
    assert metrics["total_events"] == 1e6
    assert metrics["total_bytes_read"] == 1e10
    assert capfd.readouterr().err == ""


def test_the_backend_is_dask_or_refused(tmp_path):
    crema.MetricsCollector(None, "dask", output=tmp_path)
    for wrong in ({"backend": "taskvine"}, {"processor_instance": "taskvine"}):
        with pytest.raises(ValueError, match="'taskvine'"):
            crema.MetricsCollector(output=tmp_path, **wrong)


def test_methods_of_roastcoffea_raise_nothing_without_a_run_file(tmp_path, capfd):
    mc = crema.MetricsCollector(output=tmp_path)
    assert mc.get_metrics() == {} and mc.span_metrics == {}
    mc.print_summary()
    assert capfd.readouterr().err.count("there is no run file") == 3


# -------------------------------------------------------------- wrong calls inside process()


@pytest.mark.parametrize("recorded", [False, True])
def test_wrong_calls_raise_nothing(recorded, tmp_path, caplog):
    import contextlib

    def wrong():
        for tracker in (crema.track_time, crema.track_memory, crema.track_bytes):
            for arguments in ((), (None,), (3, 4), ("a", "b", "c"), (object(), None, None, None)):
                with tracker(*arguments):
                    pass
            with tracker(section_name="named"), tracker(name="named"), tracker(nonsense=1):
                pass
        with Failing():
            pass
        crema.record_metric("x", "no number")
        return 1

    class Failing(crema.BaseInstrumentationContext):
        def __exit__(self, *exception):
            raise RuntimeError("mine")

    with (
        crema.MetricsCollector(output=tmp_path, quiet=True)
        if recorded
        else (contextlib.nullcontext())
    ):
        assert wrong() == 1
        assert crema.track_time("as a decorator")(wrong)() == 1
        assert crema.track_metrics(lambda: 2)() == 2


def slow_schema():
    """A schema that takes ten times as long as the processor."""
    from coffea.nanoevents import BaseSchema

    class Slow(BaseSchema):
        def __init__(self, *args, **kwargs):
            time.sleep(0.1)
            super().__init__(*args, **kwargs)

    return Slow


@pytest.mark.timing
def test_the_numbers_do_not_depend_on_savemetrics(client, fileset, tmp_path):
    """README's own lines do not set it."""
    from coffea import processor

    paths = []
    for savemetrics in (False, True):
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            executor = processor.DaskExecutor(client=client, status=False)
            runner = processor.Runner(
                executor=executor, schema=slow_schema(), chunksize=CHUNK, savemetrics=savemetrics
            )
            runner(fileset, processor_instance=counter())
        paths.append(mc.path)
        with crema.open(mc.path) as run:
            rows = {row.name: row for row in run.rows("summary/workflow")}
            causes = {row.name: row for row in run.rows("summary/bottlenecks")}
        n = N_EVENTS // CHUNK
        assert rows["open_time"].value >= 0.1 * n and rows["open_time"].status == "ok"
        assert rows["process_wall_time"].value < 0.05 * n
        assert rows["process_wall_time"].status == "ok"
        assert causes["opening"].thread_seconds >= 0.09 * n
        assert causes["opening"].status != "unavailable"
    compared = compare(*paths)
    assert "opening" in {change.name for change in compared.changes}
    assert "Not compared" not in compared.noise


def test_times_with_opening_in_them_are_not_compared(client, fileset, tmp_path, monkeypatch):
    """As a coffea would be recorded whose events nobody sees being made."""
    from coffea import processor

    from crema.hook import _opening

    monkeypatch.setattr(_opening, "_replace", lambda opened: None)
    paths = []
    for savemetrics in (False, True):  # coffea's own clock stands in
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            executor = processor.DaskExecutor(client=client, status=False)
            runner = processor.Runner(
                executor=executor, schema=slow_schema(), chunksize=CHUNK, savemetrics=savemetrics
            )
            runner(fileset, processor_instance=counter())
        paths.append(mc.path)
    with crema.open(paths[0]) as run:
        assert ("columns_unavailable", "chunks.open_s") in {
            (note["code"], note["subject"]) for note in run.notes
        }
        rows = {row.name: row for row in run.rows("summary/workflow")}
        causes = {row.name: row for row in run.rows("summary/bottlenecks")}
        assert rows["process_wall_time"].status == rows["open_time"].status == "unavailable"
        assert causes["opening"].status == "unavailable"
        assert math.isnan(causes["opening"].thread_seconds)
        shown = run.plot.runtime_distribution()
        assert "no time in process() is known" in str([t.get_text() for t in shown.texts])
    with crema.open(paths[1]) as run:
        assert run.summary()["open_time"] >= 0.1 * N_EVENTS // CHUNK
    compared = compare(*paths)
    assert not {"opening", "compute", "input"} & {change.name for change in compared.changes}
    assert "core_efficiency" not in compared.metrics and "Not compared" in compared.noise
    assert all(name in compared.noise for name in ("file", "lock", "service", "sleep"))


def test_the_settings_of_the_runner_are_in_the_file(client, fileset, tmp_path):
    """Not what the user says they are; and none of several."""
    from coffea import processor
    from coffea.nanoevents import BaseSchema

    for others in ({}, {"chunksize": 2 * CHUNK}, {"maxchunks": 1, "skipbadfiles": True}):
        with crema.MetricsCollector(
            client, output=tmp_path, quiet=True, attributes={"chunksize": 7}
        ) as mc:
            for more in ({}, others):
                executor = processor.DaskExecutor(client=client, status=False)
                settings = {"chunksize": CHUNK, "schema": BaseSchema} | more
                runner = processor.Runner(executor=executor, **settings)
                runner(fileset, processor_instance=counter())
        with crema.open(mc.path) as run:
            found, listed = run.attributes, json.loads(run.attributes["runner_settings"])
        assert len(listed) == 1 + bool(others)
        assert {name: listed[-1][name] for name in others} == others
        assert listed[0]["chunksize"] == CHUNK and listed[0]["maxchunks"] is None
        assert found["chunksize"] == (-1 if "chunksize" in others else CHUNK)
        assert found["schema"] == "BaseSchema" and found["input_format"] == "root"
        assert found["executor"] == "dask"
        assert found["skipbadfiles"] == ("mixed" if "skipbadfiles" in others else "false")
        assert found.get("maxchunks") == ("mixed" if "maxchunks" in others else None)
        if others:
            with pytest.raises(MixedRunsError, match="the Runners of"):
                crema.scaling([mc.path])
        else:
            assert crema.scaling([mc.path]).kind == "strong"
