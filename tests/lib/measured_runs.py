"""What the end-to-end tests share: one measured run, Dask's and coffea's own truth, and crema's file."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import time

import h5py
import pandas as pd
from coffea import processor
from coffea.nanoevents import NanoAODSchema
from distributed import span

import crema
from waiting import wait_for

NOT_OURS = {"startup", "drained"}  # of a run of some seconds they may be most
CROWDED = 0.02  # of the threads' time waits for a core: the machine has other work than the test's, or its host has


@dataclasses.dataclass
class Measured:
    """A finished run: crema's file, coffea's result, Dask's fine metrics of the run's span."""

    path: pathlib.Path
    verdict: str
    reasons: list
    result: dict
    dask: dict  # (prefix, activity, unit) -> total of the span, from the scheduler
    span_id: str


def runner(executor, collector, chunksize, **options):
    return processor.Runner(
        executor=executor,
        schema=NanoAODSchema,
        savemetrics=True,
        chunksize=chunksize,
        checkpointer=collector.checkpointer,
        metadata_cache={},  # coffea's own lives as long as this process: no preprocessing after the first run
        **options,
    )


def measure(
    client,
    fileset,
    instance,
    output,
    chunksize=20,
    compression: int | None = 1,
    during=None,
    dask=True,
    **collector_options,
) -> Measured:
    """Run `instance` over `fileset` on `client`; `during(collector)` may start trouble before the analysis does.

    Without `dask` nobody waits for the scheduler to know all of Dask's own metrics.
    """
    with crema.MetricsCollector(
        client, processor_instance=instance, output=output, **collector_options
    ) as mc:
        if during:
            during(mc)
        with span("measured") as span_id:
            executor = processor.DaskExecutor(client=client, compression=compression, status=False)
            result = runner(executor, mc, chunksize).run(
                fileset, processor_instance=instance, treename="Events"
            )
        mc.set_coffea_report(result["metrics"])
    return Measured(
        pathlib.Path(mc.path),
        mc.verdict,
        mc.reasons,
        result,
        span_metrics(client, span_id) if dask else {},
        span_id,
    )


def wait_for_heartbeats(client) -> None:
    """Until each worker has sent a heartbeat that began after this call: the second one that comes, at the latest."""

    def read(dask_scheduler):
        return {address: state.last_seen for address, state in dask_scheduler.workers.items()}

    for _ in range(2):
        before = client.run_on_scheduler(read)
        wait_for(
            lambda before=before: all(
                seen > before.get(address, 0)
                for address, seen in client.run_on_scheduler(read).items()
            ),
            what="a heartbeat of each worker",
        )


def span_metrics(client, span_id, settled: bool = True) -> dict:
    """Dask's Span.cumulative_worker_metrics, to which workers add with their heartbeats; not `settled`: as it is now."""

    def read(dask_scheduler, span_id):
        known = dask_scheduler.extensions["spans"].spans
        found = known.get(span_id)
        return dict(found.cumulative_worker_metrics) if found else {}

    if settled:
        wait_for_heartbeats(client)
    found = client.run_on_scheduler(read, span_id=span_id)
    return {key[1:]: value for key, value in found.items() if key[0] == "execute" and len(key) == 4}


def table(path, name) -> pd.DataFrame:
    return pd.read_hdf(path, name)


def names(path, dictionary) -> pd.Series:
    frame = table(path, f"dict/{dictionary}")
    return frame.set_index("id")["name"]


def enum_labels(path, name, column) -> dict[int, str]:
    with h5py.File(path) as f:
        return {v: k for k, v in h5py.check_enum_dtype(f[name].dtype[column]).items()}


def execute_totals(path, span_id) -> dict:
    """crema's sum of increments per (prefix, activity, unit) in the span's execute context."""
    rows = table(path, "activities")
    context = {v: k for k, v in enum_labels(path, "activities", "context").items()}
    spans = table(path, "dict/span").set_index("id")["uuid"]
    rows = rows[(rows.context == context["execute"]) & (rows.span_id.map(spans) == span_id)]
    keys = [
        rows.task_prefix_id.map(names(path, "task_prefix")),
        rows.activity_id.map(names(path, "activity")),
        rows.unit_id.map(names(path, "unit")),
    ]
    return rows.value.groupby(keys).sum().to_dict()


def counted_chunks(path) -> pd.DataFrame:
    """One row per finished chunk: ok and not superseded."""
    chunks = table(path, "chunks")
    ok = {v: k for k, v in enum_labels(path, "chunks", "status").items()}["ok"]
    return chunks[(chunks.status == ok) & ((chunks.quality & 8) == 0)]


def chunk_identities(path) -> set:
    chunks = counted_chunks(path)
    files = table(path, "dict/file").set_index("id")["name"]
    datasets = names(path, "dataset")
    return set(
        zip(
            chunks.dataset_id.map(datasets),
            chunks.file_id.map(files),
            chunks.entry_start,
            chunks.entry_stop,
            strict=True,
        )
    )


def processed_identities(result) -> set:
    return {(w.dataset, w.filename, w.entrystart, w.entrystop) for w in result["processed"]}


def must_be_complete_and_equal(run: Measured) -> None:
    """Complete, with Dask's own totals, and coffea's events and chunks."""
    assert (run.verdict, run.reasons) == ("COMPLETE", [])
    ours = execute_totals(run.path, run.span_id)
    theirs = {key: value for key, value in run.dask.items() if key[0] != "N/A"}
    assert theirs
    for key, value in theirs.items():
        assert abs(ours[key] - value) <= 1e-6 * abs(value), key
    must_have_counted(run)


def must_have_counted(run: Measured) -> None:
    """Each chunk once: coffea's events and chunks."""
    chunks = counted_chunks(run.path)
    assert int(chunks["n_events"].sum()) == run.result["metrics"]["entries"] > 0
    assert len(chunks) == run.result["metrics"]["chunks"]


def workflow(path) -> dict:
    return table(path, "summary/workflow").set_index("name").value.to_dict()


def waited_for_cores(path: pathlib.Path) -> float:
    """Share of the threads' time after the start that went into waiting for a core."""
    seconds = table(path, "summary/bottlenecks").set_index("name").thread_seconds
    return seconds.cores / (seconds.sum() - seconds.startup - seconds.drained)


def processes(program: str, marker: str) -> list[int]:
    """Pids of crema programs with `marker` in their command line, dashes aside."""
    found = []
    plain = marker.replace("-", "")
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if pathlib.Path(words[0]).name == program and any(
            plain in word.replace("-", "") for word in words
        ):
            found.append(int(path.parent.name))
    return found


def kill_one(program: str, marker: str, timeout_s: float = 20.0) -> int:
    """kill -9 one process of the run's pipeline, waiting until there is one."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for pid in processes(program, marker):
            os.kill(pid, signal.SIGKILL)
            return pid
        time.sleep(0.05)
    raise AssertionError(f"no {program} of this run appeared within {timeout_s} s")
