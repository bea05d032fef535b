"""Analyses that compute: with the GIL, without it, in helper threads, in children, on one line."""

from __future__ import annotations

import concurrent.futures
import hashlib
import subprocess
import sys
import time

import numpy as np

from planted_runs import Case, Planted, marked_line

_DATA = bytes(32 << 20)


def _multiply_native(_=None) -> None:
    end = time.monotonic() + 0.8
    while time.monotonic() < end:
        np.sort(np.random.default_rng(1).random(2_000_000))


class HandsToAPool(Planted):
    def plant(self, events):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(_multiply_native, range(2)))  # planted: pool


class CountsInPython(Planted):
    def plant(self, events):
        total = 0
        for i in range(3_000_000):
            total += i * i


class Hashes(Planted):
    def plant(self, events):
        for _ in range(12):
            hashlib.sha256(_DATA).digest()  # planted: hash


class OneSlowLine(Planted):
    def plant(self, events):
        sum(range(1000))
        sorted(range(6_000_000), key=lambda i: -i)  # planted: slow
        sum(range(1000))


class StartsAProgram(Planted):
    def plant(self, events):
        code = "import time\nwhile time.process_time() < 0.8: pass"
        subprocess.run([sys.executable, "-c", code], check=True)  # planted: program


class StartsThreePrograms(Planted):
    def plant(self, events):
        code = "import time\nwhile time.process_time() < 0.4: pass"
        programs = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
        for program in programs:
            program.wait()  # planted: three


def _line(mark: str) -> tuple:
    return (marked_line(__file__, mark),)


# One thread that only computes had 39 to 43 % of a core by its own clock on a busy machine of two
# cores: there the lack of a core is as true as the computing.
COMPUTING = frozenset({"compute", "cores"})

CASES = [
    Case("pool", HandsToAPool, frozenset({"native", "compute"}), _line("pool"),
         "two helper threads sort while the task waits for them", threads=1),
    Case("gil", CountsInPython, frozenset({"gil"}), (),
         "four threads of one process run bytecode: one at a time", threads=4),
    Case("gil-in-process", CountsInPython, frozenset({"gil"}), (),
         "four workers of one thread share one process, and its GIL",
         workers=4, threads=1, processes=False),
    Case("hash", Hashes, COMPUTING, _line("hash"),
         "SHA-256 of 384 MB per chunk, without the GIL", threads=1),
    Case("slow-line", OneSlowLine, COMPUTING, _line("slow"),
         "one line sorts six million numbers, the others are short", threads=1),
    Case("program", StartsAProgram, frozenset({"children"}), _line("program"),
         "a program burns 0.8 s of CPU for each chunk", threads=1),
    Case("three-programs", StartsThreePrograms, frozenset({"children"}), _line("three"),
         "three programs burn 0.4 s of CPU each for each chunk", threads=1),
]  # fmt: skip
