"""Analyses that measure themselves. A module of its own, so that workers import it by name."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import awkward as ak
import numpy as np
from coffea import processor
from distributed.metrics import context_meter

import crema
from children import Fork


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Blocks(crema.Tracker):
    """Your own tracker: memory blocks of the interpreter."""

    def enter(self):
        self.before = sys.getallocatedblocks()

    def exit(self):
        self.record_metric("blocks", sys.getallocatedblocks() - self.before, "count")


OUTPUTS = {
    "dict": lambda: {"n": 1},
    "tuple": lambda: (1, 2),
    "accumulatable": lambda: 1,
    "set": lambda: {1},
}


class Sections(processor.ProcessorABC):
    """Nested and repeated sections of each kind, metrics of each kind; the output is one of `OUTPUTS`."""

    def __init__(self, output: str = "dict", fails: bool = False) -> None:
        self.output, self.fails = output, fails

    def process(self, events):
        with crema.track_section("all"):
            for _ in range(3):
                with crema.track_time("repeated"):
                    spin(0.002)
            with crema.track_memory("allocates"):
                self.block = np.ones(32 << 20, dtype="u1")
            with crema.track_bytes("reads"):
                ak.sum(events.Muon.pt)
            self.decorated(3)
            with Blocks("mine"):
                self.blocks = [object() for _ in range(2000)]  # others may free some meanwhile
            time.sleep(0.005)
            crema.record_metric("muons", ak.sum(ak.num(events.Muon)), "count", "increment")
            crema.record_metric("temperature", 21.5, "°C")
            crema.record_metric("seen", len(events), kind="total")
            if self.fails:
                raise ValueError("as it was asked to")
        del self.block, self.blocks
        return OUTPUTS[self.output]()

    @crema.track_time("decorated")
    def decorated(self, n: int) -> int:
        """Recursive: each call is a section within the last one."""
        return 0 if n == 1 else 1 + self.decorated(n - 1)

    def postprocess(self, accumulator):
        return accumulator


class Decorated(Sections):
    """For those who cannot give the Runner a checkpointer."""

    @crema.track_metrics
    def process(self, events):
        return super().process(events)


@crema.track_metrics
def decorated_function(events):
    """A processor need not be a class."""
    return {"n": len(events), "pt": float(ak.sum(events.Muon.pt))}


class Fails(processor.ProcessorABC):
    """Fails at each first attempt at a chunk, after some work; `marks` remembers where it was."""

    def __init__(self, marks) -> None:
        self.marks = str(marks)

    @crema.track_metrics
    def process(self, events):
        spin(0.01)
        mark = f"{self.marks}/{events.metadata['entrystart']}"
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return {"n": len(events)}
        raise ValueError("the first time")

    def postprocess(self, accumulator):
        return accumulator


PROGRAM = """
import time, crema
with crema.track_time("of a program"):
    until = time.thread_time() + 0.01
    while time.thread_time() < until:
        pass
    crema.record_metric("metric of a program", 1)
"""


class Threads(processor.ProcessorABC):
    """Sections of two threads of one chunk, of a program that it starts, and of a child process: a fork without further ado, or one
    of multiprocessing's."""

    def __init__(self, bare_fork: bool) -> None:
        self.bare_fork = bare_fork

    def process(self, events):
        with crema.track_time("main"):
            thread = threading.Thread(target=in_section, args=("beside",))
            thread.start()
            spin(0.01)
            thread.join()
            subprocess.run([sys.executable, "-c", PROGRAM], check=True)
            if self.bare_fork:
                assert Fork(lambda: in_section("of a fork")).wait() == 0
            else:
                fork = multiprocessing.get_context("fork")
                child = fork.Process(target=in_section, args=("of a fork",))
                child.start()
                child.join()
                assert child.exitcode == 0
        return {"n": len(events)}

    def postprocess(self, accumulator):
        return accumulator


def in_section(name: str) -> None:
    with crema.track_time(name):
        spin(0.01)
        crema.record_metric(f"metric {name}", 1)


class Metered(processor.ProcessorABC):
    """Dask's own meters, with labels and units of every kind."""

    def process(self, events):
        with context_meter.meter("I/O"):
            time.sleep(0.02)
        with context_meter.meter(("a tuple", 1)):
            spin(0.01)
        context_meter.digest_metric("S3 Infrequent Access", 1000, "bytes")
        context_meter.digest_metric(None, 3, "widgets")
        context_meter.digest_metric("disk-read", 7, "count")
        context_meter.digest_metric("charge", -1.5, "e")
        context_meter.digest_metric("speed", 2, "furlongs per fortnight")
        return {"n": len(events)}

    def postprocess(self, accumulator):
        return accumulator
