"""How the cost of the pipeline grows with rows, with workers and with runs that are open.

    python tests/bench/growth.py [--bin DIR] [--rows 10000 ... ] [--workers 100 ...] [--runs 1 ...] [--json FILE]

Each series is measured on the real programs, one after the other. *Rows*: one run of so many samples, from the spool into the journal and from
there into the file. *Workers*: so many agents' sessions, up to 2,500 in one process, each with one stream and one record per second. *Runs*: so many open runs
of one stream each in one spool, and another small one whose records are to become durable beside them. The exponent is the slope of log(cost - fixed) over log(n),
where the fixed cost is that of programs that have nothing to do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import pathlib
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator

from chain import ROOT, Bench, free_port
from idle import spent

EXPONENT_MAX = 1.10
BATCH = 512
STREAM_ROWS = 1_000_000
SWARM_SECONDS = 20.0
SWARM_H_MS = 5_000
SWARM_AGENTS = 2_500  # of one process, whose descriptors are limited
SWARM_PATIENCE_S = 60.0


def peak_b(pid: int) -> int:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_s(pid: int) -> float:
    return spent(pid)[0] * 1e-9


def exponent(points: dict[int, float], fixed: float) -> float:
    """Slope between the largest n and the one a hundredth of it, or the least that costs something beyond the fixed part."""
    known = [(n, cost - fixed) for n, cost in sorted(points.items()) if cost - fixed > 0.2 * fixed]
    if len(known) < 2:
        return math.nan
    (n0, c0), (n1, c1) = known[0], known[-1]
    return math.log(c1 / c0) / math.log(n1 / n0)


class Swarm:
    """Agents in one process, which reads what they say in a thread of its own."""

    def __init__(self, programs: pathlib.Path, at: str, agents: int) -> None:
        self._agents = agents
        words = [programs / "swarm_main", at, "-", agents, SWARM_H_MS, 1]
        self._process = subprocess.Popen(
            list(map(str, words)), stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
        )
        self._rows: queue.SimpleQueue[dict] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._rows.put(json.loads(line))

    def must_welcome(self) -> None:
        while self._rows.get(timeout=SWARM_PATIENCE_S).get("welcomed", 0) < self._agents:
            pass

    def latencies(self) -> dict[str, float]:
        """Of the records since the last call."""
        self._process.send_signal(signal.SIGHUP)
        while "p99_ms" not in (row := self._rows.get(timeout=SWARM_PATIENCE_S)):
            pass
        return row

    def __enter__(self) -> Swarm:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._reader.join()
        self._process.wait()
        self._process.stdout.close()


class Growth(Bench):
    """Sink and aggregator of their own for each point."""

    @contextlib.contextmanager
    def services(self, work: pathlib.Path) -> Iterator[dict]:
        store, output = work / "store", work / "output"
        for place in (store, output):
            place.mkdir(mode=0o700, parents=True)
        log = work / "log"
        aggregator, sink = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        words = ["crema-sink", "--bind", sink, "--store", store, "--output", output, "--no-live"]
        programs = {
            "sink": self.start(log, *words),
            "aggregator": self.start(log, "crema-aggregator", "--bind", aggregator, "--sink", sink),
        }
        time.sleep(0.5)
        try:
            yield {"at": aggregator, "log": log, "store": store, **programs}
        finally:
            for program in programs.values():
                program.kill()
                program.wait()

    def write(self, spool: pathlib.Path, rows: int, run_id: str) -> None:
        spool.mkdir(mode=0o700, exist_ok=True)
        while rows > 0:
            n = min(rows, STREAM_ROWS)
            self.run("chain_writer_main", spool, run_id, n, min(n, BATCH))
            rows -= n

    def ship(self, services: dict, spool: pathlib.Path) -> tuple[float, float]:
        """Seconds until all is durable, CPU seconds of the agent."""
        segments = list(spool.glob("sp-*"))
        began = time.monotonic()
        agent = self.start(
            services["log"], "crema-agent", "--spool", spool, "--aggregator", services["at"]
        )
        took = self.drained_s(segments, began, services["log"])
        return took, self.stop(agent)

    def rows_point(self, work: pathlib.Path, rows: int) -> dict[str, float]:
        with self.services(work) as services:
            self.write(work / "spool", rows, uuid.uuid4().hex)
            wall_s, agent_s = self.ship(services, work / "spool")
            found = {
                "wall_s": wall_s,
                "cpu_s": agent_s + sum(cpu_s(services[n].pid) for n in ("sink", "aggregator")),
                "sink_peak_b": peak_b(services["sink"].pid),
                "aggregator_peak_b": peak_b(services["aggregator"].pid),
            }
            journal = next(path for path in services["store"].iterdir() if path.is_dir())
        began = time.monotonic()
        words = [self.programs / "crema-sink", "rebuild", journal, "--output", work / "run.h5"]
        subprocess.run(list(map(str, words)), stdout=subprocess.DEVNULL, check=True)
        return found | {"seal_s": time.monotonic() - began}

    def workers_point(self, work: pathlib.Path, workers: int) -> dict[str, float]:
        """The p99 is the largest of the processes that simulate the agents, the p50 their mean."""
        with self.services(work) as services, contextlib.ExitStack() as stack:
            sizes = [SWARM_AGENTS] * (workers // SWARM_AGENTS) + [workers % SWARM_AGENTS]
            swarms = [
                stack.enter_context(Swarm(self.programs, services["at"], n)) for n in sizes if n
            ]
            for swarm in swarms:
                swarm.must_welcome()
            for swarm in swarms:
                swarm.latencies()
            before = {n: cpu_s(services[n].pid) for n in ("sink", "aggregator")}
            began = time.monotonic()
            time.sleep(SWARM_SECONDS)
            said = [swarm.latencies() for swarm in swarms]
            took = time.monotonic() - began
            after = {n: cpu_s(services[n].pid) for n in before}
            return {
                "p50_ms": statistics.mean(row["p50_ms"] for row in said),
                "p99_ms": max(row["p99_ms"] for row in said),
                "cpu_s": sum(after[n] - before[n] for n in before) / took,
                "aggregator_peak_b": peak_b(services["aggregator"].pid),
                "sink_peak_b": peak_b(services["sink"].pid),
            }

    def runs_point(self, work: pathlib.Path, runs: int) -> dict[str, float]:
        with self.services(work) as services:
            for _ in range(runs):
                self.write(work / "spool", BATCH, uuid.uuid4().hex)
            wall_s, agent_s = self.ship(services, work / "spool")
            found = {
                "wall_s": wall_s,
                "cpu_s": agent_s + sum(cpu_s(services[n].pid) for n in ("sink", "aggregator")),
            }
            commits = []
            for i in range(15):
                self.write(work / f"small{i}", 64, uuid.uuid4().hex)
                commits.append(self.ship(services, work / f"small{i}")[0])
            return found | {
                "commit_p50_ms": 1e3 * statistics.median(commits),
                "commit_max_ms": 1e3 * max(commits),
                "sink_peak_b": peak_b(services["sink"].pid),
            }


def series(name: str, points: dict[int, dict[str, float]]) -> dict:
    """Print a table with exponents of what is a cost."""
    columns = list(next(iter(points.values())))
    print(f"\n{name:>10}" + "".join(f"{column:>18}" for column in columns))
    for n, row in points.items():
        cells = [f"{row[c] / 1e6:.1f} MB" if c.endswith("_b") else f"{row[c]:.3f}" for c in columns]
        print(f"{n:>10}" + "".join(f"{cell:>18}" for cell in cells), flush=True)
    fixed = {c: min(row[c] for row in points.values()) for c in columns}
    slopes = {c: exponent({n: row[c] for n, row in points.items()}, fixed[c]) for c in columns}
    print(f"{'exponent':>10}" + "".join(f"{slopes[c]:>18.2f}" for c in columns))
    return {
        "points": points,
        "exponents": {c: None if math.isnan(s) else s for c, s in slopes.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--rows", type=int, nargs="*", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--workers", type=int, nargs="*", default=[100, 1000, 5000])
    parser.add_argument("--runs", type=int, nargs="*", default=[1, 64, 1000])
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    bench = Growth(options.bin, 0, 0)
    found = {}
    for name in ("rows", "workers", "runs"):
        points = {}
        for n in getattr(options, name):
            print(f"{name} {n}", end="\r", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="crema-growth-") as top:
                points[n] = getattr(bench, f"{name}_point")(pathlib.Path(top), n)
        if points:
            found[name] = series(name, points)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
