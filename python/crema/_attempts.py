"""Attempts at chunks: one row each, whatever becomes of it.

`begin` writes a provisional row, so that a chunk whose worker is killed is known; `finish` writes the row that replaces it. An
attempt that never finishes failed, or its chunk was dropped: the end of its Dask task, the next chunk in the same thread or the
end of the stream closes it. One thread works on one chunk at a time.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _process, _records
from ._records import CHUNKS

if TYPE_CHECKING:
    from ._recorder import Recorder

_STATUS = {name: CHUNKS.label("status", name) for name in ("ok", "error", "cancelled", "lost")}
_NO_CPU, _NO_BYTES, _RECONSTRUCTED = 1 << 1, 1 << 2, 1 << 4

_clock = time.perf_counter_ns


class Stamp(NamedTuple):
    """An instant, on the clocks that an attempt is measured by."""

    mono_ns: int
    thread_cpu_ns: int
    real_ns: int


def now() -> Stamp:
    """The instant of the call, in the calling thread."""
    return Stamp(_clock(), time.thread_time_ns(), time.time_ns())


class _Attempt:
    """What was read when a chunk was taken up."""

    __slots__ = ("began_ns", "cpu_ns", "gc_ns", "high_b", "key", "proc_cpu_ns", "values")

    def __init__(self, key: Hashable, values: dict[str, float]) -> None:
        self.key = key
        self.values = values
        self.high_b = _process.rss_high_b()
        self.gc_ns = _process.garbage.ns()
        self.proc_cpu_ns = time.process_time_ns()
        self.cpu_ns = time.thread_time_ns()
        self.began_ns = _clock()


class Attempts:
    """The attempts of one stream. `begin` and `finish` are called in the thread that works on the chunk."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open: dict[int, _Attempt] = {}  # by thread
        self._refs = 0
        self._lock = threading.Lock()
        self._measuring = False
        self.keys: set[Hashable] = set()  # Dask keys of running tasks that took up a chunk

    def begin(self, metadata: Mapping[str, Any], prefix: str, key: Hashable | None) -> None:
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
        values["attempt_ref"] = ref
        stream.row(CHUNKS, CHUNKS.pack(values), _records.PROVISIONAL)
        self._open[thread] = _Attempt(key, values)

    def finish(self, metrics: Mapping[str, Any], status: str, stamp: Stamp) -> None:
        """The chunk of this thread was done at `stamp`; `metrics` are coffea's of it, if it was asked for them."""
        thread = threading.get_ident()
        attempt = self._open.pop(thread, None)
        if attempt is None:
            return
        values = attempt.values
        whole_s = (stamp.mono_ns - attempt.began_ns) * 1e-9
        wall_s = metrics.get("processtime")
        if wall_s is not None:
            values["t_start_ns"] = stamp.real_ns - int(wall_s * 1e9)
            values["open_s"] = max(whole_s - wall_s, 0.0)
        n_events = metrics.get("entries")
        bytes_read_b = metrics.get("bytesread")
        columns = metrics.get("columns")
        values["t_end_ns"] = stamp.real_ns
        values["wall_s"] = whole_s if wall_s is None else wall_s
        values["cpu_s"] = (stamp.thread_cpu_ns - attempt.cpu_ns) * 1e-9
        values["proc_cpu_s"] = (time.process_time_ns() - attempt.proc_cpu_ns) * 1e-9
        values["gc_s"] = (_process.garbage.ns() - attempt.gc_ns) * 1e-9
        values["n_events"] = (
            values["entry_stop"] - values["entry_start"] if n_events is None else n_events
        )
        if bytes_read_b is None:
            values["quality"] = _NO_BYTES
        else:
            values["bytes_read_b"] = bytes_read_b
        if columns is not None:
            values["n_branches"] = _count_branches(frozenset(columns))
        values["rss_end_b"] = rss_b = _process.rss_b()
        values["rss_peak_b"] = _peak_b(attempt, rss_b)
        values["status"] = _STATUS[status]
        self._recorder.stream.row(CHUNKS, CHUNKS.pack(values))

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
        rss_b = _process.rss_b()
        attempt.values.update(
            t_end_ns=time.time_ns(),
            wall_s=(_clock() - attempt.began_ns) * 1e-9,
            rss_end_b=rss_b,
            rss_peak_b=_peak_b(attempt, rss_b),
            status=_STATUS[status],
            quality=_NO_CPU | _NO_BYTES | _RECONSTRUCTED,
        )
        self._recorder.stream.row(CHUNKS, CHUNKS.pack(attempt.values))


@functools.lru_cache(maxsize=8)
def _count_branches(columns: frozenset[str]) -> int:
    """Branches behind coffea's columns, such as "Muon_pt-data" and "nMuon-offsets"; most chunks of a run touch the same ones."""
    return len({column.rpartition("-")[0] for column in columns})


def _peak_b(attempt: _Attempt, rss_b: int) -> int:
    """Highest resident memory known of: the kernel's mark if it moved, else the larger end."""
    high_b = _process.rss_high_b()
    ends = max(attempt.values["rss_start_b"], rss_b)
    return max(high_b, ends) if high_b > attempt.high_b else ends
