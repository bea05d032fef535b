"""Runs with a planted cause, whose truth is stated beforehand and measured by the code's own clocks."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator

import awkward as ak
import numpy as np
import uproot
from coffea import processor
from coffea.nanoevents import NanoAODSchema

EVENTS = 1000  # of a file
JET = ("pt", "eta", "phi", "mass")


class Planted(processor.ProcessorABC):
    """Measures the wall time and the thread's CPU time of plant() within process()."""

    def plant(self, events) -> float | None:
        """What the case is about; returns its seconds if they are not all of the time that it takes."""
        raise NotImplementedError

    def process(self, events):
        began = time.monotonic()
        len(events.Jet)
        wall, cpu = time.monotonic(), time.thread_time()
        seconds = self.plant(events)
        cpu, ended = time.thread_time() - cpu, time.monotonic()
        planted = ended - wall if seconds is None else seconds
        return {"process_s": ended - began, "planted_s": planted, "planted_cpu_s": cpu}

    def postprocess(self, accumulator):
        return accumulator


def marked_line(path: str, mark: str) -> str:
    """`file.py:LINE` of the line that ends with the comment `# planted: mark`."""
    lines = pathlib.Path(path).read_text().splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if line.endswith(f"# planted: {mark}"))
    return f"{pathlib.Path(path).name}:{number}"


def write(path: pathlib.Path, seed: int, events: int = EVENTS) -> str:
    """A file of NanoAOD's form that is opened in milliseconds."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 6, events)
    columns = {name: random.exponential(40.0, counts.sum()) for name in JET}
    with uproot.recreate(path) as file:
        ids = {name: np.full(events, seed) for name in ("run", "luminosityBlock", "event")}
        types = {"Jet": f"var * {{{', '.join(f'{name}: float64' for name in JET)}}}"}
        jets = ak.zip({name: ak.unflatten(column, counts) for name, column in columns.items()})
        file.mktree("Events", types | dict.fromkeys(ids, "int64")).extend({"Jet": jets, **ids})
    return str(path)


@contextlib.contextmanager
def on_disk(case: Case, directory: pathlib.Path) -> Iterator[dict]:
    """A fileset of one dataset, in local files."""
    yield {"dy": [write(directory / f"f{n}.root", n, case.events) for n in range(case.files)]}


@contextlib.contextmanager
def undisturbed(cluster) -> Iterator[dict]:
    """Nothing happens beside the analysis."""
    yield {}


def run(case: Case, directory: pathlib.Path):
    """Runs the case; returns its run file and what its own clocks measured."""
    with case.fileset(case, directory) as fileset:
        return case.execute(case, directory, fileset)


def with_dask(case: Case, directory: pathlib.Path, fileset: dict):
    """The case's processor in coffea's Runner, on a cluster of its own."""
    from distributed import Client

    import crema
    from clusters import LocalCluster

    instance = case.processor()
    limit = {"memory_limit": case.memory_limit} if case.memory_limit else {}
    with (
        LocalCluster(
            n_workers=case.workers,
            threads_per_worker=case.threads,
            processes=case.processes,
            dashboard_address=None,
            **limit,
        ) as cluster,
        Client(cluster) as client,
        case.beside(cluster) as seen,
        crema.MetricsCollector(client, instance, output=directory, quiet=True) as mc,
    ):
        measured = processor.Runner(
            executor=processor.DaskExecutor(client=client, status=False),
            schema=NanoAODSchema,
        )(fileset, processor_instance=instance, treename="Events")
    return mc.path, measured | seen


@dataclasses.dataclass(frozen=True)
class Case:
    """What is planted (`processor`), where it runs, and what the first cause must be and say."""

    name: str
    processor: type
    expected: frozenset
    words: tuple  # of the first sentence; `a|b`: one of them
    why: str
    workers: int = 1
    threads: int = 2
    processes: bool = True
    files: int = 24
    share: float = 0.8  # of the wall time of process() that the planted part takes at least
    innocent: frozenset = frozenset()  # causes that must not be accused, at any rank
    memory_limit: str = ""  # of a worker; Dask's own if empty
    events: int = EVENTS  # of a file
    fileset: Callable = on_disk
    beside: Callable = undisturbed  # context manager around the run; what it yields is measured too
    execute: Callable = with_dask
    steady: bool = False  # also beside other tests, and so in the default tier
    long: bool = False  # not among those that are run each time
    wrong: str = ""  # what was said in place of the truth; that test is expected to fail
