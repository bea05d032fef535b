"""Processors that wait for one thing each; the line that waits is marked."""

from __future__ import annotations

import functools
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from coffea import processor

import crema


class Waiting(processor.ProcessorABC):
    """Nothing is done with the output."""

    def postprocess(self, accumulator):
        return accumulator


class Pool(Waiting):
    """numpy in a pool of two threads."""

    def process(self, events):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(_multiply, range(4)))  # HERE
        return {"n": len(events)}


def _multiply(seed: int) -> float:
    values = np.random.default_rng(seed).random((300, 300))
    until = time.monotonic() + 0.25
    while time.monotonic() < until:
        values = np.tanh(values @ values)
    return float(values.sum())


class Asks(Waiting):
    """A service that answers after 0.2 s, in a section."""

    def __init__(self, address) -> None:
        self.address = address

    def process(self, events):
        with crema.track_time("inference"), socket.create_connection(self.address) as peer:
            for _ in range(3):
                peer.sendall(b"x")
                peer.recv(1)  # HERE
        return {"n": len(events)}


class Children(Waiting):
    """A child process does the work."""

    def process(self, events):
        code = "import time\nuntil = time.process_time() + 0.4\nwhile time.process_time() < until: pass"
        subprocess.run([sys.executable, "-c", code], check=True)  # HERE
        return {"n": len(events)}


class Python(Waiting):
    """Pure Python."""

    def process(self, events):
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            sum(range(500))  # HERE
        return {"n": len(events)}


class Locked(Waiting):
    """Threads that wait for each other."""

    def process(self, events):
        with _lock():  # HERE
            time.sleep(0.2)
        return {"n": len(events)}


@functools.cache
def _lock() -> threading.Lock:
    return threading.Lock()


class Reads(Waiting):
    """Reads a branch."""

    def process(self, events):
        return {"n": len(events), "sum": float(np.sum(events.x))}
