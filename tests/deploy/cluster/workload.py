"""The analysis that the test cluster is measured with: runs in the notebook's container, as an analyst's does.

It tells of itself in lines of JSON on standard output, the last one with what coffea and Dask themselves know of the run.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import threading
import time

import awkward as ak
import h5py
from coffea import processor
from distributed import Client, span

import crema
from crema._demo_data import make_fileset
from crema._demo_processor import Schema

RUNS = pathlib.Path("/runs")


class PacedJets(processor.ProcessorABC):
    """Counts jets above 30 GeV, and takes its time: a run lasts long enough to be hurt."""

    def __init__(self, pause_s: float):
        self.pause_s = pause_s

    def process(self, events):
        jets = events.Jet[events.Jet.pt > 30]
        time.sleep(self.pause_s)
        return {"events": len(events), "jets": int(ak.sum(ak.num(jets)))}

    def postprocess(self, accumulator):
        return accumulator


def tell(event: str, **more) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


def watch(path: pathlib.Path, over: threading.Event) -> None:
    """Tell how many attempts at chunks the live file shows, and why it shows none."""
    before, why_before = 0, ""
    while not over.wait(0.5):
        rows, why = before, ""
        try:
            with h5py.File(path, "r", libver="latest", swmr=True) as file:
                rows = len(file["chunks"])
        except (OSError, KeyError) as error:
            why = repr(error)
        if rows > before or why != why_before:
            tell("live", chunks=rows, why=why)
        before, why_before = rows, why


def span_metrics(client: Client, span_id: str) -> list:
    """Dask's own totals of a span, once its heartbeats bring nothing new."""

    def read(dask_scheduler, span_id):
        found = dask_scheduler.extensions["spans"].spans.get(span_id)
        return dict(found.cumulative_worker_metrics) if found else {}

    before, now, deadline = None, None, time.monotonic() + 30
    while (before is None or now != before) and time.monotonic() < deadline:
        before = now
        time.sleep(1.2)  # workers of a small cluster send theirs each 0.5 s or 1 s
        now = client.run_on_scheduler(read, span_id=span_id)
    return [
        [key[1], str(key[2]), key[3], value]
        for key, value in now.items()
        if key[0] == "execute" and len(key) == 4
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--events", type=int, default=24_000)
    parser.add_argument("--chunksize", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.2)
    options = parser.parse_args()
    fileset = make_fileset(pathlib.Path("/data"), options.events, lambda n: None)
    over = threading.Event()
    instance = PacedJets(options.pause)
    with Client(timeout=60) as client:
        client.wait_for_workers(options.workers, timeout=90)
        with crema.MetricsCollector(client, processor_instance=instance, output=RUNS) as mc:
            tell("run", run_id=mc.run_id)
            live = RUNS / f"{mc.run_id}.live.h5"
            threading.Thread(target=watch, args=(live, over), daemon=True).start()
            with span("measured") as span_id:
                run = processor.Runner(
                    executor=processor.DaskExecutor(client=client, status=False),
                    schema=Schema,
                    savemetrics=True,
                    chunksize=options.chunksize,
                    checkpointer=mc.checkpointer,
                    metadata_cache={},
                )
                result = run.run(fileset, processor_instance=instance, treename="Events")
            mc.set_coffea_report(result["metrics"])
            over.set()
            ended = time.monotonic()
        verdict_s = time.monotonic() - ended
        tell(
            "done",
            verdict=mc.verdict,
            reasons=mc.reasons,
            path=str(mc.path),
            verdict_s=verdict_s,
            span_id=span_id,
            dask=span_metrics(client, span_id),
            processed=[
                [w.dataset, w.filename, w.entrystart, w.entrystop] for w in result["processed"]
            ],
            report={k: result["metrics"][k] for k in ("entries", "bytesread", "chunks")},
            events=result["out"]["events"],
        )


main()
