"""What a sample costs from the spool to the journal and into the file, beside HDF5 and write(2) alone on the same machine.

    python tests/bench/chain.py [--bin DIR] [--rows N] [--batch N] [--rounds N]

Rates swing on a shared machine, so each round measures everything once and the ratios within rounds are what counts; printed is
the median round. CPU is what the operating system charged each program from its start to its end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))
from ports import free_port

ROOT = pathlib.Path(__file__).parents[2]
DRAIN_LIMIT_S = 300


class Bench:
    """The three programs on one spool, and what is held against them."""

    def __init__(self, programs: pathlib.Path, rows: int, batch: int):
        self.programs, self.rows, self.batch = programs, rows, batch

    def run(self, *words) -> str:
        """Run a program to its end and return what it printed."""
        command = [str(self.programs / words[0]), *map(str, words[1:])]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self, log: pathlib.Path, *words) -> subprocess.Popen:
        """Start a program of the chain."""
        command = [str(self.programs / words[0]), *map(str, words[1:])]
        environment = {**os.environ, "CREMA_INSECURE": "1"}
        with log.open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, env=environment)

    def stop(self, program: subprocess.Popen) -> float:
        """Ask a program to end; return its CPU seconds."""
        program.terminate()
        _, _, usage = os.wait4(program.pid, 0)
        program.returncode = 0
        return usage.ru_utime + usage.ru_stime

    def drained_s(self, segments: list[pathlib.Path], began: float, log: pathlib.Path) -> float:
        """Wait until all segments have left the spool; return seconds since `began`."""
        while any(segment.exists() for segment in segments):
            if time.monotonic() - began > DRAIN_LIMIT_S:
                raise SystemExit(f"not delivered after {DRAIN_LIMIT_S} s; see {log}")
            time.sleep(0.005)
        return time.monotonic() - began

    def show_all(self, output: pathlib.Path, log: pathlib.Path) -> None:
        """Wait until the live file has all samples."""
        began = time.monotonic()
        while time.monotonic() - began < DRAIN_LIMIT_S:
            time.sleep(0.2)
            for path in output.glob("*.live.h5"):
                with (
                    contextlib.suppress(OSError),  # not yet open to readers
                    h5py.File(path, "r", libver="latest", swmr=True) as file,
                ):
                    if len(file["custom"]) == self.rows:
                        return
        raise SystemExit(f"not in the live file after {DRAIN_LIMIT_S} s; see {log}")

    def limit(self, work: pathlib.Path, way: str) -> dict[str, float]:
        """Return seconds of one process that only writes the same samples."""
        path = work / f"limit-{way}"
        words = self.run("chain_limit_main", way, path, self.rows, self.batch).split()
        path.unlink()
        return dict(zip(words[::2], map(float, words[1::2]), strict=True))

    def chain(self, work: pathlib.Path, live: bool) -> dict[str, float]:
        """Return wall seconds from agent's start to the last committed sample, CPU seconds of each program, bytes of the file."""
        spool, store, output = work / "spool", work / "store", work / "output"
        for place in (spool, store, output):
            place.mkdir(mode=0o700)
        run_id, log = uuid.uuid4().hex, work / "log"
        self.run("chain_writer_main", spool, run_id, self.rows, self.batch)
        segments = list(spool.glob("sp-*"))
        aggregator, sink = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        options = [] if live else ["--no-live"]
        programs = {
            "sink": self.start(
                log, "crema-sink", "--bind", sink, "--store", store, "--output", output, *options
            ),
            "aggregator": self.start(log, "crema-aggregator", "--bind", aggregator, "--sink", sink),
        }
        time.sleep(0.5)  # their start is no part of a sample
        began = time.monotonic()
        programs["agent"] = self.start(
            log, "crema-agent", "--spool", spool, "--aggregator", aggregator
        )
        result = {"wall_s": self.drained_s(segments, began, log)}
        if live:  # whose process starts with the first tick, which a short run does not last for
            self.show_all(output, log)
        for name in ("agent", "aggregator", "sink"):
            result[name] = self.stop(programs[name])
        result["cpu_s"] = sum(result[name] for name in programs)
        if not live:
            journal = next(path for path in store.iterdir() if path.is_dir())
            began = time.monotonic()
            self.run("crema-sink", "rebuild", journal, "--output", work / "run.h5")
            result["seal_s"] = time.monotonic() - began
            result["file_bytes"] = (work / "run.h5").stat().st_size
        return result

    def round(self) -> dict[str, float]:
        """Measure everything once."""
        found = {}
        with tempfile.TemporaryDirectory(prefix="crema-bench-") as top:
            for way in ("write", "compound", "columns"):
                found |= {f"{way}_{k}": v for k, v in self.limit(pathlib.Path(top), way).items()}
            for name, live in (("chain", False), ("live", True)):
                work = pathlib.Path(top, name)
                work.mkdir()
                found |= {f"{name}_{k}": v for k, v in self.chain(work, live).items()}
        return found


LIMIT_NS = {"chain_cpu": 120, "seal": 300}


def report(rounds: list[dict[str, float]], rows: int) -> dict:
    """Print medians of the rounds, ratios taken within each; return the figures of the page."""

    def middle(value) -> float:
        return statistics.median(value(found) for found in rounds)

    def ns(name: str) -> float:
        return middle(lambda found: found[name]) / rows * 1e9

    print(f"{rows} samples, median of {len(rounds)} rounds\n")
    print(f"{'':34}{'wall':>9}{'CPU':>9}   ns a sample")
    kept = []
    for label, name in (
        ("write(2) alone, 24 B", "write"),
        ("HDF5 compound table alone", "compound"),
        ("HDF5 columns alone", "columns"),
        ("spool to journal", "chain"),
        ("the same with live file", "live"),
    ):
        print(f"{label:34}{ns(name + '_wall_s'):9.1f}{ns(name + '_cpu_s'):9.1f}")
        limit = f"CPU {LIMIT_NS['chain_cpu']}" if name == "chain" else ""
        kept.append((label, ns(name + "_wall_s"), ns(name + "_cpu_s"), limit))
    for name in ("agent", "aggregator", "sink"):
        print(f"{'  of the chain: ' + name:43}{ns('chain_' + name):9.1f}")
        kept.append((f"of the chain: {name}", math.nan, ns("chain_" + name), ""))
    print(f"{'seal, into the final file':34}{ns('chain_seal_s'):9.1f}")
    kept.append(
        ("seal, into the final file", ns("chain_seal_s"), math.nan, f"wall {LIMIT_NS['seal']}")
    )
    print()
    for label, value in (
        ("chain's rate / HDF5 columns alone", lambda f: f["columns_wall_s"] / f["chain_wall_s"]),
        ("sink's CPU rate / write(2) alone", lambda f: f["write_cpu_s"] / f["chain_sink"]),
        ("live file's cost / journal's", lambda f: f["live_cpu_s"] / f["chain_cpu_s"]),
        ("bytes of the final file a sample", lambda f: f["chain_file_bytes"] / rows),
    ):
        print(f"{label:40}{middle(value):6.2f}")
    names = ("what", "wall_ns", "cpu_ns", "limit")
    return {"samples": rows, "rows": [dict(zip(names, row, strict=True)) for row in kept]}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    bench = Bench(options.bin, options.rows, options.batch)
    rounds = []
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", end="\r", file=sys.stderr, flush=True)
        rounds.append(bench.round())
    found = report(rounds, options.rows)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
