"""The checkpointer on executors without Dask, and what it makes of trouble."""

from __future__ import annotations

import concurrent.futures
import logging
import math
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import uproot
from coffea import processor
from coffea.nanoevents import BaseSchema

import hook_support as support
import missing
import spool_reader
from children import Fork
from crema.hook import _attempts, _process, _recorder, chunks
from crema.hook.chunks import ChunkHook

META = {
    "dataset": "dy",
    "filename": "root://host//file.root",
    "treename": "Events",
    "fileuuid": "0d4f5f8e-0000-0000-0000-000000000000",
    "entrystart": 0,
    "entrystop": 100,
}


@pytest.fixture
def fileset(tmp_path):
    (tmp_path / "files").mkdir()
    return support.make_files(tmp_path / "files")


@pytest.fixture
def settings(tmp_path):
    made = support.config(tmp_path)
    yield made
    chunks.close(made.run_id)


def streams_of(settings) -> list[spool_reader.Stream]:
    return spool_reader.read(settings.spool_dir())


def iterative(retries=0):
    return processor.IterativeExecutor(status=False, retries=retries)


def test_hook_is_a_checkpointer_and_travels_light(settings):
    hook = ChunkHook(settings)
    assert isinstance(hook, processor.CheckpointerABC)
    raw = pickle.dumps(hook)
    assert len(raw) < 1000
    assert pickle.loads(raw).config == settings


def test_iterative(settings, fileset):
    result = support.run(iterative(), ChunkHook(settings), fileset, support.Counter())
    (stream,) = streams_of(settings)
    assert stream.end is None and stream.locked
    chunks.close(settings.run_id)
    (stream,) = streams_of(settings)
    assert stream.end.dropped == 0 and not stream.locked
    assert stream.info.pid == os.getpid()
    rows = stream.chunks()
    assert len(rows) == 9 and set(rows.status) == {"ok"} and set(rows.provisional) == {0}
    assert set(rows.worker) == {stream.info.worker_name} and set(rows.task_prefix) == {"Counter"}
    assert rows.n_events.sum() == result["metrics"]["entries"]
    assert rows.bytes_read_b.sum() == result["metrics"]["bytesread"]
    # coffea's own clock starts a little later, and stops before it collects its metrics.
    besides_s = rows.wall_s.sum() - result["metrics"]["processtime"]
    assert 0 < besides_s < 0.1 * rows.wall_s.sum()
    assert set(zip(rows.dataset, rows.file, rows.entry_start, rows.entry_stop, strict=True)) == {
        (w.dataset, w.filename, w.entrystart, w.entrystop) for w in result["processed"]
    }
    assert (rows.open_s > 0).all() and (rows.wall_s > 0.015).all()
    assert (rows.cpu_s >= 0.01).all() and (rows.cpu_s <= rows.open_s + rows.wall_s).all()
    assert (rows.proc_cpu_s >= 0.9 * rows.cpu_s).all() and (rows.n_branches == 1).all()
    assert (rows.rss_peak_b >= rows.rss_start_b).all() and (rows.rss_start_b > 1e7).all()
    assert (rows.t_end_ns - rows.t_start_ns - rows.wall_s * 1e9).abs().max() < 1000
    assert len(set(rows.chunk_id)) == 9 and set(rows.quality) == {0}
    assert {n.text for (kind, _), n in stream.names.items() if kind == "branch"} == {"x"}


def test_chunks_without_metrics_have_the_rest(settings, fileset):
    support.run(iterative(), ChunkHook(settings), fileset, support.Counter(), savemetrics=False)
    rows = spool_reader.chunks(streams_of(settings))
    assert len(rows) == 9 and (rows.open_s > 0).all() and (rows.wall_s > 0.015).all()
    assert set(rows.n_events) == {support.CHUNK}
    assert (rows.bytes_read_b > 0).all() and set(rows.n_branches) == {1}
    assert set(rows.quality) == {0}


@pytest.mark.parametrize("own_pool", [pytest.param(False, marks=pytest.mark.slow), True])
def test_pool_processes_have_streams_of_their_own_and_end_them(settings, fileset, own_pool):
    if own_pool:
        with concurrent.futures.ProcessPoolExecutor(
            2, mp_context=multiprocessing.get_context("fork")
        ) as pool:
            executor = processor.FuturesExecutor(pool=pool, status=False)
            support.run(executor, ChunkHook(settings), fileset, support.Counter())
    else:
        executor = processor.FuturesExecutor(workers=2, status=False)
        support.run(executor, ChunkHook(settings), fileset, support.Counter())
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not all(s.end for s in streams_of(settings)):
        time.sleep(0.1)
    streams = streams_of(settings)
    assert streams and os.getpid() not in {s.info.pid for s in streams}
    assert len({s.info.worker_name for s in streams}) == len(streams)
    assert all(s.end is not None and not s.locked for s in streams)
    rows = spool_reader.chunks(streams)
    assert len(rows) == 9 and set(rows.status) == {"ok"}


def test_a_fork_of_a_recording_process_records_by_itself(settings):
    hook = ChunkHook(settings)
    hook.load(META, None)

    def record() -> None:
        hook.load({**META, "entrystart": 100, "entrystop": 200}, None)
        hook.save({}, META, None)
        _recorder.close_process()

    child = Fork(record)
    assert child.wait() == 0
    hook.save({}, META, None)
    streams = {s.info.pid: s for s in streams_of(settings)}
    assert set(streams) == {os.getpid(), child.pid}
    assert streams[os.getpid()].chunks().entry_start.tolist() == [0]
    assert streams[child.pid].chunks().entry_start.tolist() == [100]
    assert streams[child.pid].chunks().status.tolist() == ["ok"]


def test_retries_within_coffea(settings, fileset, tmp_path):
    (tmp_path / "marks").mkdir()
    instance = support.Flaky(tmp_path / "marks")
    # coffea 2025.12 retries nothing at all unless it may skip files.
    support.run(iterative(retries=2), ChunkHook(settings), fileset, instance, skipbadfiles=True)
    rows = spool_reader.chunks(streams_of(settings))
    assert rows.status.value_counts().to_dict() == {"ok": 9, "error": 3}
    for _, attempts in rows.groupby("chunk_id"):
        assert attempts.sort_values("attempt_ref").status.tolist()[-1] == "ok"
    failed = rows[rows.status == "error"]
    assert (failed.cpu_s > failed.open_cpu_s + 0.003).all() and set(failed.quality) == {0b110100}


def test_a_run_that_fails_ends_with_a_failed_attempt(settings, fileset, tmp_path):
    (tmp_path / "marks").mkdir()
    instance = support.Flaky(tmp_path / "marks", always="f0.root")
    with pytest.raises(Exception, match="always"):
        support.run(iterative(), ChunkHook(settings), fileset, instance)
    chunks.close(settings.run_id)
    rows = spool_reader.chunks(streams_of(settings))
    assert rows.sort_values("attempt_ref").status.tolist()[-1] == "error"
    assert set(rows.provisional) == {0}


def test_skipped_files_are_failed_attempts(settings, fileset, tmp_path):
    (tmp_path / "marks").mkdir()
    instance = support.Flaky(tmp_path / "marks", OSError, always="f0.root")
    result = support.run(iterative(), ChunkHook(settings), fileset, instance, skipbadfiles=True)
    chunks.close(settings.run_id)
    rows = spool_reader.chunks(streams_of(settings))
    assert rows.status.value_counts().to_dict() == {"ok": 8, "error": 1}
    assert rows[rows.status == "ok"].n_events.sum() == result["metrics"]["entries"]


def test_the_users_checkpointer_is_served_and_its_chunks_are_no_attempts(
    settings, fileset, tmp_path
):
    own = processor.SimpleCheckpointer(str(tmp_path / "checkpoints"))
    hook = ChunkHook(settings, own)
    first = support.run(iterative(), hook, fileset, support.Counter())
    assert len(list((tmp_path / "checkpoints").rglob("*.coffea"))) == 9
    second = support.run(iterative(), hook, fileset, support.Counter())
    assert second["out"] == first["out"]
    assert len(spool_reader.chunks(streams_of(settings))) == 9


def test_an_error_of_the_users_checkpointer_is_the_chunks(settings):
    class Broken(processor.SimpleCheckpointer):
        def save(self, *args):
            raise ZeroDivisionError

    hook = ChunkHook(settings, Broken("/tmp"))
    hook.checkpointer.load = lambda *args: None
    hook.load(META, None)
    with pytest.raises(ZeroDivisionError):
        hook.save({}, META, None)
    assert spool_reader.chunks(streams_of(settings)).status.tolist() == ["error"]


def test_trouble_of_its_own_stays_inside(settings, caplog):
    hook = ChunkHook(settings)
    with caplog.at_level(logging.WARNING, "crema"):
        for _ in range(3):
            assert hook.load({"dataset": "no more than that"}, None) is None
    assert len(caplog.records) == 1
    assert hook.load(META, None) is None
    hook.save({"metrics": {"processtime": "no number"}}, META, None)
    hook.load(META, None)
    hook.save("not even a dictionary", META, None)
    hook.save({}, META, None)  # without a load
    chunks.close(settings.run_id)
    (stream,) = streams_of(settings)
    assert stream.end.dropped == 4
    assert stream.end.dropped_disk_full == stream.end.dropped_spool_limit == 0
    said = stream.table("custom").groupby("metric_id").value.sum()
    lines = {stream.names["metric", i].text.rpartition(":")[0]: n for i, n in said.items()}
    assert lines == {
        "crema.dropped.the start of a chunk: KeyError _attempts.py": 3,
        "crema.dropped.the end of a chunk: TypeError _attempts.py": 1,
    }
    assert stream.chunks().status.tolist() == ["lost", "ok"]


def test_a_stream_ends_after_the_row_that_a_thread_is_writing(settings, monkeypatch):
    writes, goes_on = threading.Event(), threading.Event()
    peak_b = _attempts._peak_b

    def slow(*args):
        writes.set()
        goes_on.wait(10)
        return peak_b(*args)

    monkeypatch.setattr(_attempts, "_peak_b", slow)
    monkeypatch.setattr(_attempts, "_ENDING_S", 60.0)
    hook = ChunkHook(settings)

    def work():
        hook.load(META, None)
        hook.save({}, META, None)

    thread = threading.Thread(target=work)
    thread.start()
    assert writes.wait(10)
    threading.Timer(0.2, goes_on.set).start()
    chunks.close(settings.run_id)
    thread.join()
    (stream,) = streams_of(settings)
    assert stream.chunks().status.tolist() == ["ok"]
    assert stream.end.dropped == 0


def test_a_hook_without_a_spool_records_nothing_and_raises_nothing(tmp_path, caplog):
    (tmp_path / "in the way").touch()
    made = support.HookConfig(
        str(support.uuid.uuid4()), spool=str(tmp_path / "in the way" / "spool")
    )
    hook = ChunkHook(made)
    with caplog.at_level(logging.WARNING, "crema"):
        for _ in range(3):
            assert hook.load(META, None) is None
            hook.save({}, META, None)


def test_the_spool_of_somebody_else_is_refused(tmp_path):
    made = support.config(tmp_path)
    directory = made.spool_dir()
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(PermissionError):
        _recorder.process_recorder(made)


def test_an_operators_spool_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("CREMA_SPOOL", str(tmp_path / "operators"))
    made = support.config(tmp_path, aggregator="tcp://127.0.0.1:1")
    assert made.spool_dir() == pathlib.Path(tmp_path / "operators") and not made.serves()
    ChunkHook(made).load(META, None)
    chunks.close(made.run_id)
    assert len(spool_reader.read(tmp_path / "operators")) == 1
    monkeypatch.delenv("CREMA_SPOOL")
    assert made.serves()


def test_a_process_records_no_more_after_the_end_of_its_run(settings):
    hook = ChunkHook(settings)
    hook.load(META, None)
    hook.save({}, META, None)
    chunks.close(settings.run_id)
    hook.load(META, None)
    hook.save({}, META, None)
    assert len(streams_of(settings)) == 1
    assert len(spool_reader.chunks(streams_of(settings))) == 1


def test_chunk_identity(settings):
    hook = ChunkHook(settings)
    others = [
        META,
        META,
        {**META, "entrystop": 99},
        {**META, "dataset": "tt"},
        {**META, "filename": "root://elsewhere//file.root"},
        {**META, "treename": "Runs"},
        {**META, "anything": "else"},
    ]
    for meta in others:
        hook.load(meta, None)
        hook.save({}, meta, None)
    ids = spool_reader.chunks(streams_of(settings)).sort_values("attempt_ref").chunk_id.tolist()
    assert ids[0] == ids[1] == ids[6] and len(set(ids)) == 5


def test_names_that_are_no_texts(settings):
    hook = ChunkHook(settings)
    meta = {**META, "dataset": 2018, "filename": pathlib.Path("/data/f.root")}
    for _ in range(2):
        hook.load(meta, None)
        hook.save({}, meta, None)
    rows = spool_reader.chunks(streams_of(settings))
    assert set(zip(rows.dataset, rows.file, strict=True)) == {("2018", "/data/f.root")}
    assert len(rows) == 2


def test_unknowns_are_what_the_file_calls_unknown(settings):
    ChunkHook(settings).load(META, None)
    row = spool_reader.chunks(streams_of(settings)).iloc[0]
    assert row.provisional == 1 and row.status == "lost"
    assert math.isnan(row.wall_s) and row.t_end_ns == 0 and row.n_events == -1
    assert row.task_key == 0 and row.bytes_read_b == -1


def test_garbage_collection_is_the_threads_own(settings):
    import gc
    import threading

    hook = ChunkHook(settings)
    quiet, done = threading.Event(), threading.Event()

    def idle():
        hook.load({**META, "entrystart": 7}, None)
        quiet.set()
        done.wait()
        hook.save({}, META, None)

    thread = threading.Thread(target=idle)
    thread.start()
    quiet.wait()
    hook.load(META, None)
    for _ in range(3):
        gc.collect()
    hook.save({}, META, None)
    done.set()
    thread.join()
    rows = spool_reader.chunks(streams_of(settings)).set_index("entry_start")
    assert rows.gc_s[0] > 0.001 and rows.gc_s[7] == 0
    assert rows.gc_s[0] <= rows.cpu_s[0]
    assert set(rows.thread) == {0, 1}


# ------------------------------------------------------------------ what was read


def baskets_file(path: pathlib.Path) -> dict:
    """A file whose branches have four baskets of 100 events each, one of which compresses ten times as well."""
    random = np.random.default_rng(1)
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        tree = file.mktree("Events", {"x": "float64", "y": "int32", "z": "float64"})
        for i in range(4):
            x = np.zeros(100) if i == 3 else random.normal(size=100)
            tree.extend({"x": x, "y": np.arange(100, dtype="i4"), "z": random.normal(size=100)})
    return {"ds": {"files": {str(path): "Events"}}}


def touch_x_and_y(events):
    """A processor that reads two of three branches."""
    return {"sum": float(np.sum(events.x)) + int(np.sum(events.y))}


def oracle(path: pathlib.Path, start: int, stop: int) -> tuple[int, int, int]:
    """Of x and y: bytes that reading the range asks of the file, and bytes of its baskets from their own headers, both ways."""
    with uproot.open({path: None}) as file:
        tree = file["Events"]
        before = file.file.source.num_requested_bytes
        for name in ("x", "y"):
            tree[name].array(entry_start=start, entry_stop=stop)
        asked = file.file.source.num_requested_bytes - before
        keys = [
            tree[name].basket_key(i)
            for name in ("x", "y")
            for i in range(tree[name].num_baskets)
            if tree[name].entry_offsets[i] < stop and tree[name].entry_offsets[i + 1] > start
        ]
    compressed = sum(key.data_compressed_bytes + key.fKeylen for key in keys)
    return asked, compressed, sum(key.data_uncompressed_bytes + key.fKeylen for key in keys)


@pytest.mark.parametrize("chunk", [400, 200, 150])
def test_bytes_of_the_branches_touched_are_those_of_their_baskets(settings, tmp_path, chunk):
    path = tmp_path / "baskets.root"
    runner = processor.Runner(
        executor=iterative(),
        schema=BaseSchema,
        chunksize=chunk,
        savemetrics=True,
        checkpointer=ChunkHook(settings),
    )
    runner.run(baskets_file(path), processor_instance=touch_x_and_y)
    rows = spool_reader.chunks(streams_of(settings))
    assert set(rows.n_branches) == {2} and len(rows) == math.ceil(400 / chunk)
    for row in rows.itertuples():
        asked, compressed, uncompressed = oracle(path, row.entry_start, row.entry_stop)
        assert row.bytes_accessed_b == compressed == asked
        if row.quality == 0:
            assert chunk == 400 and row.bytes_uncompressed_b == uncompressed
        else:  # part of the baskets: each is taken for as compressible as its branch
            assert row.quality == 0b1000000
            assert row.bytes_uncompressed_b == pytest.approx(uncompressed, rel=0.6)
    if chunk == 200:  # no basket is cut: the parts make up the whole
        assert rows.bytes_uncompressed_b.sum() == pytest.approx(oracle(path, 0, 400)[2], abs=2)


def test_a_processor_that_reads_nothing_accessed_nothing(settings, tmp_path):
    fileset = baskets_file(tmp_path / "baskets.root")
    runner = processor.Runner(
        executor=iterative(), schema=BaseSchema, checkpointer=ChunkHook(settings)
    )
    runner.run(fileset, processor_instance=lambda events: {"n": len(events)})
    (row,) = spool_reader.chunks(streams_of(settings)).itertuples()
    assert (row.n_branches, row.bytes_accessed_b, row.bytes_uncompressed_b, row.quality) == (0,) * 4
    assert row.bytes_read_b > 0  # the file was opened


@pytest.mark.parametrize("kind", ["rntuple", "parquet"])
def test_sources_without_baskets_are_unknown_not_zero(settings, tmp_path, kind):
    import awkward as ak

    x = np.arange(100.0)
    if kind == "rntuple":
        path = tmp_path / "f.root"
        with uproot.recreate(path) as file:
            file.mkrntuple("Events", {"x": x})
    else:
        path = tmp_path / "f.parquet"
        ak.to_parquet(ak.Array({"x": x}), path)
    runner = processor.Runner(
        executor=iterative(),
        schema=BaseSchema,
        format="root" if kind == "rntuple" else "parquet",
        savemetrics=True,
        checkpointer=ChunkHook(settings),
    )
    try:
        runner.run(
            {"ds": {"files": {str(path): "Events"}}},
            processor_instance=lambda events: {"x": float(np.sum(events.x))},
        )
    except NotImplementedError as error:  # coffea 2025.12 reads no Parquet
        pytest.skip(f"{missing.OTHER_VERSIONS}: {error}")
    (row,) = spool_reader.chunks(streams_of(settings)).itertuples()
    assert (row.n_branches, row.bytes_accessed_b, row.bytes_uncompressed_b) == (1, -1, -1)
    if kind == "rntuple":
        assert row.bytes_read_b > 0 and row.quality == 0b100000
    else:
        assert row.bytes_read_b == -1 and row.quality == 0b100100


def test_a_file_that_became_shorter_gives_a_partial_chunk(settings, tmp_path):
    """coffea remembers 400 events of an earlier run; when the chunks are read there are 250."""
    path = tmp_path / "f.root"
    fileset = baskets_file(path)
    remembered = {}

    def run(hook):
        runner = processor.Runner(
            executor=iterative(),
            schema=BaseSchema,
            chunksize=200,
            savemetrics=True,
            checkpointer=hook,
            metadata_cache=remembered,
        )
        return runner.run(fileset, processor_instance=touch_x_and_y)

    run(None)
    with uproot.recreate(path) as file:
        tree = file.mktree("Events", {"x": "float64", "y": "int32", "z": "float64"})
        ones = np.ones(250)
        tree.extend({"x": ones, "y": ones.astype("i4"), "z": ones})
    result = run(ChunkHook(settings))
    rows = spool_reader.chunks(streams_of(settings)).sort_values("entry_start")
    assert rows.status.tolist() == ["ok", "partial"]
    assert rows.n_events.tolist() == [200, 50]
    assert rows.n_events.sum() == result["metrics"]["entries"]


# ------------------------------------------------------------------ memory


def test_the_peak_of_the_process_is_that_of_every_chunk_it_fell_into(settings):
    """Resident memory belongs to the process: a thread's chunk sees the other thread's peak, a later chunk does not."""
    import threading

    hook = ChunkHook(settings)
    there, done = threading.Event(), threading.Event()

    def beside():
        hook.load({**META, "entrystart": 1}, None)
        there.set()
        done.wait()
        hook.save({}, META, None)

    thread = threading.Thread(target=beside)
    thread.start()
    there.wait()
    hook.load({**META, "entrystart": 2}, None)
    high = _process.usage()[1] + (64 << 20)
    block = np.ones(high - _process.rss_b(), dtype="u1")
    del block
    hook.save({}, META, None)
    done.set()
    thread.join()
    hook.load({**META, "entrystart": 3}, None)
    hook.save({}, META, None)
    rows = spool_reader.chunks(streams_of(settings)).set_index("entry_start")
    assert (rows.rss_peak_b[[1, 2]] > high - (32 << 20)).all()
    assert rows.rss_end_b[2] < high - (32 << 20) and rows.rss_peak_b[3] < high - (32 << 20)


def test_hook_is_a_checkpointer_though_coffea_was_half_imported_when_it_arrived():
    """A worker unpickles it in one thread while another one imports coffea for the first time."""
    script = """
import sys
from types import ModuleType
half = ModuleType("coffea.processor.checkpointer")  # its names are still to come
sys.modules["coffea.processor.checkpointer"] = half
from crema.hook.chunks import ChunkHook
hook = ChunkHook.__new__(ChunkHook)
ChunkHook.__init__(hook, None)
del sys.modules["coffea.processor.checkpointer"]
from coffea.processor import CheckpointerABC
assert isinstance(hook, CheckpointerABC)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
