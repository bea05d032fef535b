"""What the tests of the hooks share: small ROOT files, processors with known behaviour, Dask's own truth by task."""

from __future__ import annotations

import contextlib
import importlib.metadata
import pathlib
import time
import uuid
from collections import defaultdict

import numpy as np
import uproot
from coffea import processor
from coffea.nanoevents import BaseSchema
from distributed.metrics import context_meter

import spool_reader
from crema.hook import scheduler
from crema.hook._config import HookConfig
from crema.hook.worker import WorkerHook
from measured_runs import wait_for_heartbeats

EVENTS = 600  # a file
CHUNK = 200


def make_files(directory: pathlib.Path, n: int = 3) -> dict:
    """Fileset of `n` small ROOT files in two datasets."""
    fileset: dict = {}
    for i in range(n):
        path = directory / f"f{i}.root"
        with uproot.recreate(path) as file:
            tree = file.mktree("Events", {"x": "float64", "y": "int32"})
            tree.extend({"x": np.full(EVENTS, i, dtype="f8"), "y": np.arange(EVENTS, dtype="i4")})
        dataset = fileset.setdefault(f"ds{i % 2}", {"files": {}})
        dataset["files"][str(path)] = "Events"
    return fileset


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def wait_for_file(path: str) -> None:
    """In a task, for as long as a test wants it to run; two minutes at most."""
    until = time.monotonic() + 120
    while not pathlib.Path(path).exists() and time.monotonic() < until:
        time.sleep(0.01)


class Counter(processor.ProcessorABC):
    """Some CPU, a little waiting, one branch."""

    def process(self, events):
        spin(0.01)
        time.sleep(0.005)
        return {"n": len(events), "sum": float(np.sum(events.x))}

    def postprocess(self, accumulator):
        return accumulator


class _Under(Counter):
    """Dask strips the underscore from its prefix."""


def function(events):
    """A processor need not be a class."""
    return Counter().process(events)


class Metered(Counter):
    """Meters with labels that are no strings."""

    def process(self, events):
        with context_meter.meter("my section"):
            spin(0.002)
        context_meter.digest_metric(("a", 1), 3, "widgets")
        context_meter.digest_metric(None, 0.5, "seconds")
        context_meter.digest_metric("minus", -1.5, "charge")
        return super().process(events)


class Flaky(Counter):
    """Fails the first time in each place where `marks` has no mark yet."""

    def __init__(self, marks: pathlib.Path, error: type[Exception] = ValueError, always="") -> None:
        self.marks, self.error, self.always = str(marks), error, always

    def process(self, events):
        meta = events.metadata
        mark = pathlib.Path(self.marks, f"{meta['fileuuid']}-{meta['entrystart']}")
        if self.always and self.always in meta["filename"] and meta["entrystart"] == 0:
            raise self.error("always")
        if not self.always and meta["entrystart"] == 0 and not mark.exists():
            mark.touch()
            spin(0.003)
            raise self.error("the first time")
        return super().process(events)


class Sleeper(Counter):
    """Leaves its pid and waits."""

    def __init__(self, marks: pathlib.Path) -> None:
        self.marks = str(marks)

    def process(self, events):
        import os

        pathlib.Path(self.marks, str(os.getpid())).touch()
        if len(list(pathlib.Path(self.marks).iterdir())) <= 1:
            time.sleep(120)
        return super().process(events)


class FailsBesideAnother(Counter):
    """The chunk at entry 0 fails once the next one has begun, which goes on until it is let go."""

    def __init__(self, mark: pathlib.Path, let_go: pathlib.Path) -> None:
        self.mark, self.let_go = str(mark), str(let_go)

    def process(self, events):
        mark = pathlib.Path(self.mark)
        if events.metadata["entrystart"] > 0:
            mark.touch()
            wait_for_file(self.let_go)
            return super().process(events)
        while not mark.exists():
            time.sleep(0.01)
        raise ValueError("beside another")


def config(directory: pathlib.Path, **options) -> HookConfig:
    options.setdefault("sample_interval_s", 0.2)
    return HookConfig(str(uuid.uuid4()), spool=str(directory / "spool-{run_id}"), **options)


def run(executor, hook, fileset, instance, **options):
    options.setdefault("savemetrics", True)
    runner = processor.Runner(
        executor=executor, schema=BaseSchema, chunksize=CHUNK, checkpointer=hook, **options
    )
    return runner.run(fileset, processor_instance=instance)


def coffea_version() -> tuple[int, ...]:
    return tuple(map(int, importlib.metadata.version("coffea").split(".")[:2]))


def dask(client, compression=1):
    return processor.DaskExecutor(client=client, compression=compression, status=False)


@contextlib.contextmanager
def recording(client, settings: HookConfig, with_scheduler: bool = False):
    """The plugins on all workers; a list that holds the streams when it is over."""
    streams: list[spool_reader.Stream] = []
    hooks = [WorkerHook(settings)]
    if (
        with_scheduler
    ):  # before the workers, as the collector does it: what it sends from then on is marked
        hooks.append(scheduler.SchedulerHook(settings))
        client.register_plugin(hooks[1])
    client.register_plugin(hooks[0])
    try:
        yield streams
    finally:
        if with_scheduler:
            client.run_on_scheduler(scheduler.end, settings.run_id)
            client.unregister_scheduler_plugin(hooks[1].name)
        client.unregister_worker_plugin(hooks[0].name)
        streams.extend(spool_reader.read(settings.spool_dir()))


def watch_tasks(dask_worker) -> None:
    """On a worker: keep what each task's end adds to the totals, at the very place where Dask adds it."""
    if hasattr(dask_worker, "by_task"):
        dask_worker.by_task.clear()
        return
    dask_worker.by_task = defaultdict(lambda: defaultdict(list))
    finalize, digest = dask_worker._finalize_metrics, dask_worker.digest_metric
    current = []

    def finalize_metrics(stim, *args, **kwargs):
        current.append(getattr(stim, "key", None))
        try:
            finalize(stim, *args, **kwargs)
        finally:
            current.pop()

    def digest_metric(name, value):
        if current and current[-1] is not None and name[0] == "execute":
            dask_worker.by_task[current[-1]][name].append(value)
        digest(name, value)

    dask_worker._finalize_metrics = finalize_metrics
    dask_worker.digest_metric = digest_metric


def digests(dask_worker) -> dict:
    return dict(dask_worker.digests_total)


def tasks(dask_worker) -> dict:
    return {key: dict(names) for key, names in dask_worker.by_task.items()}


def text(label) -> str:
    return label if isinstance(label, str) else repr(label)


def span_truth(client, span_id) -> dict:
    """(prefix, activity, unit) -> total, to which workers add with their heartbeats."""

    def read(dask_scheduler, span_id):
        return dict(dask_scheduler.extensions["spans"].spans[span_id].cumulative_worker_metrics)

    wait_for_heartbeats(client)
    now = client.run_on_scheduler(read, span_id=span_id)
    return {k[1:]: v for k, v in now.items() if k[0] == "execute" and len(k) == 4 and k[1] != "N/A"}
