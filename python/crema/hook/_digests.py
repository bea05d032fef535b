"""Dask's fine metrics as rows: cumulative totals of ``Worker.digests_total``, split by the kind of task.

Dask posts the seconds of a task at once, in the same event-loop callback as the transition that
ends it, right after it. So whatever the totals of a prefix have grown by between the end of a task
and the next event belongs to that task. If chunks share a prefix with other tasks, this gives two
totals per key: of the chunks and of the rest. Tasks of another client, or of another run on the
same cluster, are a third part that is not recorded. The sum of the three is Dask's own total.

All of this runs on the worker's event loop.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import Any

from . import _records
from ._records import ACTIVITIES, SIDE_PROCESSOR, SIDE_UNATTRIBUTED

_CONTEXTS = {
    "execute": "execute",
    "gather-dep": "gather_dep",
    "get-data": "get_data",
    "memory-monitor": "memory_monitor",
    "p2p": "p2p",
    "busy": "busy",  # ours
}
_CONTEXT = {dask: ACTIVITIES.label("context", ours) for dask, ours in _CONTEXTS.items()}
_OTHER = ACTIVITIES.label("context", "other")


# Owner of a task's seconds.
REST, CHUNK, FOREIGN = range(3)


class _Total:
    """One key of ``digests_total`` and the known owners of its parts."""

    __slots__ = ("columns", "key", "known", "parts", "seen", "sent_chunks", "sent_rest")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.known = False  # a row with this key was sent
        self.columns: dict[str, int] | None = None  # numbers of its names, once all are written
        self.parts = [0.0, 0.0, 0.0]  # by REST, CHUNK, FOREIGN
        self.seen = 0.0
        self.sent_chunks = self.sent_rest = 0.0

    @property
    def rest(self) -> float:
        return self.parts[REST]

    @property
    def chunks(self) -> float:
        return self.parts[CHUNK]

    def move(self, total: float, to: int) -> None:
        """Set the total; its increase belongs to part `to`."""
        # Each part is derived from the total instead of summed up, so that rounding errors do not
        # accumulate; no part may decrease.
        parts = self.parts
        part = total - parts[to - 1] - parts[to - 2]
        parts[to] = max(part, parts[to]) if total >= self.seen else part
        self.seen = total


class ForeignBusy:
    """Thread-seconds of tasks of other runs, by prefix, including running ones."""

    def __init__(self) -> None:
        self._running: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._at = time.monotonic()

    def _advance(self) -> None:
        now = time.monotonic()
        for prefix, n in self._running.items():
            if n:
                self._seconds[prefix] = self._seconds.get(prefix, 0.0) + n * (now - self._at)
        self._at = now

    def change(self, prefix: str, by: int) -> None:
        """Change the number of running tasks of a prefix."""
        self._advance()
        self._running[prefix] = self._running.get(prefix, 0) + by

    def seconds(self) -> Mapping[str, float]:
        """Seconds so far, by prefix."""
        self._advance()
        return self._seconds


class ActivityTotals:
    """Follows ``digests_total`` of one worker.

    Parameters
    ----------
    totals : Mapping
        ``worker.digests_total``; only read, while other threads may add to it.
    stream : StreamWriter
        Assigns numbers to names.
    worker_id : int
        Dictionary row of the worker in `stream`.
    """

    def __init__(self, totals: Mapping[Hashable, float], stream: Any, worker_id: int) -> None:
        self._totals = totals
        self._stream = stream
        self._worker_id = worker_id
        self._known: list[_Total] = []
        self._by_prefix: dict[str, list[_Total]] = {}
        # Prefix and owner of a task whose seconds are about to be posted; None for one of the rest.
        self._ended: tuple[str, int] | None = None
        self._busy: dict[str, float] = {}  # seconds executing by prefix, as sent
        self._seceded: dict[str, float] = {}  # seconds without a slot by prefix, as sent
        self.span_names: dict[str, str] = {}

    def baseline(self) -> list[_records.Row]:
        """Rows of the totals from before the run, which do not count for it."""
        self._look_for_new_keys()
        rows = []
        for entry in self._known:
            total = self._read(entry)
            entry.move(total, REST)
            entry.sent_rest = entry.rest
            entry.known = True
            rows.append(self._row(self._names(entry), SIDE_UNATTRIBUTED, total, baseline=1))
        return rows

    def task_ends(self, prefix: str, whose: int) -> None:
        """A task is leaving execution; Dask posts its seconds after this call."""
        self.settle()
        if whose != REST:
            self._assign(prefix, REST)  # so far: other tasks of that prefix
            self._ended = prefix, whose

    def settle(self) -> None:
        """Assign what was posted since to the task that ended last, unless it was one of the rest."""
        ended, self._ended = self._ended, None
        if ended is not None:
            self._assign(*ended)

    def _assign(self, prefix: str, whose: int) -> None:
        """What was posted for tasks of a prefix since the last look belongs to `whose`."""
        self._look_for_new_keys()
        for entry in self._by_prefix.get(prefix, ()):
            total = self._read(entry)
            if total != entry.seen:
                entry.move(total, whose)

    def changes(self) -> list[_records.Row]:
        """Rows of all totals that changed since the last call."""
        self.settle()
        self._look_for_new_keys()
        rows = []
        for entry in self._known:
            total = self._read(entry)
            if total != entry.seen:
                entry.move(total, REST)
            if entry.chunks != entry.sent_chunks:
                entry.sent_chunks = entry.chunks
                rows.append(self._row(self._names(entry), SIDE_PROCESSOR, entry.chunks))
            if entry.rest != entry.sent_rest or not (entry.known or any(entry.parts)):
                entry.sent_rest = entry.rest  # a key that is zero is sent once
                rows.append(self._row(self._names(entry), SIDE_UNATTRIBUTED, entry.rest))
            entry.known = True
        return rows

    def busy(
        self,
        elapsed: Mapping[tuple[str, str], float],
        foreign: Mapping[str, float],
        baseline: int = 0,
    ) -> list[_records.Row]:
        """Rows of thread-seconds spent executing, running tasks included, by prefix.

        `elapsed` is Dask's ``task_counter.cumulative_elapsed()``; `foreign` is what of it other runs spent.
        """
        rows = []
        for (prefix, state), seconds in list(elapsed.items()):
            if state != "executing":
                continue
            before = self._busy.get(prefix, 0.0)
            seconds = max(seconds - foreign.get(prefix, 0.0), before)  # two clocks never agree
            if seconds == before and (prefix in self._busy or prefix in foreign):
                continue
            self._busy[prefix] = seconds
            columns = self._columns("busy", None, prefix, "executing", "seconds")
            rows.append(self._row(columns, SIDE_UNATTRIBUTED, seconds, baseline))
        return rows

    def seceded(self, seconds: Mapping[str, float]) -> list[_records.Row]:
        """Rows of the seconds of tasks that had left their slots, by prefix, which Dask's totals contain."""
        rows = []
        for prefix, total in seconds.items():
            if total != self._seceded.get(prefix):
                self._seceded[prefix] = total
                columns = self._columns("busy", None, prefix, "seceded", "seconds")
                rows.append(self._row(columns, SIDE_UNATTRIBUTED, total))
        return rows

    def name_span(self, span_id: str, names: Any) -> None:
        """Learn the name of a span from a task's annotations."""
        if names and span_id not in self.span_names:
            self.span_names[span_id] = "/".join(map(str, names))

    def _look_for_new_keys(self) -> None:
        """Find new keys. Totals never lose a key, and new ones come last."""
        if len(self._totals) > len(self._known):
            for key in list(self._totals)[len(self._known) :]:
                entry = _Total(key)
                self._known.append(entry)
                prefix = parse_key(key)[2]
                if prefix is not None:
                    self._by_prefix.setdefault(prefix, []).append(entry)

    def _read(self, entry: _Total) -> float:
        try:
            total = float(self._totals[entry.key])
        except (KeyError, TypeError, ValueError):
            return entry.seen
        return total if total == total else entry.seen  # NaN never equals what was sent

    def _names(self, entry: _Total) -> dict[str, int]:
        """Columns that identify the key."""
        if entry.columns is not None:
            return entry.columns
        known = parse_key(entry.key)
        columns = self._columns(*known)
        _, span_id, prefix, _, _ = known
        unknown = (span_id is None) + (prefix is None)
        if list(columns.values()).count(_records.UNKNOWN_ID) == unknown:
            entry.columns = columns
        return columns

    def _columns(
        self, context: str, span_id: str | None, prefix: str | None, activity: str, unit: str
    ) -> dict[str, int]:
        name = self._stream.name
        span = self.span_names.get(span_id, "") if span_id else ""
        return {
            "worker_id": self._worker_id,
            "span_id": name(_records.SPAN, span, span_id) if span_id else _records.UNKNOWN_ID,
            "task_prefix_id": _records.UNKNOWN_ID
            if prefix is None
            else name(_records.TASK_PREFIX, prefix),
            "activity_id": name(_records.ACTIVITY, activity),
            "unit_id": name(_records.UNIT, unit),
            "context": _CONTEXT.get(context, _OTHER),
        }

    def _row(
        self, columns: dict[str, int], side: int, total: float, baseline: int = 0
    ) -> _records.Row:
        return ACTIVITIES.row(
            t1_ns=time.time_ns(), total=total, side=side, baseline=baseline, **columns
        )


def parse_key(key: Hashable) -> tuple[str, str | None, str | None, str, str]:
    """Context, span id, task prefix, activity and unit of a key of ``digests_total``.

    Labels may be any hashable and units any string; a key of unknown structure becomes an activity as a whole.
    """
    if isinstance(key, tuple) and len(key) >= 3:
        context = key[0]
        if context == "execute" and len(key) == 5:
            return "execute", _optional(key[1]), str(key[2]), label(key[3]), str(key[4])
        if context == "p2p" and len(key) >= 4:
            return "p2p", _optional(key[1]), None, _joined(key[2:-1]), str(key[-1])
        if context in _CONTEXTS and context not in ("execute", "busy"):
            return context, None, None, _joined(key[1:-1]), str(key[-1])
    if isinstance(key, str):
        unit = "bytes/s" if key.endswith("bandwidth") else "seconds"
        return "other", None, None, key, unit
    return "other", None, None, label(key), ""


def label(value: Hashable) -> str:
    """Text of an activity: the label itself if it is a string, otherwise its `repr`."""
    if isinstance(value, str):
        return value
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _joined(values: tuple) -> str:
    return ".".join(map(label, values))


def _optional(value: Any) -> str | None:
    return None if value is None else str(value)
