"""Sections, metrics and trackers of the user's own, in real analyses on every executor."""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time

import pytest
from coffea import processor
from coffea.nanoevents import NanoEventsFactory

import crema
import hook_support as support
import instrumented
import paths
import spool_reader
from crema import MetricsCollector
from crema._demo_processor import Schema
from crema.collect import _runner
from crema.hook import _recorder, chunks, instrument
from crema.hook.chunks import ChunkHook

META = {
    "dataset": "dy",
    "filename": "root://host//file.root",
    "treename": "Events",
    "fileuuid": "0d4f5f8e-0000-0000-0000-000000000000",
    "entrystart": 0,
    "entrystop": 100,
}
EVENTS = 1000  # a chunk


@pytest.fixture
def settings(tmp_path):
    """A run that this process and its children know of."""
    made = support.config(tmp_path)
    _recorder.announce(made)
    yield made
    _recorder.withdraw(made)
    chunks.close(made.run_id)


def streams_of(settings) -> list[spool_reader.Stream]:
    return spool_reader.read(settings.spool_dir())


def run(executor, fileset, instance, checkpointer=None, **options):
    runner = processor.Runner(
        executor=executor,
        schema=Schema,
        chunksize=EVENTS,
        savemetrics=True,
        checkpointer=checkpointer,
        **options,
    )
    return runner.run(fileset, processor_instance=instance, treename="Events")


def iterative():
    return processor.IterativeExecutor(status=False, retries=0)


def collect(tmp_path, executor, fileset, instance, client=None, checkpointer=True):
    """A run with a collector: its file, and coffea's result."""
    with MetricsCollector(client, processor_instance=instance, output=tmp_path, quiet=True) as mc:
        result = run(executor, fileset, instance, mc.checkpointer if checkpointer else None)
        mc.set_coffea_report(result["metrics"])
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    return crema.open(mc.path), result


def check_sections(rows, n_chunks: int) -> None:
    """What `instrumented.Sections` promises, of any table of sections; `rows` has the labels of enums and names of ids."""
    counts = rows.groupby("section").size().to_dict()
    assert counts == {
        "all": n_chunks,
        "repeated": 3 * n_chunks,
        "allocates": n_chunks,
        "reads": n_chunks,
        "decorated": 3 * n_chunks,
        "mine": n_chunks,
    }
    assert set(rows[rows.section == "allocates"].kind) == {"memory"}
    assert set(rows[rows.section == "reads"].kind) == {"bytes"}
    assert set(rows[~rows.section.isin(["allocates", "reads"])].kind) == {"time"}
    for _, chunk in rows.groupby(["stream_id", "chunk_id"]):
        by_entry = chunk.set_index("entry")
        assert sorted(by_entry.index) == list(range(len(chunk)))
        top = by_entry.loc[0]
        assert (top.section, top.parent, top.depth) == ("all", -1, 0)
        inner = by_entry[by_entry.parent == 0]
        assert set(inner.depth) == {1} and len(inner) == 7
        assert top.self_s == pytest.approx(top.wall_s - inner.wall_s.sum(), abs=1e-6)
        assert top.cpu_s <= top.wall_s and top.wall_s > top.self_s >= 0.005
        calls = by_entry[by_entry.section == "decorated"]
        assert calls.depth.tolist() == [1, 2, 3]
        assert calls.parent.tolist()[1:] == calls.index.tolist()[:-1]
    repeated = rows[rows.section == "repeated"]
    assert (repeated.cpu_s >= 0.002).all() and (repeated.self_s == repeated.wall_s).all()
    grown = rows.rss_end_b - rows.rss_start_b
    assert (grown[rows.section == "allocates"] > 24 << 20).all()
    assert set(rows[rows.kind != "memory"].rss_start_b) == {-1}
    assert (rows[rows.section == "reads"].bytes_read_b >= 0).all()
    assert rows[rows.section == "reads"].bytes_read_b.sum() > 0
    assert set(rows[rows.kind != "bytes"].bytes_read_b) == {-1}


@pytest.fixture(scope="module")
def on_dask(client, fileset, tmp_path_factory):
    executor = processor.DaskExecutor(client=client, status=False)
    instance = instrumented.Sections()
    return collect(tmp_path_factory.mktemp("dask"), executor, fileset, instance, client)


def test_sections_of_a_dask_run_are_in_the_file(on_dask):
    file, result = on_dask
    rows, counted = file["sections"], file["chunks"]
    check_sections(rows, len(result["processed"]))
    assert set(rows.chunk_id) == set(counted.chunk_id) and set(rows.worker_id) == set(
        counted.worker_id
    )
    summary = file["summary/per_section"].set_index("section")
    for name, section in rows.groupby("section"):
        assert summary.n[name] == len(section)
        assert summary.wall_s[name] == pytest.approx(section.wall_s.sum())
        assert summary.self_s[name] == pytest.approx(section.self_s.sum())
        assert summary.cpu_s[name] == pytest.approx(section.cpu_s.sum())
    assert summary.rss_delta_mean_b["allocates"] > 24 << 20
    assert summary.self_s.sum() == pytest.approx(summary.wall_s["all"], rel=1e-3)


def test_bytes_of_a_section_are_those_of_the_columns_it_used(on_dask):
    """The one section that reads the muons' momenta: what the chunk asked of its file beyond the opening comes after or in it."""
    file, _ = on_dask
    rows, counted = file["sections"], file["chunks"].set_index("chunk_id")
    for row in rows[rows.section == "reads"].itertuples():
        chunk = counted.loc[row.chunk_id]
        assert 0 < row.bytes_read_b <= chunk.bytes_accessed_b < chunk.bytes_read_b
    assert set(counted.n_branches) == {2} and set(file["dict/branch"]["name"]) == {
        "nMuon",
        "Muon_pt",
    }


def test_metrics_of_a_dask_run_are_in_the_file(on_dask):
    file, result = on_dask
    rows = file["custom"]
    own = rows[~rows.metric.str.startswith("coffea.")]
    n = len(result["processed"])
    assert own.groupby(["metric", "unit", "kind"], observed=True).size().to_dict() == {
        ("muons", "count", "increment"): n,
        ("temperature", "°C", "gauge"): n,
        ("seen", "", "total"): n,
        ("blocks", "count", "gauge"): n,
    }
    assert own[own.metric == "seen"].value.sum() == result["metrics"]["entries"]
    assert set(own[own.metric == "temperature"].value) == {21.5}
    assert (own[own.metric == "blocks"].value >= 1000).all()
    assert set(own.chunk_id) == set(file["chunks"].chunk_id)
    coffeas = rows[rows.metric.str.startswith("coffea.")].set_index("metric")
    report = result["metrics"]
    assert coffeas.value["coffea.entries"] == report["entries"]
    assert coffeas.value["coffea.bytesread"] == report["bytesread"]
    assert coffeas.value["coffea.processtime"] == pytest.approx(report["processtime"])
    assert coffeas.value["coffea.n_columns"] == len(report["columns"])


@pytest.mark.parametrize("executor", ["iterative", "futures"])
def test_other_executors_record_the_same_with_a_decorator_alone(
    executor, fileset, tmp_path, monkeypatch
):
    monkeypatch.setattr(_runner, "_replace_all", lambda: None)  # as where the Runner is elsewhere
    made = {
        "iterative": iterative,
        "futures": lambda: processor.FuturesExecutor(workers=2, status=False),
    }[executor]()
    instance = instrumented.Decorated()
    file, result = collect(tmp_path, made, fileset, instance, checkpointer=False)
    rows = file["chunks"]
    assert set(rows.status) == {"ok"} and len(rows) == len(result["processed"])
    assert set(zip(rows.dataset, rows.file, rows.entry_start, rows.entry_stop, strict=True)) == {
        (w.dataset, w.filename, w.entrystart, w.entrystop) for w in result["processed"]
    }
    report = result["metrics"]
    assert rows.n_events.sum() == report["entries"]
    assert rows.bytes_read_b.sum() == report["bytesread"]
    # coffea's seconds hold what the decorator does besides: it opens a stream and looks for the agent in each process.
    # On a busy machine that takes as much longer as process() does.
    besides_s = report["processtime"] - rows.wall_s.sum()
    assert 0 <= besides_s <= 0.05 * rows.stream.nunique() + 0.5 * report["processtime"]
    assert (rows.wall_s > 0.011).all()  # no chunk lacks what its sections slept and computed
    assert rows.open_s.isna().all() and not (rows.quality & 0b1111110).any()
    assert (rows.bytes_accessed_b > 0).all() and set(rows.task_prefix) == {"Decorated"}
    check_sections(file["sections"], len(rows))


def test_a_decorated_function_on_dask(client, fileset, tmp_path):
    executor = processor.DaskExecutor(client=client, status=False)
    function = instrumented.decorated_function
    file, result = collect(tmp_path, executor, fileset, function, client, checkpointer=False)
    rows = file["chunks"]
    assert len(rows) == len(result["processed"]) and set(rows.status) == {"ok"}
    assert rows.n_events.sum() == result["metrics"]["entries"]
    events = file["task_events"]
    computed = events[(events.action == "compute") & (events.side == "processor")]
    assert set(computed.task_key) == set(rows.task_key)
    assert file.summary()["processor_cpu_time_seconds"] > 0


def test_decorator_and_checkpointer_make_one_attempt(settings, fileset):
    run(iterative(), fileset, instrumented.Decorated(), ChunkHook(settings))
    rows = spool_reader.chunks(streams_of(settings))
    assert set(rows.status) == {"ok"} and len(set(rows.chunk_id)) == len(rows)
    assert (rows.open_s > 0).all()


@pytest.mark.parametrize("output", instrumented.OUTPUTS)
def test_sections_are_recorded_whatever_the_output_is(settings, fileset, output):
    one = {"dijet": next(iter(fileset.values()))}
    result = run(iterative(), one, instrumented.Sections(output), ChunkHook(settings))
    n = len(result["processed"])
    rows = spool_reader.table(streams_of(settings), "sections")
    assert rows.groupby("section").size()["all"] == n
    assert len(spool_reader.table(streams_of(settings), "custom")) == 4 * n


def test_a_processor_without_output_and_one_that_fails_keep_their_sections(settings, fileset):
    hook = ChunkHook(settings)
    with pytest.raises(Exception, match="as it was asked to"):
        run(iterative(), fileset, instrumented.Decorated(fails=True), hook)
    rows = spool_reader.table(streams_of(settings), "sections")
    assert rows.groupby("section").size().to_dict()["all"] == 1
    assert len(rows) == 10 and set(rows.depth) == {0, 1, 2, 3}
    (chunk,) = spool_reader.chunks(streams_of(settings)).itertuples()
    # The decorator saw it fail: its end and CPU are known.
    assert chunk.status == "error" and chunk.cpu_s > 0.006 and chunk.wall_s > 0.011
    assert chunk.open_s > 0 and not chunk.quality & 0b10010
    assert set(rows.chunk_id) == {chunk.chunk_id}

    def nothing(events):
        with crema.track_time("of nothing"):
            len(events)

    with pytest.raises(Exception, match="should not be None"):
        run(iterative(), fileset, nothing, hook)
    rows = spool_reader.table(streams_of(settings), "sections")
    assert (rows.section == "of nothing").sum() == 1


def test_failures_seen_by_the_decorator_and_their_retries_on_dask(client, fileset, tmp_path):
    """Each chunk fails once: Dask's retries, on any worker, and what is told of them."""
    marks = tmp_path / "marks"
    marks.mkdir()
    one = {"dijet": next(iter(fileset.values()))}
    executor = processor.DaskExecutor(client=client, status=False)
    instance = instrumented.Fails(marks)
    file, result = collect(tmp_path, executor, one, instance, client)
    rows = file["chunks"]
    starts = len({w.entrystart for w in result["processed"]})
    assert rows.status.value_counts().to_dict()["error"] == starts
    assert (rows.status == "ok").sum() == len(result["processed"])
    failed = rows[rows.status == "error"]
    assert (failed.cpu_s >= 0.01).all() and (failed.open_s > 0).all()
    for _, attempts in rows.groupby("chunk_id"):
        assert attempts.sort_values("t_start_ns").attempt.tolist() == [*range(1, len(attempts) + 1)]
    events = file["task_events"]
    tasks = events[(events.action == "compute") & events.task_key.isin(set(rows.task_key))]
    if (tasks.status == "error").any():  # coffea's own retries are within one task
        again = tasks.sort_values("t_start_ns").groupby("task_key")
        assert all(task.attempt.tolist() == [*range(1, len(task) + 1)] for _, task in again)
        assert tasks.attempt.max() == 2
    assert (events[events.action == "transfer"].attempt == 0xFFFF).all()
    summary = file.summary()
    assert summary["num_failed_attempts"] == starts
    assert summary["total_events"] == result["metrics"]["entries"]
    waterfall = file["summary/waterfall"].set_index("category").thread_seconds
    assert waterfall["wasted"] >= 0.01 * starts
    waste = file["summary/wasted"]
    assert set(waste.what) == {"chunk"} and set(waste.reason) == {"error"}
    assert waste.n_attempts.sum() == waste.n_recovered.sum() == starts
    assert waste.n_events.sum() == (failed.entry_stop - failed.entry_start).sum()
    assert waste.wall_s.sum() == pytest.approx((failed.open_s + failed.wall_s).sum())
    assert set(waste.worker_id) == set(failed.worker_id)


def test_dasks_meters_pass_through_with_any_label_and_unit(client, fileset, tmp_path):
    executor = processor.DaskExecutor(client=client, status=False)
    instance = instrumented.Metered()
    file, result = collect(tmp_path, executor, fileset, instance, client)
    n = len(result["processed"])
    rows = file["activities"]
    own = rows[(rows.task_prefix == "Metered") & (rows.context == "execute")]
    assert set(own[own.value != 0].side) == {"processor", "runtime"}
    known = file["dict/activity"].set_index("name").kind
    (cut,) = {unit for unit in own.unit if "~" in unit}  # the file's units have 16 bytes
    assert re.fullmatch(r"furlong?~[0-9a-f]{8}", cut)
    want = {
        ("S3 Infrequent Access", "bytes"): 1000.0 * n,
        ("None", "widgets"): 3.0 * n,
        ("disk-read", "count"): 7.0 * n,
        ("charge", "e"): -1.5 * n,
        ("speed", cut): 2.0 * n,
    }
    summary = file["summary/per_activity"]
    summary = summary[summary.task_prefix == "Metered"].set_index(["activity", "unit"])
    for (label, unit), value in want.items():
        found = own[(own.activity == label) & (own.unit == unit)]
        assert found.value.sum() == pytest.approx(value), label
        assert summary.value[label, unit] == pytest.approx(value)
    for label in ("I/O", "('a tuple', 1)"):
        found = own[(own.activity == label) & (own.unit == "seconds")]
        assert set(found.side) == {"processor"} and known[label] == "user"
        assert found.value.sum() > 0.009 * n
        assert summary.value[label, "seconds"] == pytest.approx(found.value.sum())
        assert summary.side[label, "seconds"] == "processor"
    metered = own[own.activity.isin(["I/O", "('a tuple', 1)"])].value.sum()
    waterfall = file["summary/waterfall"].set_index("category").thread_seconds
    assert waterfall["user_metered"] == pytest.approx(metered)


@pytest.mark.parametrize("where", ["iterative", "dask"])
def test_threads_and_children(where, client, settings, fileset):
    """Threads do not mix; a child has its own stream where it knows its run, and records nothing in a child of a Dask worker."""
    path, tree = next(iter(next(iter(fileset.values()))["files"].items()))
    one = {"dijet": {"files": {path: tree}}}
    if where == "iterative":
        run(iterative(), one, instrumented.Threads(bare_fork=False), ChunkHook(settings))
        chunks.close(settings.run_id)
        streams = streams_of(settings)
    else:
        with support.recording(client, settings) as streams:
            instance = instrumented.Threads(bare_fork=True)
            run(support.dask(client), one, instance, ChunkHook(settings))
    rows = spool_reader.table(streams, "sections")
    n = len(spool_reader.chunks(streams))
    counts = rows.groupby("section").size().to_dict()
    children = {"of a program": n, "of a fork": n} if where == "iterative" else {}
    assert counts == {"main": n, "beside": n, **children}
    assert set(rows.parent) == {-1} and set(rows.depth) == {0}
    assert (rows[rows.section == "main"].chunk_id != 0).all()
    assert set(rows[rows.section != "main"].chunk_id) == {0}
    assert (rows.cpu_s >= 0.01).all()
    main = rows[rows.section == "main"]
    assert (main.self_s == main.wall_s).all()  # what another thread does is not taken out
    assert set(rows[rows.section == "beside"].stream) <= set(main.stream)
    if where == "iterative":
        assert len(set(rows.stream)) == 1 + 2 * n
        assert all(stream.end is not None for stream in streams)
    metrics = spool_reader.table(streams, "custom").groupby("metric").size().to_dict()
    assert metrics == {f"metric {name}": n for name in counts if name != "main"}


def test_threads_with_a_chunk_each(settings):
    hook, both = ChunkHook(settings), threading.Barrier(2)

    def work(n):
        meta = {**META, "entrystart": n}
        hook.load(meta, None)
        with crema.track_time(f"outer {n}"):
            both.wait()
            with crema.track_time(f"inner {n}"):
                both.wait()
            both.wait()
        hook.save({}, meta, None)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (stream,) = streams_of(settings)
    rows = stream.table("sections").set_index("section")
    starts = stream.chunks().set_index("chunk_id").entry_start
    for n in (1, 2):
        outer, inner = rows.loc[f"outer {n}"], rows.loc[f"inner {n}"]
        assert (outer.entry, outer.parent, inner.entry, inner.parent) == (0, -1, 1, 0)
        assert starts[outer.chunk_id] == starts[inner.chunk_id] == n


def test_asyncio_tasks_and_generators_do_not_mix(settings):
    import asyncio

    async def one(name):
        with crema.track_time(name):
            await asyncio.sleep(0.01)
            with crema.track_time(f"in {name}"):
                await asyncio.sleep(0.01)

    async def main():
        await asyncio.gather(one("a"), one("b"))

    asyncio.run(main())

    def generator():
        with crema.track_time("generator"):
            yield

    with crema.track_time("outside"):
        running = generator()
        next(running)
        with crema.track_time("while it waits"):
            next(running, None)
    with crema.track_time("after"):
        pass
    rows = streams_of(settings)[0].table("sections").set_index("section")
    assert rows.depth.to_dict() == {
        "in a": 1,
        "a": 0,
        "in b": 1,
        "b": 0,
        "generator": 1,
        "while it waits": 2,
        "outside": 0,
        "after": 0,
    }


def test_calls_outside_of_a_run_do_nothing_at_next_to_no_cost(fileset):
    assert not _recorder.recording()
    path = next(iter(next(iter(fileset.values()))["files"]))
    events = NanoEventsFactory.from_root({path: "Events"}, schemaclass=Schema).events()
    assert instrumented.decorated_function(events)["n"] == len(events)

    def tracked():
        with crema.track_time("x"):
            pass

    def plain():
        with threading.Lock():
            pass

    def cost_s(call):
        began = time.thread_time()
        for _ in range(20_000):
            call()
        return time.thread_time() - began

    costs = [(cost_s(tracked), cost_s(plain)) for _ in range(5)]
    ratio = min(a / b for a, b in costs)
    print(f"a section outside of a run: {ratio:.1f} times an uncontended lock")
    assert ratio < 10


def test_mistakes_are_logged_once_and_counted_and_never_raise(settings, caplog):
    class Broken(crema.Tracker):
        def enter(self):
            raise RuntimeError("enter")

        def exit(self):
            raise RuntimeError("exit")

    instrument._warn_unnamed.cache_clear()
    with caplog.at_level(logging.WARNING, "crema"):
        for _ in range(2):
            crema.record_metric("x", 1, kind="sum")
            crema.record_metric("x", "no number")
            with Broken("broken"):
                pass
        with crema.track_time(None):
            crema.record_metric(3, True, unit=None)
    assert len(caplog.records) == 4
    assert "a section without a name is recorded as 'Tracker'" in caplog.text
    assert "none of gauge, increment, total" in caplog.text
    chunks.close(settings.run_id)
    (stream,) = streams_of(settings)
    assert stream.end.dropped == 8
    assert stream.table("sections").section.tolist() == ["broken", "broken", "Tracker"]
    metric, *others = stream.table("custom").itertuples()
    assert (metric.metric, metric.unit, metric.value) == ("3", "None", 1.0)
    assert all(each.metric.startswith("crema.dropped.") for each in others)
    assert sum(each.value for each in others) == 8


def test_a_call_on_anything_but_a_chunk_is_no_attempt(settings, fileset):
    """A decorated function called on anything else works, and records no chunk."""

    @crema.track_metrics
    def process(events):
        return events

    for events in (None, 3, {"a": 1}):
        assert process(events) is events
    assert process(events=5) == 5
    assert streams_of(settings) == [] or len(spool_reader.chunks(streams_of(settings))) == 0


def test_two_runs_at_once_record_no_section_that_could_be_either_ones(client, tmp_path, fileset):
    first, second = support.config(tmp_path), support.config(tmp_path)
    one = {"dijet": next(iter(fileset.values()))}
    with support.recording(client, first) as a, support.recording(client, second) as b:
        run(support.dask(client), one, instrumented.Decorated(), ChunkHook(second))
        client.submit(instrumented.in_section, "no chunk", pure=False).result()
    assert len(spool_reader.table(a, "sections")) == len(spool_reader.chunks(a)) == 0
    n = len(spool_reader.chunks(b))
    assert n and spool_reader.table(b, "sections").groupby("section").size()["all"] == n
    assert "no chunk" not in set(spool_reader.table(b, "sections").section)


def test_a_section_in_any_dask_task(client, settings):
    with support.recording(client, settings) as streams:
        client.submit(instrumented.in_section, "a task", pure=False).result()
    (row,) = spool_reader.table(streams, "sections").itertuples()
    assert (row.section, row.chunk_id, row.parent) == ("a task", 0, -1)
    assert row.worker in client.scheduler_info()["workers"]
    assert math.isclose(row.self_s, row.wall_s) and row.stream in {s.stream_id for s in streams}


def test_a_run_is_known_to_processes_started_anew(tmp_path, monkeypatch):
    made = support.config(tmp_path)
    _recorder.announce(made)
    try:
        assert _recorder._announced_to_children() == [made]
    finally:
        _recorder.withdraw(made)
    assert _recorder.RUN_VARIABLE not in os.environ
    monkeypatch.setenv(_recorder.RUN_VARIABLE, "{")
    assert _recorder._announced_to_children() == []


def test_a_run_that_ends_leaves_the_process_to_the_one_around_it(settings, tmp_path):
    inner = support.config(tmp_path / "inner")
    _recorder.announce(inner)
    _recorder.withdraw(inner)
    assert _recorder._announced_to_children() == [settings]
    crema.record_metric("outer", 1.0)
    assert spool_reader.table(streams_of(settings), "custom").metric.tolist() == ["outer"]


def test_the_examples_of_the_documentation_run(client, fileset, tmp_path, monkeypatch):
    text = (paths.ROOT / "docs" / "instrumentation.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    names = {"client": client, "fileset": fileset, "schema": Schema, "__name__": "example"}
    for block in blocks:
        exec(block, names)
    file, n = names["file"], len(names["file"]["chunks"])
    assert names["mc"].verdict == "COMPLETE" and n == len(fileset) * 2
    sections = file["sections"].groupby("section").size().to_dict()
    assert sections == {"read": n, "pairs": n, "mass": 3 * n, "flatten": n}
    pairs = file["custom"].query("metric == 'pairs'").value.sum()
    assert pairs == names["output"]["pairs"] > 0
    assert set(file["summary/per_section"].section) == set(sections)
    assert names["count"]([1, 2]) == {"events": 2}
