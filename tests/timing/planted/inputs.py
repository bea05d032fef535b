"""Analyses whose input is the trouble: one of two servers, opening, decompression, a file that is fed slowly."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pathlib
import threading
import time

import awkward as ak
import numpy as np
import uproot
from coffea import processor

from planted_runs import JET, Case, Planted, marked_line, on_disk, write
from throttled import throttled

SLOW, FAST = "127.0.0.2", "127.0.0.3"


class ReadsEachBranch(Planted):
    """Its columns are four requests; only those to the slow server are planted."""

    def process(self, events):
        began = time.monotonic()
        for name in JET:
            ak.sum(events.Jet[name])
        seconds = time.monotonic() - began
        slow = f"//{SLOW}:" in events.metadata["filename"]
        return {"process_s": seconds, "planted_s": seconds if slow else 0.0}


@contextlib.contextmanager
def half_from_a_slow_server(case, directory):
    names = [pathlib.Path(write(directory / f"f{n}.root", n)).name for n in range(case.files)]
    with (
        throttled(directory, 0.25, host=SLOW) as slow,
        throttled(directory, 0.005, host=FAST) as fast,
    ):
        yield {"dy": [f"{(slow, fast)[n % 2]}/{name}" for n, name in enumerate(names)]}


class LooksAtAColumn(Planted):
    def plant(self, events):
        ak.sum(events.Jet.pt)
        return 0.0


@contextlib.contextmanager
def opened_slowly(case, directory):
    """coffea has preprocessed the files before, as in a session's second run: each is opened once."""
    with on_disk(case, directory), throttled(directory, 0.4, host=SLOW, opening_only=True) as url:
        fileset = {"dy": [f"{url}/f{n}.root" for n in range(case.files)]}
        pool = concurrent.futures.ThreadPoolExecutor(32)
        executor = processor.FuturesExecutor(pool=pool, status=False)
        list(processor.Runner(executor=executor).preprocess(fileset, treename="Events"))
        pool.shutdown()
        yield fileset


class UnpacksInThreads(Planted):
    def plant(self, events):
        path, pool = events.metadata["filename"], uproot.ThreadPoolExecutor(2)
        with uproot.open(path, decompression_executor=pool, array_cache=None) as file:
            tree = file["Shapes"]
            for _ in range(8):
                tree["weight"].array(library="np")  # planted: lzma


@contextlib.contextmanager
def strongly_compressed(case, directory):
    """Eight baskets of LZMA; all files have the same."""
    first = directory / "f0.root"
    write(first, 0)
    weights = np.random.default_rng(0).integers(0, 5000, (8, 150_000)).astype(np.int32)
    with uproot.update(first) as file:
        tree = file.mktree("Shapes", {"weight": "int32"})
        tree.compression = uproot.LZMA(3)
        for basket in weights:
            tree.extend({"weight": basket})
    others = [directory / f"f{n}.root" for n in range(1, case.files)]
    for other in others:
        os.link(first, other)
    yield {"dy": [str(path) for path in (first, *others)]}


class ReadsConditions(Planted):
    def plant(self, events):
        path = events.metadata["filename"].replace(".root", ".conditions")
        with open(path, "rb") as conditions:
            conditions.read()  # planted: fifo


@contextlib.contextmanager
def with_conditions(case, directory):
    """Beside each file a FIFO, into which 64 KiB come each 0.05 s, sixteen times."""

    def feed(path):
        with open(path, "wb", buffering=0) as fifo:
            for _ in range(16):
                time.sleep(0.05)
                fifo.write(bytes(65536))

    with on_disk(case, directory) as fileset:
        for path in fileset["dy"]:
            fifo = path.replace(".root", ".conditions")
            os.mkfifo(fifo)
            threading.Thread(target=feed, args=(fifo,), daemon=True).start()
        yield fileset


def _line(mark: str) -> tuple:
    return (marked_line(__file__, mark),)


CASES = [
    Case("half-slow", ReadsEachBranch, frozenset({"slow_servers"}), (SLOW,),
         "a server that takes 0.25 s for a request has half of the files, one of 0.005 s the others",
         files=16, fileset=half_from_a_slow_server),
    Case("opening", LooksAtAColumn, frozenset({"opening"}), (SLOW,),
         "a server takes 0.4 s for each request that opens a file, and none for others",
         files=32, share=0, fileset=opened_slowly, long=True),
    Case("lzma", UnpacksInThreads, frozenset({"native"}), _line("lzma"),
         "uproot's two threads unpack LZMA while the task waits for them",
         threads=1, files=16, fileset=strongly_compressed, long=True),
    Case("fifo", ReadsConditions, frozenset({"file"}), _line("fifo"),
         "a FIFO, read with read(), is fed for 0.8 s in each chunk", files=16, fileset=with_conditions, long=True),
]  # fmt: skip
