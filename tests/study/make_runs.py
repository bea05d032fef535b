"""Real runs for the study of scaling: one analysis bound by the CPU, one by its input, on ever more threads.

    PYTHONPATH=tests/lib python tests/study/make_runs.py DIR [--repeats 3] [--only cpu|input]

CPU-bound: the dijet analysis of the demonstration on local files, workers of one thread, up to as many as there are cores.
Input-bound: a light analysis of files behind a server that lets every request wait, up to 16 threads.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator

import awkward as ak
from coffea import processor
from distributed import Client, LocalCluster

import crema
from crema._demo_data import make_fileset
from crema._demo_processor import DijetProcessor, Schema
from throttled import throttled

EVENTS = {"cpu": 16_000, "input": 48_000}
CHUNKSIZE = 1_000
LATENCY_S = 0.25  # of a request; a chunk makes several, one after the other
LAYOUTS = {  # threads -> workers, threads of each
    "cpu": {1: (1, 1), 2: (2, 1)},
    "input": {1: (1, 1), 2: (1, 2), 4: (1, 4), 8: (2, 4), 16: (4, 4)},
}


class Reader(processor.ProcessorABC):
    """Reads a few columns and adds them up: all it does is wait for them."""

    def process(self, events):
        """Sums of one chunk."""
        return {"events": len(events), "met": float(ak.sum(events.MET.pt))}

    def postprocess(self, accumulator):
        """Nothing is left to do."""
        return accumulator


def warm_up() -> None:
    """Import what a first chunk would import."""
    import aiohttp
    import coffea.nanoevents
    import fsspec
    import hist
    import uproot

    import crema.hook.chunks

    assert all((aiohttp, coffea.nanoevents, fsspec, hist, uproot, crema.hook.chunks))


@contextlib.contextmanager
def cluster_of(kind: str, threads: int) -> Iterator[Client]:
    """A client of a cluster with so many threads, warm."""
    workers, each = LAYOUTS[kind][threads]
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=each, dashboard_address=":0", host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(warm_up)
        yield client


def run(
    client: Client, kind: str, repeat: int, fileset: dict, output: pathlib.Path
) -> pathlib.Path:
    """One measured run; where its file is."""
    instance = DijetProcessor() if kind == "cpu" else Reader()
    with crema.MetricsCollector(
        client,
        processor_instance=instance,
        output=output,
        run_label=f"{kind}, repeat {repeat}",
        quiet=True,
        attributes={
            "chunksize": CHUNKSIZE,
            "repeat_index": repeat,
            "scaling_series_id": kind,
            "cores": len(os.sched_getaffinity(0)),
        },
    ) as mc:
        runner = processor.Runner(
            executor=processor.DaskExecutor(client=client, status=False),
            schema=Schema,
            savemetrics=True,
            chunksize=CHUNKSIZE,
            checkpointer=mc.checkpointer,
        )
        _, report = runner(fileset, processor_instance=instance, treename="Events")
        mc.set_coffea_report(report)
    return mc.path


def series(kind: str, repeats: int, output: pathlib.Path) -> None:
    """All runs of one kind that are not there yet; each cluster makes its repeats, after a smaller run that does not count."""
    data = (output / f"input-of-{kind}").absolute()
    fileset = make_fileset(data, EVENTS[kind], lambda n: None)
    cores = len(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        if kind == "input":
            url = stack.enter_context(throttled(data, LATENCY_S))
            for dataset in fileset.values():
                files = dataset["files"].items()
                dataset["files"] = {f"{url}/{pathlib.Path(f).name}": tree for f, tree in files}
        for threads in LAYOUTS[kind]:
            paths = [output / f"{kind}-{threads:02d}-{repeat}.h5" for repeat in range(repeats)]
            if all(path.exists() for path in paths) or (kind == "cpu" and threads > cores):
                continue
            with cluster_of(kind, threads) as client:
                first = dict([next(iter(fileset.items()))])  # of several datasets
                run(client, kind, -1, first, output).unlink()
                for repeat, path in enumerate(paths):
                    run(client, kind, repeat, fileset, output).rename(path)
                    with crema.open(path) as file:
                        wall_s = file.summary()["wall_time"]
                        print(f"{path.name}: {file.verdict}, {wall_s:.1f} s", flush=True)


def main() -> int:
    """Make the runs that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=sorted(LAYOUTS))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for kind in [options.only] if options.only else sorted(LAYOUTS):
        series(kind, options.repeats, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
