"""Analyses at a limit: of memory, of a control group, and some that only seem to be."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import threading
import time

import psutil
import pytest
from distributed import get_worker

import missing
from planted_runs import Case, Planted, marked_line

_kept = []
_cached = []
_cache = threading.Lock()


class KeepsACache(Planted):
    """A cache of large arrays, which forgets after 1.2 s: it is 0.86 of the worker's limit together with the rest."""

    def plant(self, events):
        limit_b = get_worker().memory_manager.memory_limit
        with _cache:
            if not _cached:
                _cached.append(b"x" * int(0.86 * limit_b - psutil.Process().memory_info().rss))
                threading.Timer(1.2, _cached.clear).start()
        time.sleep(0.1)


@contextlib.contextmanager
def seen_paused(cluster):
    """Planted is the time during which the scheduler has all workers down as paused; it is asked every 0.02 s."""
    seen = {"process_s": 0.0, "planted_s": 0.0}
    over = threading.Event()

    def look():
        last = time.monotonic()
        while not over.wait(0.02):
            now = time.monotonic()
            states = {worker.status.name for worker in cluster.scheduler.workers.values()}
            seen["process_s"] += now - last
            seen["planted_s"] += (now - last) * (states == {"paused"})
            last = now

    thread = threading.Thread(target=look)
    thread.start()
    yield seen
    over.set()
    thread.join()


CGROUPS = pathlib.Path("/sys/fs/cgroup/cpu")


class Computes(Planted):
    def plant(self, events):
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            hashlib.pbkdf2_hmac("sha256", b"crema", b"salt", 20_000)


@contextlib.contextmanager
def in_a_throttled_group(cluster):
    """The workers may use 0.2 of a core; planted is the time whose tenths of a second they were stopped in, as the kernel counts."""
    group = CGROUPS / f"planted-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"{missing.CPU_QUOTA}: {error}")
    seen = {}
    try:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("20000")
        for nanny in cluster.workers.values():
            (group / "cgroup.procs").write_text(str(nanny.pid))
        yield seen
        stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        seen["planted_s"] = int(stat["nr_throttled"]) * 0.1
        seen["process_s"] = int(stat["nr_periods"]) * 0.1
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (CGROUPS / "cgroup.procs").write_text(pid)
        group.rmdir()


class LeaksThree(Planted):
    def plant(self, events):
        _kept.append(bytearray(b"x") * (3 << 20))
        time.sleep(0.1)


class LeaksALittle(Planted):
    def plant(self, events):
        _kept.append(bytearray(b"x") * 200_000)
        time.sleep(0.1)  # planted: pause


class FillsACacheFirst(Planted):
    """Tables of 1 MB for the first thirty chunks of a process; the others find what they need."""

    def plant(self, events):
        if len(_kept) < 30:
            _kept.append(bytearray(b"x") * 1_000_000)
        time.sleep(0.1)  # planted: filled


def _line(mark: str) -> tuple:
    return (marked_line(__file__, mark),)


GROWTH = frozenset({"memory_growth"})

CASES = [
    Case("memory-full", KeepsACache, frozenset({"spill"}), (),
         "a cache holds memory above the limit at which Dask pauses a worker, again and again",
         files=16, share=0.3, memory_limit="900MB", beside=seen_paused, long=True),
    Case("quota", Computes, frozenset({"throttling", "cores"}), ("throttl|quota",),
         "two threads compute in a control group that may use 0.2 of a core",
         files=12, share=0.5, beside=in_a_throttled_group, long=True),
    Case("leak-3MB", LeaksThree, GROWTH, ("3.1|3.2",),
         "3 MiB stay referenced after each chunk, of a limit of 900 MB",
         threads=1, files=60, share=0, memory_limit="900MB", long=True),
    Case("leak-0.2MB", LeaksALittle, frozenset({"sleep"}), _line("pause"),
         "0.2 MB stay referenced after each chunk, of a limit of gigabytes: no cause",
         threads=1, files=60, innocent=GROWTH, long=True),
    Case("filled-cache", FillsACacheFirst, frozenset({"sleep"}), _line("filled"),
         "a cache takes 1 MB in each of the first thirty chunks of sixty, of a limit of gigabytes: no cause",
         threads=1, files=60, innocent=GROWTH, long=True),
]  # fmt: skip
