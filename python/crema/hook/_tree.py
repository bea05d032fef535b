"""What this process and its children use: CPU, memory, bytes of its disks.

As the agent counts it (`agent_source`): living descendants by the tree in /proc, ended ones where the
kernel adds them to the parent that waited for them.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pathlib
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from . import _process, _records, _writers
from ._config import HookConfig
from ._unix import resource

RSS = _records.WORKER_SAMPLES.label("memory", "rss")
PSS = _records.WORKER_SAMPLES.label("memory", "pss")

PSS_INTERVAL_S = 10.0  # to find it takes the kernel 11 ms per GiB
_PROCESSES_MAX = 1024  # that are followed
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Used(NamedTuple):
    """Of a process and its living descendants; cumulative but for the memory."""

    cpu_s: float
    rss_b: int  # as `memory` tells; -1 unknown
    disk_read_b: int
    disk_write_b: int
    processes: int
    memory: int  # RSS or PSS


class Tree:
    """The process and its children, as used so far.

    Parameters
    ----------
    apart : callable
        Process ids of the children that record themselves, and so are no part of this process.
    """

    def __init__(self, apart: Callable[[], Iterable[int]] = tuple) -> None:
        self._apart = apart
        self._pss_after = 0.0
        self._others_b: int | None = None  # PSS of the tree less its own RSS, when last measured
        self._cpu_s = 0.0  # highest so far

    def used(self) -> Used:
        """What is used now; proportional memory is that of the last `measure_memory`."""
        pids = self._descendants() if has_children() else []
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = time.process_time() + ended.ru_utime + ended.ru_stime
        own_rss_b = rss_b = _process.rss_b()
        disk = list(_process.disk_io_b())
        for pid in pids:
            with contextlib.suppress(OSError, ValueError, IndexError):
                cpu_s += _cpu_s(pid)
                rss_b += _rss_b(pid)
                disk = [_sum(*pair) for pair in zip(disk, _process.disk_io_b(pid), strict=True)]
        self._cpu_s = max(self._cpu_s, cpu_s)
        memory = RSS
        others_b = self._others_b  # which another thread may measure anew
        if pids and others_b is not None and own_rss_b >= 0:
            memory, rss_b = PSS, max(own_rss_b + others_b, 0)
        return Used(self._cpu_s, rss_b, disk[0], disk[1], len(pids) + 1, memory)

    def is_due(self) -> bool:
        """Whether the proportional memory should be measured: there are children, and the last time was long ago."""
        return time.monotonic() >= self._pss_after and has_children()

    def measure_memory(self) -> None:
        """Take the proportional memory of the whole tree, which takes milliseconds; called by any thread."""
        self._pss_after = time.monotonic() + PSS_INTERVAL_S
        try:
            pss_b = sum(_pss_b(pid) for pid in ["self", *self._descendants()])
            self._others_b = pss_b - _process.rss_b()
        except (OSError, ValueError, StopIteration):  # not shown, or one of them has just ended
            self._others_b = None

    def _descendants(self) -> list[int]:
        apart = set(self._apart())
        found: list[int] = []
        to_ask: list[int | str] = ["self"]
        while to_ask and len(found) < _PROCESSES_MAX:
            new = [p for p in _children(to_ask.pop()) if p not in apart and p not in found]
            new = [p for p in new if not _is_ours(p)]
            found += new
            to_ask += new
        return found


def recorded(config: HookConfig) -> set[int]:
    """Process ids of the writers outside Dask that record into the run's spool, each named ``host:pid``."""
    writers = _writers.registered(config.spool_dir(), config.run_id)
    pids = (writer.name.rpartition(":")[2] for writer in writers)
    return {int(pid) for pid in pids if pid.isdigit()}


def has_children() -> bool:
    """Whether this process has children that it has not waited for: one system call."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):  # macOS before Python 3.13 has no waitid
        return False
    return True


def _children(pid: int | str) -> list[int]:
    """Living and dead ones, of all threads; none if the kernel does not show them."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError, ValueError):
                found += map(int, (thread / "children").read_bytes().split())
    return found


def _is_ours(pid: int) -> bool:
    """Whether it is a program of crema, or has ended."""
    try:
        head, _, tail = _read(f"/proc/{pid}/stat").rpartition(b")")
    except OSError:
        return True
    return b"(crema-" in head or tail[1:2] in (b"Z", b"X")


def _cpu_s(pid: int) -> float:
    """CPU time, with that of children it waited for."""
    return sum(map(int, _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[11:15])) / _TICKS


def _rss_b(pid: int) -> int:
    return int(_read(f"/proc/{pid}/statm").split(None, 2)[1]) * mmap.PAGESIZE


def _pss_b(pid: int | str) -> int:
    lines = _read(f"/proc/{pid}/smaps_rollup").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(b"Pss:")) * 1024


def _sum(a: int, b: int) -> int:
    return a + b if a >= 0 and b >= 0 else max(a, b)


def _read(path: str) -> bytes:
    return pathlib.Path(path).read_bytes()
