"""What agent, aggregator and sink cost while little or nothing happens, beside what hosts run anyway.

    python tests/bench/idle.py [--bin DIR] [--seconds 60]

*Idle*: one agent, no writer. *1 Hz x 64*: one writer that appends 64 samples each second. CPU is what the kernel's scheduler charged each
process, in nanoseconds, between two looks. Wakes are its switches to another process of its own accord. collectd with its default plug-ins and Prometheus'
node exporter, scraped once in 15 s, are measured in the same time, where Debian's packages of them are installed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator

from chain import ROOT, Bench, free_port

SAMPLES = 64
SETTLE_S = 5
LIMITS = {"idle": 0.02, "1 Hz x 64": 0.05}  # per cent of a core
SCRAPE_S = 15


def spent(pid: int) -> tuple[int, int]:
    """ns of CPU and voluntary switches of all threads of a process."""
    ns = wakes = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        ns += int((task / "schedstat").read_text().split()[0])
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                wakes += int(line.split()[1])
    return ns, wakes


def collectd(work: pathlib.Path) -> subprocess.Popen | None:
    program = shutil.which("collectd") or shutil.which("collectd", path="/usr/sbin")
    if not program:
        return None
    config = work / "collectd.conf"
    plugins = ("cpu", "load", "memory", "interface", "df", "disk", "processes", "csv")
    config.write_text(
        f'BaseDir "{work}"\nPIDFile "{work}/collectd.pid"\nInterval 1\n'
        + "".join(f"LoadPlugin {name}\n" for name in plugins)
        + f'<Plugin csv>\nDataDir "{work}/csv"\n</Plugin>\n'
    )
    return subprocess.Popen([program, "-f", "-C", config], stderr=subprocess.DEVNULL)


def node_exporter(port: int) -> subprocess.Popen | None:
    program = shutil.which("prometheus-node-exporter")
    words = [program, f"--web.listen-address=127.0.0.1:{port}"]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL) if program else None


class Idle(Bench):
    """The three programs, with or without a writer, and what is held against them."""

    @contextlib.contextmanager
    def running(self, work: pathlib.Path) -> Iterator[dict[str, subprocess.Popen]]:
        spool, store, output = work / "spool", work / "store", work / "output"
        for place in (spool, store, output):
            place.mkdir(mode=0o700)
        log = work / "log"
        aggregator, sink = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        programs = {
            "sink": self.start(
                log, "crema-sink", "--bind", sink, "--store", store, "--output", output
            ),
            "aggregator": self.start(log, "crema-aggregator", "--bind", aggregator, "--sink", sink),
            "agent": self.start(log, "crema-agent", "--spool", spool, "--aggregator", aggregator),
        }
        try:
            yield programs
        finally:
            for program in programs.values():
                program.terminate()
                program.wait()

    def measure(self, work: pathlib.Path, what: str, seconds: float) -> dict[str, dict[str, float]]:
        """Per cent of a core and wakes a second, by program."""
        work.mkdir()
        port = free_port()
        with self.running(work) as programs, contextlib.ExitStack() as stack:
            others = {"collectd": collectd(work), "node_exporter": node_exporter(port)}
            for name, process in others.items():
                if process:
                    programs[name] = process
                    stack.callback(process.kill)
            if what != "idle":
                rows = int((seconds + 2 * SETTLE_S) * SAMPLES)
                words = [
                    self.programs / "chain_writer_main",
                    work / "spool",
                    uuid.uuid4().hex,
                    rows,
                    SAMPLES,
                    1000,
                ]
                stack.callback(subprocess.Popen(list(map(str, words))).kill)
            time.sleep(SETTLE_S)
            before = {name: spent(program.pid) for name, program in programs.items()}
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                time.sleep(min(SCRAPE_S, seconds))
                if others["node_exporter"]:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
            took = time.monotonic() - began
            after = {name: spent(program.pid) for name, program in programs.items()}
        return {
            name: {
                "cpu_percent": (after[name][0] - before[name][0]) / took / 1e7,
                "wakes_per_s": (after[name][1] - before[name][1]) / took,
            }
            for name in after
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    bench = Idle(options.bin, 0, 0)
    found = {}
    with tempfile.TemporaryDirectory(prefix="crema-idle-") as top:
        for what in LIMITS:
            found[what] = bench.measure(
                pathlib.Path(top, what.replace(" ", "-")), what, options.seconds
            )
    names = list(found["idle"])
    print(f"{'% of a core (wakes per s)':26}" + "".join(f"{name:>20}" for name in names))
    for what, row in found.items():
        cells = [f"{row[n]['cpu_percent']:.3f} ({row[n]['wakes_per_s']:.0f})" for n in names]
        print(f"{what:26}" + "".join(f"{cell:>20}" for cell in cells) + f"   limit {LIMITS[what]}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
