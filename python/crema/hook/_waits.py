"""What a blocked thread waits for, from its system call, its descriptor and its frames; and, if it waits for other threads of its process, what these do."""

from __future__ import annotations

import functools
import math
import os
import pathlib
import re
import threading
import time
import urllib.parse
from collections.abc import Mapping
from types import FrameType
from typing import Any

from . import _kernel, _stacks
from ._records import LOOKS
from ._unix import in_each_child, resource

STATES = LOOKS.labels["state"]
(UNKNOWN, GIL, INPUT, SERVICE, FILE, LOCK, SLEEP, NATIVE, CHILD, PAGE_FAULT) = (
    STATES.index(name)
    for name in (
        "unknown", "gil", "input", "service", "file", "lock", "sleep", "native", "child", "page_fault",
    )
)  # fmt: skip
BLOCKED = (GIL, INPUT, SERVICE, FILE, LOCK, SLEEP, NATIVE, CHILD, PAGE_FAULT, UNKNOWN)

_COMPUTES = (
    0.25  # of the time between two looks: so much CPU of other threads is work for those that wait
)
_HELPERS_MAX = 16
_PLACES_MAX = 1 << 10
_CHILDREN_S = 0.5  # between two looks at which children there are
_GIL_TRIES = 8
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
# What helpers do, by how much it says about those that wait for them.
_SAYS_MOST = (NATIVE, GIL, INPUT, SERVICE, FILE, CHILD, PAGE_FAULT, SLEEP)

# Of fsspec, such as simplecache::https://host/file.
_LAST_OF_CHAIN = re.compile(r"(?:.*::)?([\w+.-]+://.*|/.*)$", re.DOTALL)

_gil = 0  # address of a futex of the GIL; 0: not found yet

Found = tuple[float, int, str]  # probability that it runs; state and place if it does not
_RUNS: Found = (1.0, UNKNOWN, "")


class Seen:
    """One thread at one look."""

    __slots__ = (
        "call", "cpu_ns", "kernel", "looks", "path", "place", "prefix", "running", "server", "stack", "state",
        "thread", "wait_ns", "watch",
    )  # fmt: skip

    def __init__(
        self,
        looks: Any,
        watch: Any,
        thread: int,
        kernel: _kernel.Thread,
        prefix: str,
        call: list[bytes],
        cpu_ns: int,
        wait_ns: int,
    ) -> None:
        self.looks, self.watch, self.thread, self.prefix = looks, watch, thread, prefix
        self.kernel = kernel
        self.call, self.cpu_ns, self.wait_ns = call, cpu_ns, wait_ns
        self.running, self.state, self.place, self.server, self.path = 0.0, UNKNOWN, "", "", ""
        self.stack: _stacks.Stack | None = None


class Finder:
    """Says what threads wait for. One thread uses it.

    Parameters
    ----------
    stacks : Stacks
        Where stacks are kept.
    """

    def __init__(self, stacks: _stacks.Stacks) -> None:
        self._stacks = stacks
        self._gil = _gil
        self._gil_tries = 0
        self._gil_at = 0.0  # when to try again
        try:
            self._memory: _kernel.Memory | None = _kernel.Memory()
        except OSError:
            self._memory = None
        self._native_ids: dict[int, int] = {}
        self._helpers: dict[int, _kernel.Thread] = {}
        self._places: set[str] = set()
        self._children: dict[int, _kernel.File] = {}  # what the kernel says of each
        self._children_at = -_CHILDREN_S
        self._children_ns, self._children_ns_at = 0, -math.inf
        self._held: dict[str, int] = {}  # child that holds a pipe, by its number; 0 none
        self._has_children = False

    def find_gil(self) -> None:
        """Find the futex of the GIL, unless it is known; on a busy host that may take more than one try."""
        global _gil
        now = time.monotonic()
        if self._gil == 0 and self._gil_tries < _GIL_TRIES and now >= self._gil_at:
            self._gil = _gil = _kernel.find_gil()
            self._gil_at = now + 0.1 * 2**self._gil_tries
            self._gil_tries += 1

    def native_id(self, thread: int) -> int:
        """The kernel's number of a thread; 0 unknown."""
        found = self._native_ids.get(thread, 0)
        if not found:
            self._native_ids = {t.ident: t.native_id or 0 for t in threading.enumerate() if t.ident}
            found = self._native_ids.get(thread, 0)
        return found

    def forget(self, thread: int) -> None:
        """A thread may have ended, and its number may be used again."""
        self._native_ids.pop(thread, None)

    def cpu_ns(self, age_s: float) -> tuple[int, int, int]:
        """CPU time of the process, of this thread, and of children: those that were waited for and those that can be seen.

        That of children may be `age_s` old.
        """
        now = time.monotonic()
        if now - self._children_ns_at >= age_s:
            self._children_ns_at = now
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            ended_ns = int((used.ru_utime + used.ru_stime) * 1e9)
            self._has_children = self._has_children or ended_ns > 0
            self._children_ns = ended_ns + self._alive_ns()
        return time.process_time_ns(), time.thread_time_ns(), self._children_ns

    def take_stacks(
        self, seen: list[Seen], frames: dict[int, FrameType]
    ) -> dict[int, _stacks.Stack]:
        """Fill in the stacks of threads, and empty `frames`: as long as there is a frame, so are its variables.

        Returns the stacks of other threads, if some thread waits for one.
        """
        waits = False
        for look in seen:
            # A thread that has not run still has the stack of the look before.
            if look.cpu_ns != 0 or look.kernel.stack is _kernel.NOT_SEEN:
                look.kernel.stack = self._stacks.of(frames.get(look.thread))
            look.stack = look.kernel.stack
            waits = waits or self._may_wait_for_others(look.call)
            if look.watch is not None:
                look.server, look.path = look.watch.server, look.watch.path
            elif look.stack is not None and look.stack.reads:
                look.server = _server_of_task(frames.get(look.thread))
        helpers = {}
        if waits:
            tasks = {look.thread for look in seen} | {threading.get_ident()}
            for thread in [*frames][: 4 * _HELPERS_MAX]:
                stack = None if thread in tasks else self._stacks.of(frames[thread])
                if stack is not None:
                    helpers[thread] = stack
        frames.clear()
        return helpers

    def _may_wait_for_others(self, call: list[bytes]) -> bool:
        futex = len(call) > 1 and _kernel.group_of(call) == _kernel.FUTEX
        return futex and not _kernel.is_gil(int(call[1], 16), self._gil)

    def find(
        self,
        seen: list[Seen],
        others: Mapping[int, _stacks.Stack],
        interval_ns: int,
        helper_ns: int,
    ) -> None:
        """Fill in state and place of threads at one look.

        `others` are stacks of other threads, and `helper_ns` what they have computed since the last look.
        """
        global _gil
        if self._gil == 0:
            self._gil = _gil = self._gil_of(seen)
        waiting = []
        for look in seen:
            look.running, look.state, look.place = self._of(
                look.call, look.stack, look.server, look.path
            )
            if look.state == LOCK and look.place == "":
                waiting.append(look)
        if waiting:
            self._find_helped(waiting, others, helper_ns >= _COMPUTES * interval_ns)
        _share_gil([look for look in seen if look.state == GIL])
        for look in seen:
            look.place = self._bounded(look.place)

    def _gil_of(self, seen: list[Seen]) -> int:
        """The futex of the interpreter at which a thread stays while this one holds the GIL; 0 if there is none."""
        for look in seen:
            address = _kernel.interpreters_futex(look.call)
            if address:
                _kernel.keep_gil()
                if _kernel.interpreters_futex(self._call(look.thread)) == address:
                    return address
        return 0

    def _find_helped(
        self, waiting: list[Seen], others: Mapping[int, _stacks.Stack], computes: bool
    ) -> None:
        """Threads that wait for others of this process do what those do."""
        helpers: Found | None = None
        asked = False
        for look in waiting:
            stack = look.stack
            if stack is not None and stack.sources:
                look.state, look.place = INPUT, look.server
                continue
            if computes:
                look.state = NATIVE
                continue
            if not asked:
                asked, helpers = True, self._of_helpers(others, look.server)
            if helpers is not None:
                look.state, look.place = helpers[1:]
            elif stack is not None and stack.reads:
                look.state, look.place = INPUT, look.server

    # ---- one thread

    def _of(self, call: list[bytes], stack: _stacks.Stack | None, server: str, path: str) -> Found:
        if not call:
            return 0.0, UNKNOWN, ""
        if call[0] == b"running":
            return _RUNS
        reads = stack is not None and stack.reads
        if call[0] == b"-1":  # blocked, and not in a system call
            return (0.0, INPUT, server) if reads and stack.sources else (0.0, PAGE_FAULT, "")
        group = _kernel.group_of(call)
        if group == _kernel.FUTEX:
            if self._gil == 0 and _kernel.is_of_interpreter(int(call[1], 16)):
                return 0.0, UNKNOWN, ""  # it may be the GIL
            return 0.0, GIL if _kernel.is_gil(int(call[1], 16), self._gil) else LOCK, ""
        if group == _kernel.SLEEP:
            return 0.0, SLEEP, ""
        if group == _kernel.WAIT:
            return 0.0, CHILD, self._command(_signed(call[1]))
        if group == _kernel.MEMORY:
            return 0.0, PAGE_FAULT, ""
        if group == _kernel.PATH:
            return (0.0, INPUT, server) if reads else (0.0, FILE, "")
        if group == _kernel.FILE_LOCK:
            return 0.0, LOCK, _kernel.target(int(call[1], 16)) or "file"
        fds = self._descriptors(group, call)
        if not fds:
            waits = group in (_kernel.POLL, _kernel.SELECT) and self._memory is not None
            return 0.0, SLEEP if waits else UNKNOWN, ""
        found = [self._of_descriptor(fd, reads, server, path) for fd in fds]
        return 0.0, *min(found, key=lambda each: _SAYS_MOST.index(each[0]))

    def _descriptors(self, group: int | None, call: list[bytes]) -> list[int]:
        arguments = [int(each, 16) for each in call[1:7]]
        if group == _kernel.DESCRIPTOR:
            return [arguments[0] & 0xFFFFFFFF]
        if group == _kernel.EPOLL:
            return _kernel.epolled(arguments[0])
        if self._memory is None:
            return []
        if group == _kernel.POLL:
            return self._memory.polled(arguments[0], arguments[1])
        if group == _kernel.SELECT:
            return self._memory.selected(arguments[0], *arguments[1:4])
        return []

    def _of_descriptor(self, fd: int, reads: bool, server: str, path: str) -> tuple[int, str]:
        target = _kernel.target(fd)
        if target.startswith("socket:"):
            peer = _kernel.peer(fd)
            if reads or (peer and peer == server):
                return INPUT, server or peer
            if peer in ("", "unix:") and self._child_of_socket():
                return CHILD, self._command(0)
            return SERVICE, peer or "socket"
        if target.startswith("pipe:"):
            child = self._holder(target)
            return (CHILD, self._command(child)) if child else (FILE, "pipe")
        if target.startswith(("/dev/pts/", "/dev/tty", "/dev/console")):
            return FILE, "terminal"
        if reads or (path and target and path.endswith(target)):
            return INPUT, server or target
        if target.startswith("anon_inode:"):
            return FILE, target.partition(":")[2]
        return FILE, target

    # ---- threads that work for others

    def _of_helpers(self, others: Mapping[int, _stacks.Stack], server: str) -> Found | None:
        """What the busiest of the other threads does; None if all of them are idle."""
        found: list[Found] = []
        for thread, stack in others.items():
            if len(found) >= _HELPERS_MAX or stack.serves:
                continue
            running, state, place = self._of(self._call(thread), stack, server, "")
            if running:
                found.append((0.0, NATIVE, ""))
            elif state not in (LOCK, UNKNOWN):
                found.append((0.0, state, place))
        return min(found, key=lambda each: _SAYS_MOST.index(each[1])) if found else None

    def _call(self, thread: int) -> list[bytes]:
        native_id = self.native_id(thread)
        try:
            known = self._helpers.get(native_id)
            if known is None:
                if len(self._helpers) >= 256:
                    self._helpers.clear()
                known = self._helpers[native_id] = _kernel.Thread(native_id)
            call = known.call()
        except OSError:
            call = []
        if not call:
            self._helpers.pop(native_id, None)
            self.forget(thread)
        return call

    # ---- children

    def _list_children(self, age_s: float = _CHILDREN_S) -> list[int]:
        now = time.monotonic()
        if now - self._children_at >= age_s:
            self._children_at = now
            found: list[int] = []
            for thread in _threads_of_process():
                found += map(int, _kernel.content(f"/proc/self/task/{thread}/children").split())
            self._children = {
                child: file for child in found[:64] if (file := self._stat_of(child)) is not None
            }
            self._has_children = bool(found) or self._has_children
            self._held = {
                pipe: child for pipe, child in self._held.items() if child in self._children
            }
        return list(self._children)

    def _stat_of(self, child: int) -> _kernel.File | None:
        try:
            return self._children.get(child) or _kernel.File(f"/proc/{child}/stat", 1024)
        except OSError:  # it has ended
            return None

    def _alive_ns(self) -> int:
        """CPU time of the children that are alive; one that has ended counts among those that were waited for."""
        if not self._has_children:
            return 0
        total = 0
        for child in self._list_children()[:8]:
            fields = self._children[child].read().rpartition(b")")[2].split()
            if len(fields) > 12:
                total += (int(fields[11]) + int(fields[12])) * 1_000_000_000 // _TICK
        return total

    def _holder(self, pipe: str) -> int:
        """A child that has this pipe open; 0 if none has."""
        if pipe not in self._held:
            children = self._list_children(0)  # it was made before the pipe was read
            held = (child for child in children[:8] if _has_open(child, pipe))
            self._held[pipe] = next(held, 0)
        return self._held[pipe]

    def _child_of_socket(self) -> bool:
        """Whether a socket without a name leads to a child, as the pipes of multiprocessing that go both ways."""
        return bool(self._list_children(0 if not self._children else _CHILDREN_S))

    def _command(self, child: int) -> str:
        if child <= 0:
            child = next(iter(self._list_children(0 if not self._children else _CHILDREN_S)), 0)
        name = _kernel.content(f"/proc/{child}/comm", 64) if child > 0 else b""
        return name.strip().decode("utf-8", "replace")

    def _bounded(self, place: str) -> str:
        if place in self._places or place == "":
            return place
        if len(self._places) >= _PLACES_MAX:
            return "(others)"
        self._places.add(place)
        return place


def _share_gil(waiting: list[Seen]) -> None:
    """One of the threads that wait for the GIL held it until the looker asked for it: in proportion to their CPU time, whose turn it was."""
    cpu_ns = by_thread(waiting)
    whole = sum(cpu_ns.values())
    for look in waiting:
        look.running = cpu_ns[look.thread] / whole if whole > 0 else 1 / len(cpu_ns)


def by_thread(seen: list[Seen]) -> dict[int, int]:
    """CPU time of threads at one look, in ns; once each, however many runs record it."""
    return {look.thread: max(look.cpu_ns, 0) for look in seen}


def _signed(argument: bytes) -> int:
    number = int(argument, 16) & 0xFFFFFFFF
    return number - (1 << 32) if number >= 1 << 31 else number


def _threads_of_process() -> list[str]:
    try:
        return [entry.name for entry in os.scandir("/proc/self/task")]
    except OSError:
        return []


def _has_open(process: int, pipe: str) -> bool:
    directory = f"/proc/{process}/fd"
    try:
        found = [entry.name for entry in os.scandir(directory)]
    except OSError:
        return True  # not to be seen: it is a child's as well as anybody's
    return any(_kernel.link(f"{directory}/{fd}".encode()) == pipe for fd in found[:256])


@functools.lru_cache(maxsize=4096)
def server_of(file: str) -> str:
    """Where a file is: host and port of a URL, never its query; else its mount point."""
    chained = _LAST_OF_CHAIN.match(file)
    url = chained[1] if chained else file
    scheme, separator, _ = url.partition("://")
    if separator and scheme not in ("file", "local"):
        try:
            return urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
        except ValueError:
            return ""
    path = str(pathlib.Path(url.partition("://")[2] or url).absolute())
    points = (p for p in _mount_points() if path == p or path.startswith(p.rstrip("/") + "/"))
    return max(points, key=len, default="")


@functools.cache
def _mount_points() -> list[str]:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as lines:
            return [line.split()[1].replace("\\040", " ") for line in lines]
    except (OSError, IndexError):
        return []


def _server_of_task(frame: FrameType | None) -> str:
    """Of the file that coffea looks at before it makes chunks."""
    item: Any = _stacks.task_argument(frame, "metadata_fetcher", "item")
    name = getattr(item, "filename", None)
    return server_of(name) if isinstance(name, str) else ""


in_each_child(_mount_points.cache_clear)
