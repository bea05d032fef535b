"""An attribute of Dask, coffea or uproot that is not what it was costs the columns that need it, and nothing else.

The list of attributes comes from watching the hooks in a run; each one is then taken away from them alone, or is None.
"""

from __future__ import annotations

import numpy as np
import pytest
from distributed import Client

import crema
import hook_support as support
import private_access
import spool_reader
from clusters import LocalCluster
from crema.collect import _runner
from crema.hook import _columns, _recorder, _records, _writers, scheduler, worker
from crema.hook.chunks import ChunkHook

CHUNKS = support.EVENTS // support.CHUNK
# `quality` says of each chunk whether these are known; an input that has no baskets is no trouble of anybody's.
TOLD_BY_QUALITY = {
    "chunks.bytes_read_b",
    "chunks.n_branches",
    "chunks.bytes_accessed_b",
    "chunks.bytes_uncompressed_b",
    "sections.bytes_read_b",
}
RESULT = {"n": support.EVENTS, "sum": 0.0}
UNKNOWN = (-1, 0xFFFF)
TABLES = {table.number: table for table in _records.TABLES.values()}


class Sums(support.Counter):
    @crema.track_metrics
    def process(self, events):
        with crema.track_bytes("sum"):
            return {"n": len(events), "sum": float(np.sum(events.x))}


@pytest.fixture(scope="module")
def cluster():
    """Workers, scheduler and client in this process, where what they are can be changed."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return support.make_files(tmp_path_factory.mktemp("private"), 1)


@pytest.fixture(autouse=True, scope="module")
def calm():
    """What the hooks log once per run they would log two hundred times here."""
    disabled, _recorder.logger.disabled = _recorder.logger.disabled, True
    yield
    _recorder.logger.disabled = disabled


def record(client, files, tmp_path):
    """A small run with the plugins on the cluster and a Runner that nobody gave a checkpointer: its result and its streams."""
    settings = support.config(tmp_path, start_agent=False, sample_interval_s=60)
    _runner.hook(settings.run_id, lambda own: ChunkHook(settings))
    try:
        with support.recording(client, settings, with_scheduler=True) as streams:
            result = support.run(support.dask(client), None, files, Sums(), savemetrics=False)
            client.run(worker.status, settings.run_id)
            roll = _writers.Roll()  # the scheduler lists the worker's stream too
            for found in client.run(worker.finish, settings.run_id).values():
                roll.add(found)
            roll.add(_on_scheduler(client, settings.run_id))
    finally:
        _runner.unhook(settings.run_id)
    return result["out"], streams, roll.writers()


def _on_scheduler(client, run_id):
    return client.run_on_scheduler(scheduler.end, run_id)


def known(streams):
    """Columns that have a value somewhere, and the contexts of activities."""
    found = set()
    for stream in streams:
        for _, batch in stream.batches:
            table = TABLES[batch.table]
            for columns, values in (
                (table.ints, batch.ints or batch.fixed_ints),
                (table.reals, batch.reals),
            ):
                for i, column in enumerate(columns):
                    those = values[i * batch.rows : (i + 1) * batch.rows]
                    if any(value == value and value not in UNKNOWN for value in those):
                        found.add(f"{table.name}.{column}")
                    if column == "context":
                        found |= {f"activities.{table.labels[column][value]}" for value in those}
    return found


def named(streams):
    prefix = _columns.UNAVAILABLE_METRIC
    return {
        entry.text.removeprefix(prefix)
        for stream in streams
        for (kind, _), entry in stream.names.items()
        if kind == "metric" and entry.text.startswith(prefix)
    }


def is_named(column, names):
    table = column.partition(".")[0]
    return column in names or table in names


@pytest.fixture(scope="module")
def touched(cluster, files, tmp_path_factory):
    """What the hooks touch of the three packages, but for what every analysis itself needs."""
    with private_access.traced() as touched:
        result, _, _ = record(cluster, files, tmp_path_factory.mktemp("traced"))
    assert result == RESULT
    assert {owner.partition(".")[0] for owner, _ in touched} == set(private_access.PACKAGES)
    assert len(touched) > 40  # else the watch is blind
    return sorted(touched - {("coffea.processor", "Runner")})


def faults(recorded):
    """What is wrong with a run, its columns aside."""
    result, streams, writers = recorded
    chunks = spool_reader.chunks(streams)
    good = {
        "result": result == RESULT,
        "chunks": list(chunks["status"]) == ["ok"] * CHUNKS,
        "events": sum(chunks["n_events"]) == support.EVENTS,
        "streams": len(streams) == 2 and all(s.end is not None for s in streams),
        "records": not any(s.end.dropped for s in streams if s.end is not None),
        "writers": {w.last for w in writers if w.stream} == {s.frames[-1].seq for s in streams},
    }
    return [name for name, is_good in good.items() if not is_good]


def test_each_attribute_that_the_hooks_touch_costs_its_own_columns_only(
    cluster, files, touched, tmp_path
):
    whole = set.intersection(*(known(record(cluster, files, tmp_path)[1]) for _ in range(2)))
    whole = {column for column in whole if not column.startswith("looks.")}  # they fall by chance
    assert whole.issuperset(TOLD_BY_QUALITY - {"sections.bytes_read_b"})
    wrong = []
    for attribute in touched:
        with private_access.taken({attribute}):
            recorded = record(cluster, files, tmp_path)
        names = named(recorded[1])
        lost = whole - known(recorded[1]) - TOLD_BY_QUALITY
        unnamed = {column for column in lost if not is_named(column, names)}
        if faults(recorded) or unnamed:
            wrong.append((*attribute, *faults(recorded), unnamed))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("package", private_access.PACKAGES)
@pytest.mark.parametrize("is_none", [False, True], ids=["missing", "None"])
def test_all_of_a_package_at_once(cluster, files, touched, tmp_path, package, is_none):
    """The user's result is as ever, and every chunk is recorded."""
    gone = {(owner, name) for owner, name in touched if owner.partition(".")[0] == package}
    with private_access.taken(gone, is_none):
        assert faults(record(cluster, files, tmp_path)) == []


@pytest.mark.parametrize("package", private_access.PACKAGES)
def test_the_verdict_names_what_a_package_did_not_give(cluster, files, touched, tmp_path, package):
    gone = {(owner, name) for owner, name in touched if owner.partition(".")[0] == package}
    with (
        private_access.taken(gone),
        crema.MetricsCollector(cluster, Sums(), output=tmp_path, quiet=True) as mc,
    ):
        result = support.run(support.dask(cluster), None, files, Sums())
    assert result["out"] == RESULT
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    with crema.open(mc.path) as run:
        assert len(run.chunks) == CHUNKS
        assert run.chunks["n_events"].sum() == support.EVENTS
        noted = [note["subject"] for note in run.notes if note["code"] == "columns_unavailable"]
    assert ("activities" in noted) == (package == "distributed"), noted
