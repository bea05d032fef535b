"""Processors of the end-to-end tests. A module of its own, so that workers import it by name."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import socket
import threading
import time
import typing

import awkward as ak
import psutil
from coffea import processor
from distributed import get_worker

from crema import _demo_processor


def burn(seconds: float) -> None:
    """Uses the CPU."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class JetCounter(processor.ProcessorABC):
    """Counts jets above 30 GeV: little work on real columns."""

    def process(self, events):
        jets = events.Jet[events.Jet.pt > 30] if "Jet" in events.fields else events.Muon
        return {"events": len(events), "jets": int(ak.sum(ak.num(jets)))}

    def postprocess(self, accumulator):
        return accumulator


class _HiddenCounter(JetCounter):
    """A leading underscore: Dask strips it from the task's prefix."""


def count_muons(events):
    """A plain function is a processor too."""
    return {"events": len(events), "muons": int(ak.sum(ak.num(events.Muon)))}


def total_met(events):
    """For dask-awkward: a graph in place of a number."""
    return ak.sum(events.MET_pt)


class DijetProcessor(_demo_processor.DijetProcessor):
    """The demonstration's without variations: half a second less for each chunk."""

    variations: typing.ClassVar = {"nominal": (1.0, 0.0)}


class SlowCounter(JetCounter):
    """Burns `busy_s` of CPU in each chunk, so that a run lasts long enough to be hurt."""

    def __init__(self, busy_s: float):
        self.busy_s = busy_s

    def process(self, events):
        out = super().process(events)
        burn(self.busy_s)
        return out


class Burns(processor.ProcessorABC):
    """Burns 0.4 s of CPU in each chunk, whatever the input has."""

    def process(self, events):
        burn(0.4)
        return {"events": len(events)}

    def postprocess(self, accumulator):
        return accumulator


class KillsItsWorkerOnce(SlowCounter):
    """Kills its own worker process at one chunk, the first time it is processed."""

    def __init__(self, busy_s: float, marker: str, entry_start: int):
        super().__init__(busy_s)
        self.marker = marker
        self.entry_start = entry_start

    def process(self, events):
        if events.metadata["entrystart"] == self.entry_start:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                time.sleep(1.5)  # a sample of the hook is taken while the chunk runs
                os.kill(os.getpid(), 9)
        return super().process(events)


class Troubled(SlowCounter):
    """Fails the first time at some entries of each file, and kills its worker once at another."""

    def __init__(self, busy_s: float, marks: str, kill_at: int, fail_at: list[int]):
        super().__init__(busy_s)
        self.marks = marks
        self.kill_at = kill_at
        self.fail_at = fail_at

    def process(self, events):
        meta = events.metadata
        start = meta["entrystart"]
        if start in self.fail_at and self._first(f"failed-{meta['fileuuid']}-{start}"):
            super().process(events)
            raise ValueError("the first time")
        if start == self.kill_at and self._first("killed"):
            time.sleep(1.5)  # a sample of the hook is taken while the chunk runs
            os.kill(os.getpid(), 9)
        return super().process(events)

    def _first(self, mark: str) -> bool:
        try:
            os.close(os.open(f"{self.marks}/{mark}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Diary(SlowCounter):
    """Keeps a diary of its own: a file for each attempt, begun and ended by this process's clock."""

    def __init__(self, busy_s: float, directory: str):
        super().__init__(busy_s)
        self.directory = directory

    def process(self, events):
        meta, began = events.metadata, time.time()
        path = f"{self.directory}/{os.getpid()}-{meta['entrystart']}-{meta['entrystop']}-{began}"
        with open(path, "x") as entry:
            out = super().process(events)
            entry.write(str(time.time()))
        return out


class Broken(JetCounter):
    """Always raises."""

    def process(self, events):
        raise ValueError("no such jet collection")


class FailsInAFile(JetCounter):
    """Raises behind the first chunk of the files whose names end so; otherwise it counts."""

    message = "no jet above <b>20 GeV</b>, see https://host/x?token=S3CRET-exception"

    def __init__(self, *ends: str) -> None:
        self.ends = ends

    def process(self, events):
        if events.metadata["filename"].endswith(self.ends) and events.metadata["entrystart"] > 0:
            raise ValueError(self.message)
        return {"events": len(events)}


class Measured(processor.ProcessorABC):
    """Does one thing for `wall_s` in each chunk, and for `long_s` in the one at entry 0; the columns do not matter."""

    def __init__(self, wall_s: float, long_s: float | None = None):
        self.wall_s = wall_s
        self.long_s = wall_s if long_s is None else long_s

    def process(self, events):
        self.work(
            time.monotonic() + (self.wall_s if events.metadata["entrystart"] else self.long_s)
        )
        return {"events": len(events)}

    def work(self, until):
        raise NotImplementedError

    def postprocess(self, accumulator):
        return accumulator


class Computes(Measured):
    """Native code that leaves the GIL to others."""

    def work(self, until):
        while time.monotonic() < until:
            hashlib.pbkdf2_hmac("sha256", b"crema", b"salt", 20_000)


class HoldsTheGil(Measured):
    """Pure Python."""

    def work(self, until):
        n = 0
        while time.monotonic() < until:
            n += sum(i * i for i in range(1000))


class ReadsSlowly(Measured):
    """Reads from a server that takes its time."""

    def __init__(self, wall_s: float, address: tuple[str, int]):
        super().__init__(wall_s)
        self.address = address

    def work(self, until):
        with socket.create_connection(self.address) as server:
            while time.monotonic() < until:
                server.sendall(b"more")
                server.recv(1 << 16)


class DoesNothing(Measured):
    """All that is left is what coffea and Dask do for a chunk."""

    def work(self, until):
        pass


class SlowAtFile(Computes):
    """Waits longer in the chunks of one file."""

    def __init__(self, wall_s: float, extra_s: float, part: str):
        super().__init__(wall_s)
        self.extra_s = extra_s
        self.part = part  # of its name

    def process(self, events):
        out = super().process(events)
        if self.part in events.metadata["filename"]:
            time.sleep(self.extra_s)
        return out


class SlowInOneProcess(Computes):
    """Waits longer in every chunk of the process `pid`."""

    def __init__(self, wall_s: float, extra_s: float, pid: int):
        super().__init__(wall_s)
        self.extra_s = extra_s
        self.pid = pid

    def process(self, events):
        out = super().process(events)
        if os.getpid() == self.pid:
            time.sleep(self.extra_s)
        return out


class SlowSum:
    """A number that takes its time to be added, as large histograms do."""

    def __init__(self, value: int, add_s: float):
        self.value = value
        self.add_s = add_s

    def __add__(self, other: SlowSum) -> SlowSum:
        time.sleep(self.add_s)
        return SlowSum(self.value + other.value, self.add_s)


class MergesSlowly(Computes):
    """Its outputs are expensive to merge."""

    def __init__(self, wall_s: float, add_s: float):
        super().__init__(wall_s)
        self.add_s = add_s

    def process(self, events):
        return super().process(events) | {"sum": SlowSum(1, self.add_s)}


class MakesGarbage(Measured):
    """Collects garbage, over and over, among many objects."""

    objects: typing.ClassVar[list] = []

    def work(self, until):
        if not self.objects:
            self.objects.extend([i] for i in range(300_000))
        while time.monotonic() < until:
            gc.collect()


class FillsItsMemory(Computes):
    """Holds almost all the memory of its worker for some seconds, once in each process: Dask pauses the worker."""

    held: typing.ClassVar[list] = []

    def __init__(self, wall_s: float, hold_s: float):
        super().__init__(wall_s)
        self.hold_s = hold_s

    def process(self, events):
        if not self.held:
            limit_b = get_worker().memory_manager.memory_limit
            self.held.append(b"x" * (int(0.88 * limit_b) - psutil.Process().memory_info().rss))
            threading.Timer(self.hold_s, lambda: self.held.__setitem__(0, None)).start()
        return super().process(events)


class DiesOnce(Computes):
    """Its worker is killed in the middle of one chunk, the first time."""

    def __init__(self, wall_s: float, marker: str, entry_start: int, after_s: float):
        super().__init__(wall_s)
        self.marker = marker
        self.entry_start = entry_start
        self.after_s = after_s

    def process(self, events):
        if events.metadata["entrystart"] == self.entry_start:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
                time.sleep(self.after_s)
                os.kill(os.getpid(), 9)
        return super().process(events)


class Waits(Measured):
    """Neither computes nor reads."""

    def work(self, until):
        time.sleep(until - time.monotonic())
