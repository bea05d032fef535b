"""What recording costs a whole analysis: runs with and without crema in turn, and the median ratio with its 95 % interval.

    python tests/bench/paired.py [--pairs 400] [--minutes 30] [--events 400000] [--chunks 40] [--cores 2] [--null]

A pair is two runs of the same analysis next to each other; which of them is first changes from pair to pair, so that what else the
machine does meets both. Pairs are made until the interval of both wall ratios ends within 0.005 of its median, or until one of the limits.
Before and after each run the workers do a fixed piece of work: its time is the host's speed in these seconds, and what that explains of the
pairs' differences (by least squares) is taken out of them.
Two placements take turns: *spare*, where scheduler, client and pipeline have the last core and the workers the others, and *shared*,
where the workers have all cores and everything else is on them too. CPU is that of the workers and of this process, which holds
scheduler and client; that of the three programs is told apart. With --null neither run is recorded: both ratios must then be 1 within
their intervals.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
from scipy import stats

import crema
from crema.hook._agent import agent_of

CONFIDENCE = 0.95
NARROW = 0.005  # from the median to the upper end
LEAST_PAIRS = 8

# The workers' allocator keeps what is freed. By default glibc gives the top of the heap back whenever it happens to be free:
# the same run then has between 300 and 370,000 page faults, by chance, and takes up to 1.5 times as long.
KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(1 << 26),
}


def of_equal_speed(ratios: list[float], speeds: list[float]) -> np.ndarray:
    """Logarithms of the ratios, less what the ratios of the fixed work's times next to them explain (a control variate)."""
    logs, x = np.log(ratios), np.log(speeds)
    if len(logs) < LEAST_PAIRS:
        return logs
    slope = np.dot(x - x.mean(), logs - logs.mean()) / np.dot(x - x.mean(), x - x.mean())
    return logs - slope * x


def interval(logs: np.ndarray) -> tuple[float, float, float]:
    """The pairs' median ratio and its 95 % interval, after Hodges and Lehmann, from the ratios' logarithms.

    Medians of the means of every two pairs' logarithms, with the ranks that Wilcoxon's signed rank test gives: it asks only that
    chance meets both runs of a pair alike, and needs two thirds of the pairs that the median's own order statistics do.
    """
    n = len(logs)
    means = np.sort((logs[:, None] + logs[None, :])[np.triu_indices(n)] / 2)
    spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    below = max(int(len(means) / 2 - stats.norm.ppf((1 + CONFIDENCE) / 2) * spread), 0)
    middle, low, high = np.exp([np.median(means), means[below], means[-1 - below]])
    return float(middle), float(low), float(high)


@dataclasses.dataclass
class Measured:
    """One run: seconds of the analysis alone, CPU seconds in it, and of entering and leaving."""

    wall_s: float
    cpu_s: float
    fixed_s: float  # of the fixed work beside it
    programs_s: float = 0.0
    enter_s: float = 0.0
    exit_s: float = 0.0


class Placement:
    """A cluster whose workers have some of the cores, and its pairs."""

    def __init__(self, name: str, cores: list[int], spare: bool, fileset: dict, chunksize: int):
        self.name = name
        self._workers = cores[:-1] if spare else cores
        self._others = cores[-1:] if spare else cores
        self._fileset, self._chunksize = fileset, chunksize
        self.pairs: list[tuple[Measured, Measured]] = []  # with, without
        self._client: Any = None
        self._processes: list[psutil.Process] = []

    @contextlib.contextmanager
    def open(self) -> Iterator[Placement]:
        import dask
        from distributed import Client, LocalCluster

        with (
            dask.config.set({"distributed.nanny.pre-spawn-environ": KEEP_MEMORY}),
            LocalCluster(
                n_workers=len(self._workers), threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as self._client,
        ):
            pids = sorted(self._client.run(os.getpid).values())
            self._processes = [psutil.Process(), *map(psutil.Process, pids)]
            for pid in pids:
                _pin(pid, self._workers)
            yield self

    def measure(self, output: pathlib.Path | None) -> Measured:
        """Run the analysis; recorded, if there is a place for the file."""
        _pin(os.getpid(), self._others)
        if output is None:
            return self._analyse(None)
        mc = crema.MetricsCollector(self._client, output=output, quiet=True, on_error="raise")
        began = time.monotonic()
        with mc:
            enter_s = time.monotonic() - began
            over = threading.Event()
            mover = threading.Thread(target=self._move_agent, args=(mc, over))
            mover.start()
            measured = self._analyse(mc)
            over.set()
            mover.join()
            began = time.monotonic()
        measured.enter_s, measured.exit_s = enter_s, time.monotonic() - began
        if mc.verdict != "COMPLETE":
            raise SystemExit(f"{mc.path}: {mc.verdict} {mc.reasons}")
        mc.path.unlink()
        return measured

    def _move_agent(self, mc: Any, over: threading.Event) -> None:
        """The agent is a child of a worker, and would share that worker's cores."""
        while not over.wait(0.02):
            pid, _ = agent_of(mc._config.spool_dir()) or (0, [])
            if pid:
                _pin(pid, self._others)
                return

    def _analyse(self, mc: Any) -> Measured:
        from coffea import processor

        from crema._demo_processor import DijetProcessor, Schema

        run = processor.Runner(
            executor=processor.DaskExecutor(client=self._client, status=False),
            schema=Schema,
            savemetrics=True,
            chunksize=self._chunksize,
            metadata_cache={},
        )
        self._client.run(_settle)
        _settle()
        programs = _programs(mc)
        fixed_s = self._fixed_s()
        cpu_s, before_s, began = self._cpu_s(), _sum_s(programs), time.monotonic()
        run(self._fileset, processor_instance=DijetProcessor(), treename="Events")
        wall_s, cpu_s = time.monotonic() - began, self._cpu_s() - cpu_s
        programs_s = _sum_s(_programs(mc)) - before_s
        return Measured(wall_s, cpu_s, (fixed_s + self._fixed_s()) / 2, programs_s)

    def _fixed_s(self) -> float:
        """CPU time that the workers need for a fixed piece of work, now."""
        return statistics.mean(self._client.run(_fixed_work).values())

    def _cpu_s(self) -> float:
        return _sum_s(self._processes)

    def pair(self, output: pathlib.Path, null: bool) -> None:
        """Measure both; the order changes from pair to pair."""
        order = [True, False] if len(self.pairs) % 2 else [False, True]
        found = {
            with_it: self.measure(output if with_it and not null else None) for with_it in order
        }
        self.pairs.append((found[True], found[False]))

    def interval(self, what: str) -> tuple[float, float, float]:
        return interval(of_equal_speed(self._ratios(what), self._ratios("fixed_s")))

    def _ratios(self, what: str) -> list[float]:
        return [getattr(a, what) / getattr(b, what) for a, b in self.pairs]

    def is_narrow(self) -> bool:
        middle, _, high = self.interval("wall_s")
        return len(self.pairs) >= LEAST_PAIRS and high - middle <= NARROW

    def lines(self) -> Iterator[str]:
        for what, name in (("wall_s", "wall"), ("cpu_s", "CPU")):
            middle, low, high = self.interval(what)
            yield (
                f"{self.name:7} {name:5} with / without {middle:7.4f}   95 % {low:.4f} to {high:.4f}"
                f"   {len(self.pairs)} pairs"
            )
        for what, name in (
            ("enter_s", "enter"),
            ("exit_s", "exit, verdict included"),
            ("programs_s", "CPU of the three programs"),
        ):
            values = [getattr(a, what) for a, _ in self.pairs]
            yield f"{self.name:7} {name:25} {statistics.median(values):7.3f} s   at most {max(values):.3f} s"


def _settle() -> None:
    """Full garbage collections during the run, which come by chance, leave out what was there before it: they take 0.1 s otherwise."""
    gc.collect()
    gc.freeze()


def _fixed_work() -> float:
    """Seconds of CPU of a bit of Python and a bit of numpy, as an analysis has."""
    rng = np.random.default_rng(1)
    began = time.thread_time()
    total = 0
    for i in range(500_000):
        total += i * i
    for _ in range(4):
        np.sort(rng.random(400_000))
    return time.thread_time() - began


def _pin(pid: int, cores: list[int]) -> None:
    """All threads of a process; what it starts inherits that."""
    with contextlib.suppress(OSError):
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)


def _programs(mc: Any) -> list[psutil.Process]:
    """Sink, aggregator and agent of a run."""
    if mc is None:
        return []
    pid, _ = agent_of(mc._config.spool_dir()) or (0, [])
    found = [psutil.Process(pid)] if pid else []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # the sink's children come and go
            if process.name().startswith("crema-"):
                found.append(process)
    return found


def _sum_s(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", default=400, type=int, help="at most")
    parser.add_argument("--minutes", default=30.0, type=float, help="at most")
    parser.add_argument("--events", default=400_000, type=int)
    parser.add_argument("--chunks", default=40, type=int)
    parser.add_argument("--cores", default=2, type=int)
    parser.add_argument("--null", action="store_true")
    parser.add_argument("--placement", choices=("spare", "shared"), help="only that one")
    parser.add_argument("--json", type=pathlib.Path, help="where to store all pairs")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[: max(options.cores, 1)]
    until = time.monotonic() + 60 * options.minutes
    from crema._demo_data import make_fileset

    cache = pathlib.Path(__file__).parents[2] / ".cache" / "demo"
    cache.mkdir(parents=True, exist_ok=True)
    fileset = make_fileset(cache, options.events, lambda n: None)
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        output = pathlib.Path(directory)
        placements = [
            stack.enter_context(
                Placement(name, cores, spare, fileset, options.events // options.chunks).open()
            )
            for name, spare in (("spare", True), ("shared", False))
            if (len(cores) > 1 or not spare) and options.placement in (None, name)
        ]
        for placement in placements:  # the first runs import everything, with crema and without
            placement.measure(None)
            placement.measure(None if options.null else output)
        enough = False
        while not enough and len(placements[0].pairs) < max(options.pairs, 1):
            for placement in placements:
                placement.pair(output, options.null)
            enough = time.monotonic() > until or all(p.is_narrow() for p in placements)
        load = os.getloadavg()[1]
        print(
            f"{len(cores)} cores, load {load:.1f}, {options.events} events in {options.chunks} chunks"
        )
        for placement in placements:
            print(*placement.lines(), sep="\n")
    if options.json:
        pairs = {
            p.name: [tuple(map(dataclasses.asdict, pair)) for pair in p.pairs] for p in placements
        }
        options.json.write_text(json.dumps(pairs, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
