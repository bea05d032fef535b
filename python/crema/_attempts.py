"""Attempts at chunks: one row each, whatever becomes of it.

`begin` writes a provisional row, so that a chunk whose worker is killed is known; `finish` writes the row that replaces it. An
attempt that never finishes failed, or its chunk was dropped: the end of its Dask task, the next chunk in the same thread or the
end of the stream closes it. One thread works on one chunk at a time.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _input, _process, _records
from ._records import CHUNKS

if TYPE_CHECKING:
    from ._recorder import Recorder

_STATUS = {
    name: CHUNKS.label("status", name) for name in ("ok", "error", "cancelled", "lost", "partial")
}
_NO_CPU, _NO_BYTES, _RECONSTRUCTED = 1 << 1, 1 << 2, 1 << 4
_NO_SIZES, _APPORTIONED = 1 << 5, 1 << 6

_clock = time.perf_counter_ns


class Stamp(NamedTuple):
    """An instant, on the clocks that an attempt is measured by."""

    mono_ns: int
    thread_cpu_ns: int
    real_ns: int


def now() -> Stamp:
    """The instant of the call, in the calling thread."""
    return Stamp(_clock(), time.thread_time_ns(), time.time_ns())


class Attempt:
    """An attempt at a chunk: what was read when it was taken up."""

    __slots__ = (
        "began_ns",
        "cpu_ns",
        "entries",
        "factory",
        "gc_ns",
        "high_b",
        "key",
        "open",
        "proc_cpu_ns",
        "process_ns",
        "recorder",
        "values",
    )

    def __init__(self, recorder: Recorder, key: Hashable, values: dict[str, float]) -> None:
        self.recorder = recorder
        self.key = key
        self.values = values
        self.open = True
        self.factory: Any = None  # coffea's, once somebody asked for it
        self.entries = itertools.count()  # of sections
        self.process_ns = 0  # when process() began, if it says so
        self.high_b = _process.rss_high_b()
        self.gc_ns = _process.garbage.ns()
        self.proc_cpu_ns = time.process_time_ns()
        self.cpu_ns = time.thread_time_ns()
        self.began_ns = _clock()


_current: contextvars.ContextVar[Attempt | None] = contextvars.ContextVar("attempt", default=None)


def current() -> Attempt | None:
    """The attempt that the caller works on; None outside of one, and in a child of the process that began it."""
    attempt = _current.get()
    if attempt is None or not (attempt.open and attempt.recorder.stream.alive):
        return None
    return attempt


def _metered(method: Callable[..., Any]) -> Callable[..., Any]:
    """Of `Attempts`: its CPU time is part of what recording costs."""

    @functools.wraps(method)
    def counted(self: Attempts, *args: Any) -> Any:
        began_s = time.thread_time()
        try:
            return method(self, *args)
        finally:
            self._recorder.stream.cost.add(began_s)

    return counted


class Attempts:
    """The attempts of one stream. `begin` and `finish` are called in the thread that works on the chunk."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open: dict[int, Attempt] = {}  # by thread
        self._branches: set[str] = set()  # whose names were written
        self._refs = 0
        self._lock = threading.Lock()
        self._measuring = False
        self.keys: set[Hashable] = set()  # Dask keys of running tasks that took up a chunk

    @_metered
    def begin(self, metadata: Mapping[str, Any], prefix: str, key: Hashable | None) -> Attempt:
        """A chunk is taken up: by the Dask task `key`, or without Dask."""
        thread = threading.get_ident()
        if thread in self._open:
            self._abandon(thread, "error")
        recorder, stream = self._recorder, self._recorder.stream
        dataset, filename, uuid = metadata["dataset"], metadata["filename"], metadata["fileuuid"]
        start, stop = metadata["entrystart"], metadata["entrystop"]
        dataset_id = stream.name(_records.DATASET, dataset)
        with self._lock:
            self._refs += 1
            ref = self._refs
            if not self._measuring:
                self._measuring = True
                _process.garbage.start()
        values = CHUNKS.blank()
        values["t_start_ns"] = time.time_ns()
        values["entry_start"] = start
        values["entry_stop"] = stop
        values["rss_start_b"] = _process.rss_b()
        values["chunk_id"] = _records.hash64(
            dataset, filename, uuid, metadata["treename"], start, stop
        )
        if key is not None:
            values["task_key"] = _records.hash64(key)
        values["worker_id"] = recorder.worker_id
        values["dataset_id"] = dataset_id
        values["file_id"] = stream.name(_records.FILE, filename, uuid, dataset_id)
        values["task_prefix_id"] = stream.name(_records.TASK_PREFIX, prefix)
        values["thread"] = recorder.slot(thread)
        values["status"] = _STATUS["lost"]
        values["quality"] = _NO_CPU | _NO_BYTES | _NO_SIZES
        values["attempt_ref"] = ref
        stream.row(CHUNKS, CHUNKS.pack(values), _records.PROVISIONAL)
        attempt = self._open[thread] = Attempt(recorder, key, values)
        _current.set(attempt)
        return attempt

    @_metered
    def finish(
        self,
        metrics: Mapping[str, Any],
        status: str,
        stamp: Stamp,
        factory: Any = None,
    ) -> None:
        """The chunk of this thread was done at `stamp`.

        `metrics` are coffea's of it, if it was asked for them; `factory` made its events, if anybody knows it.
        """
        attempt = self._open.pop(threading.get_ident(), None)
        if attempt is None:
            return
        attempt.open = False
        attempt.factory = None
        values = attempt.values
        whole_s = (stamp.mono_ns - attempt.began_ns) * 1e-9
        wall_s = metrics.get("processtime")
        if wall_s is None and attempt.process_ns:
            wall_s = (stamp.mono_ns - attempt.process_ns) * 1e-9
        if wall_s is not None:
            values["t_start_ns"] = stamp.real_ns - int(wall_s * 1e9)
            values["open_s"] = max(whole_s - wall_s, 0.0)
        values["t_end_ns"] = stamp.real_ns
        values["wall_s"] = whole_s if wall_s is None else wall_s
        values["cpu_s"] = (stamp.thread_cpu_ns - attempt.cpu_ns) * 1e-9
        values["proc_cpu_s"] = (time.process_time_ns() - attempt.proc_cpu_ns) * 1e-9
        values["gc_s"] = (_process.garbage.ns() - attempt.gc_ns) * 1e-9
        values["rss_end_b"] = rss_b = _process.rss_b()
        values["rss_peak_b"] = _peak_b(attempt, rss_b)
        if status == "ok":
            n_events = metrics.get("entries", _input.n_events(factory))
            n_asked = values["entry_stop"] - values["entry_start"]
            values["n_events"] = n_asked if n_events < 0 else n_events
            status = "partial" if 0 <= n_events < n_asked else "ok"
        values["status"] = _STATUS[status]
        values["quality"] = self._take_input(values, metrics, factory)
        self._recorder.stream.row(CHUNKS, CHUNKS.pack(values))

    def _take_input(
        self, values: dict[str, float], metrics: Mapping[str, Any], factory: Any
    ) -> int:
        """Fill in what the attempt read; bits of `quality` say what is not known."""
        quality = 0
        values["bytes_read_b"] = metrics.get("bytesread", _input.requested_b(factory))
        if values["bytes_read_b"] < 0:
            quality |= _NO_BYTES
        names = _input.touched(factory)
        if names is None and "columns" in metrics:
            names = _input.branches_of_columns(frozenset(metrics["columns"]))
        if names is None:
            return quality | _NO_SIZES
        self._name_branches(names)
        values["n_branches"] = len(names)
        sizes = _input.sizes(factory, names)
        values["bytes_accessed_b"] = sizes.compressed_b
        values["bytes_uncompressed_b"] = sizes.uncompressed_b
        if sizes.compressed_b < 0:
            return quality | _NO_SIZES
        return quality if sizes.exact else quality | _APPORTIONED

    def _name_branches(self, names: frozenset[str]) -> None:
        """Write names that this stream has not seen; most chunks of a run touch the same ones."""
        if not names <= self._branches:
            for name in sorted(names - self._branches):
                self._recorder.stream.name(_records.BRANCH, name)
            self._branches |= names

    def task_ended(self, key: Hashable, status: str) -> None:
        """The Dask task `key` is over: if its attempt is still open, `status` is what became of it."""
        for thread, attempt in list(self._open.items()):
            if attempt.key == key:
                self._abandon(thread, status)

    def close(self, status: str) -> None:
        """No more chunks: those still open end with `status`."""
        for thread in list(self._open):
            self._abandon(thread, status)
        with self._lock:
            if self._measuring:
                self._measuring = False
                _process.garbage.stop()

    def _abandon(self, thread: int, status: str) -> None:
        """Write the row of an attempt that did not finish, seen from outside: its end and CPU are not known well."""
        attempt = self._open.pop(thread, None)
        if attempt is None:
            return
        attempt.open = False
        attempt.factory = None
        rss_b = _process.rss_b()
        attempt.values.update(
            t_end_ns=time.time_ns(),
            wall_s=(_clock() - attempt.began_ns) * 1e-9,
            rss_end_b=rss_b,
            rss_peak_b=_peak_b(attempt, rss_b),
            status=_STATUS[status],
            quality=_NO_CPU | _NO_BYTES | _NO_SIZES | _RECONSTRUCTED,
        )
        self._recorder.stream.row(CHUNKS, CHUNKS.pack(attempt.values))


def _peak_b(attempt: Attempt, rss_b: int) -> int:
    """Highest resident memory known of: the kernel's mark if it moved, else the larger end."""
    high_b = _process.rss_high_b()
    ends = max(attempt.values["rss_start_b"], rss_b)
    return max(high_b, ends) if high_b > attempt.high_b else ends
