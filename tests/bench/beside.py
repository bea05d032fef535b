"""How a small run's commits fare beside others: p99 beside a large run and beside 64 with live files, and the first commit after a restart.

    python tests/bench/beside.py [--bin DIR] [--rows N] [--seconds S] [--json FILE]

Each commit is one record, from its PUT to COMMITTED, with a question for the stream's state before it, as an aggregator would ask it. In turn with
them, beside the same load, a program that does nothing else answers a question and syncs a record (`floor.py`), and a file is written and synced
without messages: what the machine takes.
The large run arrives as fast as the sink takes it; each of the 64 appends 64 samples ten times a second. For the restart, all of the large run is
in a store, still open, when the sink is killed and started again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable

from chain import ROOT
from floor import Floor
from restart import BATCH, Restart, free_port
from small_run import SmallRun

VIEWS = 64
SAMPLES = 64
PAUSE_MS = 100
RESTARTS = 5
SETTLE_S = 3
BREAK_S = 0.01  # between two commits


def figures(delays_s: list[float]) -> dict[str, float]:
    """Median and p99 in milliseconds."""
    cuts = statistics.quantiles(delays_s, n=100)
    return {"p50_ms": cuts[49] * 1e3, "p99_ms": cuts[98] * 1e3, "commits": len(delays_s)}


def commits(run: SmallRun, goes_on: Callable[[], bool]) -> dict[str, object]:
    """Commits of the small run, in turn with what the machine takes for one."""
    floor = Floor(run.directory)
    ways = {"": run.commit_s, "floor": floor.messages_s, "sync": floor.sync_s}
    delays_s: dict[str, list[float]] = {name: [] for name in ways}
    try:
        while goes_on():
            for name, way in ways.items():
                delays_s[name].append(way())
                time.sleep(BREAK_S)
    finally:
        floor.close()
    found = {name: figures(delays) for name, delays in delays_s.items()}
    return {**found.pop(""), **found}


def during(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


class Beside(Restart):
    @contextlib.contextmanager
    def shipping(self, run: SmallRun, spool: pathlib.Path):
        """An aggregator and an agent that bring what is in a spool to the sink of the small run."""
        at, log = f"tcp://127.0.0.1:{free_port()}", run.directory / "log"
        words = [
            ("crema-aggregator", "--bind", at, "--sink", run.endpoint),
            ("crema-agent", "--spool", spool, "--aggregator", at),
        ]
        programs = [self.start(log, *w) for w in words]
        try:
            yield
        finally:
            for program in programs:
                self.stop(program)

    def beside_views(self, run: SmallRun, seconds: float) -> dict[str, float]:
        """Beside runs that record a little all the time, each with a live file."""
        spool = run.directory / "views"
        spool.mkdir(mode=0o700)
        rows = SAMPLES * int((seconds + SETTLE_S + 30) * 1000 / PAUSE_MS)
        command = [str(self.programs / "chain_writer_main"), str(spool)]
        tail = [str(rows), str(SAMPLES), str(PAUSE_MS)]
        writers = [
            subprocess.Popen([*command, uuid.uuid4().hex, *tail], stderr=subprocess.DEVNULL)
            for _ in range(VIEWS)
        ]
        try:
            with self.shipping(run, spool):
                time.sleep(SETTLE_S)
                found = commits(run, during(seconds))
                live = len(list((run.directory / "output").glob("*.live.h5")))
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
        return {**found, "live_files": live}

    def beside_large(self, run: SmallRun) -> dict[str, float]:
        """While a large run arrives, until most of its segments have left the spool."""
        spool = self.fill(run.directory, "large", self.rows)
        many = len(list(spool.glob("sp-*")))
        with self.shipping(run, spool):
            time.sleep(1)
            found = commits(run, lambda: len(list(spool.glob("sp-*"))) > many / 10)
            self.drained_s(list(spool.glob("sp-*")), time.monotonic(), run.directory / "log")
        return found


def restart_s(run: SmallRun) -> float:
    """Median of seconds from a start after a kill to the first commit."""
    found = []
    for _ in range(RESTARTS):
        run.kill()
        began = run.start()
        run.commit_s()
        found.append(time.monotonic() - began)
    return statistics.median(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--rows", type=int, default=120_000_000)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    bench = Beside(options.bin, options.rows, BATCH)
    found = {}
    with tempfile.TemporaryDirectory(prefix="crema-beside-") as top:
        for name in ("views", "large"):
            run = SmallRun(pathlib.Path(top, name), options.bin)
            found.setdefault("alone", commits(run, during(options.seconds)))
            found.setdefault("restart_alone_s", restart_s(run))
            if name == "views":
                found["views"] = bench.beside_views(run, options.seconds)
            else:
                found["large"] = bench.beside_large(run)
                found["journal_mb"] = run.journal_b() / 1e6
                found["restart_large_s"] = restart_s(run)
            run.kill()
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
