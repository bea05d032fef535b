"""What this process and its host can tell about themselves, cheaply: memory, CPU, I/O, garbage collection."""

from __future__ import annotations

import gc
import math
import mmap
import os
import pathlib
import sys
import threading
import time
from collections.abc import Iterable

from ._unix import in_each_child, resource

_COUNTS_WAITS = pathlib.Path("/proc/self/schedstat").exists()
_GIVE_AWAY_S = 1e-3  # long enough for the next thread to find a core


class _Statm:
    """Resident memory of this process from a descriptor that stays open."""

    def __init__(self) -> None:
        self._fd = -1
        in_each_child(self._forget)

    def _forget(self) -> None:
        """It shows the parent's memory."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def rss_b(self) -> int:
        try:
            if self._fd < 0:
                self._fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
            return int(os.pread(self._fd, 128, 0).split(None, 2)[1]) * mmap.PAGESIZE
        except (OSError, ValueError, IndexError):
            return -1


rss_b = _Statm().rss_b


def usage() -> tuple[float, int]:
    """CPU seconds of all threads, and the highest resident memory so far.

    The latter may be inherited from before ``exec``, so only its growth means something.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def disk_io_b() -> tuple[int, int]:
    """Bytes that this process read from and wrote to storage, cumulative; -1 where the kernel does not say."""
    read = write = -1
    try:
        with open("/proc/self/io", "rb") as lines:
            for line in lines:
                if line.startswith(b"read_bytes:"):
                    read = int(line[11:])
                elif line.startswith(b"write_bytes:"):
                    write = int(line[12:])
    except (OSError, ValueError):
        pass
    return read, write


class ThreadWaits:
    """How long some threads of this process were ready to run and had no core."""

    def __init__(self) -> None:
        self._ns: dict[int, int] = {}  # of each thread, as last seen
        self._ended_ns = 0  # of threads that are not asked for any more

    def seconds(self, threads: Iterable[int]) -> float:
        """Cumulative, of these native ids and of all that were asked for before; NaN where the kernel does not say."""
        if not _COUNTS_WAITS:
            return math.nan
        now = set(threads)
        for thread in self._ns.keys() - now:
            self._ended_ns += self._ns.pop(thread)
        for thread in now:
            try:
                waited_ns = _wait_ns(f"/proc/self/task/{thread}/schedstat")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            except (OSError, ValueError, IndexError):
                return math.nan
            if waited_ns < self._ns.get(thread, 0):  # another thread has its number now
                self._ended_ns += self._ns[thread]
            self._ns[thread] = waited_ns
        return (self._ended_ns + sum(self._ns.values())) * 1e-9


def gil_held() -> float:
    """Whether another thread holds the GIL: 1 or 0; NaN where the kernel does not say.

    This thread gives the GIL away for a moment and wants it back. Where nobody holds it, it returns at once; else it sleeps until the
    other's turn is over. Waiting for a core is no such sleep, and is taken off by the kernel's own count.
    """
    try:
        began_ns = time.perf_counter_ns()
        no_core_ns = _wait_ns()
        time.sleep(_GIVE_AWAY_S)
        no_core_ns = _wait_ns() - no_core_ns
        slept_ns = time.perf_counter_ns() - began_ns - no_core_ns
    except (OSError, ValueError, IndexError):
        return math.nan
    return float(slept_ns * 1e-9 > _GIVE_AWAY_S + sys.getswitchinterval() / 4)


def _wait_ns(path: str = "/proc/thread-self/schedstat") -> int:
    with open(path, "rb", buffering=0) as file:
        return int(file.read(64).split()[1])


def net_io_b() -> tuple[int, int]:
    """Bytes received and sent by this host (its network namespace), cumulative, loopback aside."""
    received = sent = 0
    try:
        with open("/proc/net/dev", "rb") as lines:
            for line in lines:
                name, colon, rest = line.partition(b":")
                if not colon or name.strip() == b"lo":
                    continue
                fields = rest.split()
                received += int(fields[0])
                sent += int(fields[8])
    except (OSError, ValueError, IndexError):
        return -1, -1
    return received, sent


def boot_id() -> str:
    """Identity of this boot of the kernel; empty where there is none."""
    try:
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class _GarbageClock:
    """CPU time that each thread spent in Python's cyclic garbage collector.

    It holds the GIL, so a thread that another one's collection keeps waiting uses none.
    """

    def __init__(self) -> None:
        self._ns: dict[int, int] = {}
        self._since = 0
        self._users = 0

    def start(self) -> None:
        """Begin to measure; counted, so that every `start` needs a `stop`."""
        self._users += 1
        if self._users == 1:
            gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        self._users -= 1
        if self._users == 0:
            gc.callbacks.remove(self._on_collection)
            self._ns.clear()

    def ns(self) -> int:
        """Of the calling thread, since it was first asked for."""
        return self._ns.setdefault(threading.get_ident(), 0)

    def _on_collection(self, phase: str, info: dict) -> None:
        # One collection at a time in a process. Only threads that asked are kept, so that the table stays small.
        if phase == "start":
            self._since = time.thread_time_ns()
            return
        thread = threading.get_ident()
        if thread in self._ns:
            self._ns[thread] += time.thread_time_ns() - self._since


garbage = _GarbageClock()
