"""Cheap facts about this process and its host: memory, CPU, I/O, garbage collection."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import mmap
import operator
import os
import pathlib
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from . import _kernel
from ._unix import in_each_child, resource

_COUNTS_WAITS = pathlib.Path("/proc/self/schedstat").exists()
_LONG_COLLECTION_NS = 1_000_000  # finding its line costs about 1 % of this
_GIVE_AWAY_S = 1e-3  # long enough for the next thread to find a core


class _Statm:
    """Resident memory of this process read from an open descriptor."""

    def __init__(self) -> None:
        self._fd = -1
        in_each_child(self._forget)

    def _forget(self) -> None:
        """Drop the descriptor in a child: it shows the parent's memory."""
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

    The latter may date from before ``exec``, so only its growth is meaningful.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def disk_io_b(pid: int | str = "self") -> tuple[int, int]:
    """Bytes that a process read from and wrote to storage, cumulative, with those of children it waited for; -1 if the kernel does not report it."""
    read = write = -1
    try:
        with open(f"/proc/{pid}/io", "rb") as lines:
            for line in lines:
                if line.startswith(b"read_bytes:"):
                    read = int(line[11:])
                elif line.startswith(b"write_bytes:"):
                    write = int(line[12:])
    except (OSError, ValueError):
        pass
    return read, write


class ThreadWaits:
    """How long some threads of this process waited for a core."""

    def __init__(self) -> None:
        self._ns: dict[int, int] = {}  # by thread, at the last look
        self._ended_ns = 0  # of threads that are no longer tracked

    def seconds(self, threads: Iterable[int]) -> float:
        """Cumulative seconds of these native ids and of all earlier ones; NaN if the kernel does not report them."""
        if not _COUNTS_WAITS:
            return math.nan
        now = set(threads)
        for thread in self._ns.keys() - now:
            self._ended_ns += self._ns.pop(thread)
        for thread in now:
            try:
                _, waited_ns = _schedstat(f"self/task/{thread}")
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has just ended
            except (OSError, ValueError, IndexError):
                return math.nan
            if waited_ns < self._ns.get(thread, 0):  # another thread has its number now
                self._ended_ns += self._ns[thread]
            self._ns[thread] = waited_ns
        return (self._ended_ns + sum(self._ns.values())) * 1e-9


class ThreadClock:
    """CPU time and waiting for a core of single threads, as the kernel's scheduler counts them."""

    def __init__(self) -> None:
        self.wait_ns = _kernel.OwnWait().ns  # of the calling thread

    def of(self, native_id: int) -> tuple[int, int]:
        """CPU time and waiting of a thread of this process, in ns; -1 each if it has ended or the kernel does not report them."""
        try:
            return _schedstat(f"self/task/{native_id}")
        except (OSError, ValueError):
            return -1, -1


thread_clock = ThreadClock()


def gil_held() -> float:
    """Whether another thread holds the GIL: 1 or 0; NaN if that cannot be measured.

    This thread releases the GIL for a moment and requests it again. If no thread holds it, it
    returns at once; otherwise it sleeps until the other thread's turn is over. What the kernel
    counts as waiting for a core or as running is not such a sleep and is subtracted; running
    includes what a hypervisor took, where the kernel does not know of it. Where it does, that is in
    neither and counts as sleep: causes come from looks, which know better.
    """
    try:
        began_ns = time.perf_counter_ns()
        awake_ns = _awake_ns()
        time.sleep(_GIVE_AWAY_S)
        awake_ns = _awake_ns() - awake_ns
        slept_ns = time.perf_counter_ns() - began_ns - awake_ns
    except (OSError, ValueError, IndexError):
        return math.nan
    return float(slept_ns * 1e-9 > _GIVE_AWAY_S + sys.getswitchinterval() / 4)


def _awake_ns() -> int:
    """CPU time of this thread and its waiting for a core; the kernel's other count of CPU time is as old as the last tick."""
    return time.thread_time_ns() + _schedstat("thread-self")[1]


def _schedstat(thread: str) -> tuple[int, int]:
    """CPU time and waiting for a core of a thread by its path below /proc, in ns."""
    with open(f"/proc/{thread}/schedstat", "rb", buffering=0) as file:
        cpu_ns, wait_ns = file.read(64).split()[:2]
    return int(cpu_ns), int(wait_ns)


def net_io_b(proc: str = "/proc", sys: str = "/sys") -> tuple[int, int]:
    """Bytes received and sent by this host (its network namespace), cumulative; -1 if the kernel does not report them.

    A byte counts once: that of the hardware interfaces if there are any, else of those with a default route, else of all;
    loopback never counts. The agent counts in the same way (`agent_network`).
    """
    found: dict[str, tuple[int, int]] = {}
    try:
        with open(f"{proc}/net/dev") as lines:
            for line in lines:
                name, colon, rest = line.partition(":")
                fields = rest.split()
                if colon and name.strip() != "lo":
                    found[name.strip()] = int(fields[0]), int(fields[8])
    except (OSError, ValueError, IndexError):
        return -1, -1
    hardware = [n for n in found if pathlib.Path(sys, "class/net", n, "device").exists()]
    counted = hardware or _routed(found, f"{proc}/net/route") or list(found)
    if not counted:
        return -1, -1
    return sum(found[name][0] for name in counted), sum(found[name][1] for name in counted)


def _routed(names: Iterable[str], path: str) -> list[str]:
    """Those of the interfaces that have a default route."""
    try:
        with open(path) as lines:
            rows = [line.split() for line in lines]
    except OSError:
        return []
    routed = {row[0] for row in rows[1:] if len(row) > 7 and row[1] == row[7] == "00000000"}
    return [name for name in names if name in routed]


@functools.cache
def cpu_model() -> str:
    """Model of this host's CPU; empty if it is not known."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in ("model name", "Model", "cpu model"):
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def host_memory_b() -> int:
    """Memory of this host; -1 unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    except (OSError, ValueError):
        return -1


@functools.cache
def boot_id() -> str:
    """Identity of this boot of the kernel; empty if there is none."""
    try:
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def started_ns() -> int:
    """When this process began, in ns since 1970 UTC, to 10 ms; the present time if the kernel does not report it."""
    now_ns = time.time_ns()
    try:
        fields = pathlib.Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        up_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return now_ns - max(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - int(up_s * 1e9), 0)
    except (OSError, ValueError, IndexError, AttributeError):
        return now_ns


_current_frames = sys._current_frames


def _current_frames_uncollected() -> dict[int, FrameType]:
    """`sys._current_frames` of Python 3.11 in which no garbage is collected.

    It holds a lock of the interpreter. A collection in it would run the callbacks of `gc`, which may pass the GIL to a thread that then
    waits for that lock: all threads would stand still for ever (python/cpython#106883). The four calls in `map` run without a bytecode
    between them, so no other thread turns the collector on or off meanwhile.
    """
    done: list[Any] = []
    try:
        done.extend(map(operator.call, (gc.isenabled, gc.disable, _current_frames, gc.enable)))
    finally:
        if not done[0]:
            gc.disable()
        elif len(done) < 4:
            gc.enable()
    frames = done[2]
    frames[threading.get_ident()] = sys._getframe(1)  # with this frame they would be a cycle
    return frames


class _GarbageClock:
    """CPU time that each thread spent in Python's cyclic garbage collector.

    The collector holds the GIL, so a thread that waits for another thread's collection uses no CPU time.
    """

    def __init__(self) -> None:
        self._ns: dict[int, int] = {}
        self._since = 0
        self._users = 0
        self.on_long: list[Callable[[int, int, FrameType], None]] = []
        """Called after each long collection with its thread, its CPU time in ns, and the frame in which it began."""

    def start(self) -> None:
        """Start measuring; each `start` needs a `stop`."""
        self._users += 1
        if self._users == 1:
            # Later ones collect between bytecodes only. It stays: another thread may be about to call it.
            if sys.version_info < (3, 12) and sys._current_frames is _current_frames:
                sys._current_frames = _current_frames_uncollected
            gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        self._users -= 1
        if self._users == 0:
            with contextlib.suppress(ValueError):  # somebody else removed it
                gc.callbacks.remove(self._on_collection)
            self._ns.clear()

    def ns(self) -> int:
        """Time of the calling thread since its first request."""
        return self._ns.setdefault(threading.get_ident(), 0)

    def of(self, thread: int) -> int:
        """Time of a thread since its first request."""
        return self._ns.get(thread, 0)

    def _on_collection(self, phase: str, info: dict) -> None:
        # A process runs one collection at a time. Only threads that asked are kept, so that the
        # table stays small.
        if phase == "start":
            self._since = time.thread_time_ns()
            return
        thread, spent_ns = threading.get_ident(), time.thread_time_ns() - self._since
        if thread in self._ns:
            self._ns[thread] += spent_ns
            if spent_ns >= _LONG_COLLECTION_NS:
                # The thread may have no frame, or no room for another one.
                with contextlib.suppress(Exception):
                    for call in self.on_long:
                        call(thread, spent_ns, sys._getframe(1))


garbage = _GarbageClock()
