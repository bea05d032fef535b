"""The run of the gallery: chunks of several sizes, sections, a slow file, an attempt that fails, a worker that is killed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time

import awkward as ak
import dask.dataframe  # noqa: F401 - the first call of DaskExecutor would, within the run
from coffea import processor
from distributed import Client, LocalCluster

import crema
from crema._demo_data import make_fileset
from crema._demo_processor import Schema

EVENTS = (20_000, 5_200, 1_800)  # of the two datasets together, each in four files
CHUNKSIZE = 1_000
WORKERS, THREADS = 3, 2
S_PER_EVENT = 1e-3


class Troubled(processor.ProcessorABC):
    """Waits for each event as if it came from far away, and has its troubles once each."""

    def __init__(self, marks: pathlib.Path):
        self.marks = str(marks)

    def process(self, events):
        """Number of events and the sum of their jets."""
        name, start = (
            pathlib.PurePath(events.metadata["filename"]).stem,
            events.metadata["entrystart"],
        )
        with crema.track_time("reading"):
            jets = events.Jet[events.Jet.pt > 30]
            slow = 2.5 if "resonance-1" in name else 1.0
            time.sleep(S_PER_EVENT * slow * len(events))
        if start == 2 * CHUNKSIZE and self._first("failed"):
            raise OSError("the connection was closed")
        if start == 3 * CHUNKSIZE and self._first("killed"):
            time.sleep(1)
            os.kill(os.getpid(), 9)
        with crema.track_time("selection"):
            total = sum(float(ak.sum(jets.pt * scale)) for scale in range(100))
        return {"events": len(events), "pt": total}

    def _first(self, mark: str) -> bool:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(f"{self.marks}/{mark}", os.O_CREAT | os.O_EXCL))
            return True
        return False

    def postprocess(self, accumulator):
        """Nothing is left to do."""
        return accumulator


def _warm_up() -> None:
    import coffea.nanoevents
    import gallery_run

    import crema.hook.worker

    assert all((coffea.nanoevents, crema.hook.worker, gallery_run))


def make(directory: pathlib.Path) -> pathlib.Path:
    """Measure the run; the path of its file."""
    fileset: dict = {}
    for n_events in EVENTS:
        for dataset, its in make_fileset(
            directory / "input" / str(n_events), n_events, lambda n: None
        ).items():
            fileset.setdefault(dataset, {"files": {}})["files"].update(its["files"])
    marks = directory / "marks"
    marks.mkdir()
    instance = Troubled(marks)
    with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=THREADS,
            memory_limit="1GB",
            dashboard_address=None,
            host="127.0.0.1",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(_warm_up)
        with crema.MetricsCollector(
            client, processor_instance=instance, output=directory, quiet=True, sample_interval=0.25
        ) as mc:
            runner = processor.Runner(
                executor=processor.DaskExecutor(client=client, status=False),
                schema=Schema,
                savemetrics=True,
                chunksize=CHUNKSIZE,
            )
            _, report = runner(fileset, processor_instance=instance, treename="Events")
            mc.set_coffea_report(report)
    return mc.path
