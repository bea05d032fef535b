"""Attempts at chunks: one row each, whatever the outcome.

`begin` writes a provisional row, so that a chunk is known even if its worker is killed; `finish`
writes the row that replaces it. An attempt that never finishes has failed, or its chunk was
dropped: it is closed by the end of its Dask task, by the next chunk in the same thread, or by the
end of the stream. A thread works on one chunk at a time.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from . import _failures, _input, _looking, _opening, _process, _records, _spool
from ._records import CHUNKS

_STATUS = {
    name: CHUNKS.label("status", name) for name in ("ok", "error", "cancelled", "lost", "partial")
}
_NO_CPU, _NO_BYTES, _RECONSTRUCTED = 1 << 1, 1 << 2, 1 << 4
_NO_SIZES, _APPORTIONED, _WITH_OPENING = 1 << 5, 1 << 6, 1 << 7

_SOURCES_MAX = 1024
_ENDING_S = 1.0  # for threads that are about to write the row of an attempt when the stream ends
_63_BITS = (1 << 63) - 1

_clock = time.perf_counter_ns
_cpu = time.thread_time_ns


class Stamp(NamedTuple):
    """An instant of a thread; nanoseconds, -1 unknown."""

    clock: int  # monotonic
    gc: int  # garbage collection in the thread
    cpu: int  # of the thread
    real: int  # since 1970 UTC
    wait: int  # of the thread, for a core
    proc_cpu: int  # of the process


def now() -> Stamp:
    """The instant at which something ends in the calling thread."""
    # At the start garbage is read before CPU, at the end after it: a collection in between counts
    # in both or in the CPU time only. Reading a file gives the GIL away, so it comes last here and
    # first where something begins.
    clock_ns, gc_ns, cpu_ns, real_ns = _clock(), _process.garbage.ns(), _cpu(), time.time_ns()
    proc_cpu_ns = time.process_time_ns()
    return Stamp(clock_ns, gc_ns, cpu_ns, real_ns, _process.thread_clock.wait_ns(), proc_cpu_ns)


def _beginning() -> Stamp:
    """The instant at which something begins in the calling thread."""
    wait_ns, proc_cpu_ns = _process.thread_clock.wait_ns(), time.process_time_ns()
    cpu_ns, gc_ns = _cpu(), _process.garbage.ns()
    return Stamp(_clock(), gc_ns, cpu_ns, time.time_ns(), wait_ns, proc_cpu_ns)


def _seconds(end_ns: int, start_ns: int) -> float:
    return max(end_ns - start_ns, 0) * 1e-9 if min(end_ns, start_ns) >= 0 else math.nan


class Recorder(Protocol):
    """The part of `_recorder.Recorder` that attempts use."""

    stream: _spool.StreamWriter
    worker_id: int
    looks: _looking.Looks | None

    def slot(self, thread: int) -> int:
        """Small number of a thread."""

    def unavailable(self, what: str) -> None:
        """Note that the column `what` cannot be recorded here."""

    def read(self, what: str, read: Callable[[], Any], otherwise: Any) -> Any:
        """Return the result of `read`, or `otherwise` with a note that `what` is unavailable."""


class Attempt:
    """An attempt at a chunk: the values read when it began."""

    __slots__ = (
        "began",
        "cost_ns",
        "entries",
        "factory",
        "high_b",
        "in_process",
        "key",
        "native_id",
        "open",
        "opened",
        "recorder",
        "values",
        "watch",
    )

    def __init__(
        self, recorder: Recorder, key: Hashable, values: dict[str, float], began_ns: int
    ) -> None:
        self.recorder = recorder
        self.key = key
        self.values = values
        self.open = True
        self.factory: Any = None  # coffea's, once it was needed
        self.entries = itertools.count()  # of sections
        self.native_id = threading.get_native_id()
        self.in_process = False  # process() has begun
        self.opened: Stamp | None = None  # when it began, if known
        self.high_b = _process.usage()[1]
        self.began = _beginning()
        self.watch: _looking.Watch | None = None
        self.cost_ns = self.began.cpu - began_ns

    def process_begins(self) -> None:
        """Opening has ended; only the first call counts, since process() may open files of its own."""
        if not self.in_process:
            self.in_process = True
            self.opened = opened = _beginning()
            if self.watch is not None and self.watch.thread == threading.get_ident():
                at = opened.clock, opened.cpu, opened.wait
                self.watch.cut(at, _looking.PROCESS, self.watch.section)


_current: contextvars.ContextVar[Attempt | None] = contextvars.ContextVar("attempt", default=None)


def current() -> Attempt | None:
    """The attempt that the caller is working on; None outside of an attempt, and in a child of the process that began it."""
    attempt = _current.get()
    if attempt is None or not (attempt.open and attempt.recorder.stream.alive):
        return None
    return attempt


def _opened() -> None:
    attempt = current()
    if attempt is not None:
        attempt.process_begins()


class Attempts:
    """The attempts of one stream. `begin` and `finish` are called in the thread that works on the chunk."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open: dict[int, Attempt] = {}  # by thread
        self._ending: list[int] = []  # threads that write the last row of an attempt
        self._branches: set[str] = set()  # names that were written
        self._files: dict[int, tuple[str, str, int]] = {}  # for which only the name was written
        self._refs = itertools.count(1)
        self._sources: dict[tuple[str, ...], dict[str, float]] = {}  # rows to begin with
        self._lock = threading.Lock()
        self._measuring = False
        self._raised: set[str] = set()  # exceptions that were written
        self.keys: set[Hashable] = set()  # Dask keys of running tasks with a chunk
        self.without_key = False  # a chunk began in a task that Dask did not name

    def begin(
        self,
        metadata: Mapping[str, Any],
        prefix: str,
        key: Hashable | None,
        submission_key: int = 0,
    ) -> Attempt:
        """Begin a chunk, in the Dask task `key` of a submission, or without Dask."""
        began_ns = _cpu()
        thread = threading.get_ident()
        self.without_key = self.without_key or key is None
        if thread in self._open:
            self._abandon(thread, "error")
        if not self._measuring:
            self._measure()
        start, stop = metadata["entrystart"], metadata["entrystop"]
        source = (
            str(metadata["dataset"]),
            str(metadata["filename"]),
            metadata["fileuuid"],
            metadata["treename"],
            prefix,
        )
        values = (self._sources.get(source) or self._new_source(*source)).copy()
        values["chunk_id"] ^= (stop << 32 ^ start) & _63_BITS
        values["entry_start"] = start
        values["entry_stop"] = stop
        values["thread"] = self._recorder.slot(thread)
        values["attempt_ref"] = next(self._refs)
        if key is not None:
            values["task_key"] = _records.hash64(key)
            values["submission_key"] = submission_key
        values["rss_start_b"] = _process.rss_b()
        values["t_start_ns"] = time.time_ns()
        self._recorder.stream.row(CHUNKS, CHUNKS.pack(values), _records.PROVISIONAL)
        attempt = self._open[thread] = Attempt(self._recorder, key, values, began_ns)
        looks, began = self._recorder.looks, attempt.began
        if looks is not None:
            phase = _looking.OPENING if _opening.watched() else _looking.PROCESS
            at = began.clock, began.cpu, began.wait
            attempt.watch = looks.begin(at, phase, values, source[1])
        _current.set(attempt)
        return attempt

    def _measure(self) -> None:
        with self._lock:
            if not self._measuring:
                _process.garbage.start()
                _opening.watch(_opened)
                if not _opening.watched():
                    self._recorder.unavailable("chunks.open_s")
                if self._recorder.looks is None:
                    self._recorder.look()
                self._measuring = True

    def _new_source(
        self, dataset: str, filename: str, uuid: str, tree: str, prefix: str
    ) -> dict[str, float]:
        """The part of a chunk's row that is the same for all chunks of a source."""
        stream = self._recorder.stream
        dataset_id = stream.name(_records.DATASET, dataset)
        ids = {
            "dataset_id": dataset_id,
            "file_id": stream.name(_records.FILE, filename, uuid, dataset_id),
            "task_prefix_id": stream.name(_records.TASK_PREFIX, prefix),
        }
        self._files[ids["file_id"]] = (filename, uuid, dataset_id)
        common = CHUNKS.blank() | ids
        common["chunk_id"] = _records.hash64(dataset, filename, uuid, tree)
        common["worker_id"] = self._recorder.worker_id
        common["status"] = _STATUS["lost"]
        common["quality"] = _NO_CPU | _NO_BYTES | _NO_SIZES | _WITH_OPENING
        if len(self._sources) >= _SOURCES_MAX:
            self._sources.clear()
            self._files.clear()
        if _records.UNKNOWN_ID not in ids.values():  # else the names will be tried again
            self._sources[dataset, filename, uuid, tree, prefix] = common
        return common

    def finish(
        self,
        metrics: Mapping[str, Any],
        status: str,
        stamp: Stamp,
        factory: Any = None,
    ) -> None:
        """The chunk of this thread ended at `stamp`.

        `metrics` are coffea's metrics of the chunk, if it was asked for them; `factory` is the one
        that created its events, if known.
        """
        began_ns = _cpu()
        with self._ended(threading.get_ident()) as attempt:
            if attempt is None:
                return
            attempt.factory = None
            values = attempt.values
            if attempt.opened is None:
                _take_opening(attempt, metrics, stamp)
            _measure(attempt, stamp)
            self._take_looks(attempt, stamp)
            high_b = _process.usage()[1]
            values["rss_end_b"] = rss_b = _process.rss_b()
            values["rss_peak_b"] = _peak_b(attempt, rss_b, high_b)
            if status == "ok":
                n_events = metrics.get("entries")
                if n_events is None:
                    n_events = self._recorder.read(
                        "chunks.n_events", lambda: _input.n_events(factory), -1
                    )
                n_asked = values["entry_stop"] - values["entry_start"]
                values["n_events"] = n_asked if n_events < 0 else n_events
                status = "partial" if 0 <= n_events < n_asked else "ok"
            values["status"] = _STATUS[status]
            values["quality"] = self._take_input(values, metrics, factory) | _opening_within(
                attempt
            )
            began_ns -= attempt.cost_ns
            self._recorder.stream.row(CHUNKS, CHUNKS.pack(values), began_ns=began_ns)

    def _take_looks(self, attempt: Attempt, end: Stamp) -> None:
        """Fill in what the thread of an attempt waited for."""
        looks = self._recorder.looks
        if looks is not None and attempt.watch is not None:
            attempt.values.update(looks.end(attempt.watch, (end.clock, end.cpu, end.wait)))

    def _take_input(
        self, values: dict[str, float], metrics: Mapping[str, Any], factory: Any
    ) -> int:
        """Fill in what the attempt read; bits of `quality` mark what is unknown."""
        quality = 0
        read = self._recorder.read
        read_b = metrics.get("bytesread")
        if read_b is None:
            read_b = read("chunks.bytes_read_b", lambda: _input.requested_b(factory), -1)
        values["bytes_read_b"] = read_b
        for column, what in _input.REQUESTS.items():
            values[column] = read(
                f"chunks.{column}", lambda what=what: _input.requested(factory, what), -1
            )
        if read_b < 0:
            quality |= _NO_BYTES
        names = read("chunks.n_branches", lambda: _touched(factory, metrics), None)
        if names is None:
            return quality | _NO_SIZES
        if not names <= self._branches:
            self._name_branches(names)
        values["n_branches"] = len(names)
        if factory is None:
            return quality | _NO_SIZES
        file = self._files.pop(values["file_id"], None)
        if file is not None:
            self._describe(file, factory)
        sizes = read(
            "chunks.bytes_accessed_b", lambda: _input.sizes(factory, names), _input.UNKNOWN_SIZES
        )
        values["bytes_accessed_b"] = sizes.compressed_b
        values["bytes_uncompressed_b"] = sizes.uncompressed_b
        if sizes.compressed_b < 0:
            return quality | _NO_SIZES
        return quality if sizes.exact else quality | _APPORTIONED

    def _describe(self, file: tuple[str, str, int], factory: Any) -> None:
        """Write size and events of a file once per stream; they are unknown before it is open."""
        whole = _input.whole(factory)
        if max(whole) >= 0:
            self._recorder.stream.more(_records.FILE, *file, **whole._asdict())

    def _name_branches(self, names: frozenset[str]) -> None:
        """Write names that are new in this stream; most chunks of a run touch the same ones."""
        for name in sorted(names - self._branches):
            self._recorder.stream.name(_records.BRANCH, name)
        self._branches |= names

    @contextlib.contextmanager
    def _ended(self, thread: int) -> Iterator[Attempt | None]:
        """The open attempt of a thread, which is ended here; while its last row is written, the stream waits with its end."""
        own = threading.get_ident()
        self._ending.append(own)  # first, so that the attempt is always in one of both
        try:
            attempt = self._open.pop(thread, None)
            if attempt is not None:
                attempt.open = False
            yield attempt
        finally:
            self._ending.remove(own)

    def task_ended(self, key: Hashable, status: str) -> None:
        """The Dask task `key` has ended: if its attempt is still open, close it with `status`."""
        for thread in list(self._open):  # other threads begin and finish chunks meanwhile
            attempt = self._open.get(thread)
            if attempt is not None and attempt.key == key:
                self._abandon(thread, status)

    def fail_here(self, status: str, error: BaseException | None = None) -> None:
        """What the calling thread was working on has ended with `status`, because of `error`."""
        attempt = self._open.get(threading.get_ident())
        self._abandon(threading.get_ident(), status, now())
        if attempt is not None and error is not None and status == "error":
            text = _failures.text(error, self._raised)
            about, worker_id = (attempt.values["chunk_id"],), self._recorder.worker_id
            self._recorder.stream.count(text, about=about, worker_id=worker_id)

    def close(self, status: str) -> None:
        """Close all open attempts with `status`; no more chunks follow."""
        for thread in list(self._open):
            self._abandon(thread, status)
        own, give_up = {threading.get_ident()}, time.monotonic() + _ENDING_S
        while (
            self._recorder.stream.alive and set(self._ending) - own and time.monotonic() < give_up
        ):
            time.sleep(0.001)
        with self._lock:
            if self._measuring:
                self._measuring = False
                _process.garbage.stop()
                _opening.unwatch()

    def _abandon(self, thread: int, status: str, end: Stamp | None = None) -> None:
        """Write the row of an attempt that did not finish; without `end` it may have ended some time ago."""
        with self._ended(thread) as attempt:
            if attempt is None:
                return
            attempt.factory = None
            stamp = end or _from_outside(thread, attempt)
            if not attempt.in_process and _opening.watched():
                attempt.opened = stamp  # it did not get as far as process()
            _measure(attempt, stamp)
            self._take_looks(attempt, stamp)
            rss_b = _process.rss_b()
            attempt.values.update(
                rss_end_b=rss_b,
                rss_peak_b=_peak_b(attempt, rss_b, _process.usage()[1]),
                status=_STATUS[status],
                quality=_NO_BYTES
                | _NO_SIZES
                | (_RECONSTRUCTED if end is None else 0)
                | (_NO_CPU if stamp.cpu < 0 else 0)
                | _opening_within(attempt),
            )
            self._recorder.stream.row(CHUNKS, CHUNKS.pack(attempt.values))


def _opening_within(attempt: Attempt) -> int:
    """Bit of `quality` of an attempt whose wall time is not that of process() alone."""
    return 0 if attempt.in_process or attempt.opened is not None else _WITH_OPENING


def _from_outside(thread: int, attempt: Attempt) -> Stamp:
    """The present instant of an attempt's thread, in another one."""
    cpu_ns, wait_ns = _process.thread_clock.of(attempt.native_id)
    gc_ns = _process.garbage.of(thread)
    return Stamp(_clock(), gc_ns, cpu_ns, time.time_ns(), wait_ns, time.process_time_ns())


def _take_opening(attempt: Attempt, metrics: Mapping[str, Any], end: Stamp) -> None:
    """Where the end of opening was not noticed, coffea's own wall time of process() gives it; its other clocks are unknown."""
    wall_s = metrics.get("processtime")
    # coffea takes it from the wall clock, which may have been set meanwhile.
    if wall_s is not None and 0 <= wall_s <= (end.clock - attempt.began.clock) * 1e-9:
        wall_ns = int(wall_s * 1e9)
        attempt.opened = Stamp(end.clock - wall_ns, -1, -1, end.real - wall_ns, -1, -1)


def _measure(attempt: Attempt, end: Stamp) -> None:
    """Fill in the times of an attempt that ended at `end`."""
    values, began, opened = attempt.values, attempt.began, attempt.opened
    values["t_end_ns"] = end.real
    values["cpu_s"] = _seconds(end.cpu, began.cpu)
    values["gc_s"] = _seconds(end.gc, began.gc)
    values["proc_cpu_s"] = _seconds(end.proc_cpu, began.proc_cpu)
    values["cpu_wait_s"] = _seconds(end.wait, began.wait)
    if opened is None:
        values["wall_s"] = _seconds(end.clock, began.clock)
        return
    # Not what the clock said then: it may have been set meanwhile.
    values["t_start_ns"] = end.real - (end.clock - opened.clock)
    values["wall_s"] = _seconds(end.clock, opened.clock)
    values["open_s"] = _seconds(opened.clock, began.clock)
    values["open_cpu_s"] = _seconds(opened.cpu, began.cpu)
    values["open_gc_s"] = _seconds(opened.gc, began.gc)
    values["open_proc_cpu_s"] = _seconds(opened.proc_cpu, began.proc_cpu)
    values["open_cpu_wait_s"] = _seconds(opened.wait, began.wait)


def _touched(factory: Any, metrics: Mapping[str, Any]) -> frozenset[str] | None:
    """Branches that an attempt read, by its factory or by coffea's report; None if neither knows."""
    names = None if factory is None else _input.touched(factory)
    if names is None and "columns" in metrics:
        names = _input.branches_of_columns(frozenset(metrics["columns"]))
    return names


def _peak_b(attempt: Attempt, rss_b: int, high_b: int) -> int:
    """Highest known resident memory: the kernel's mark `high_b` if it moved, else the larger end."""
    ends = max(attempt.values["rss_start_b"], rss_b)
    return max(high_b, ends) if high_b > attempt.high_b else ends
