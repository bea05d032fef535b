"""Measuring inside ``process()``: sections, metrics and custom trackers.

Whatever is recorded here is in the spool when the call returns: it does not depend on the output of
the processor, and it is kept when ``process()`` raises or the run fails. It works in Dask tasks and
in the processes of every other executor whose chunks are recorded. Without a recording every call
is almost free. Nothing here raises: what could not be recorded is logged once and counted.

Sections belong to the thread or asyncio task that enters them, and to the chunk that it is
processing. A child process records the sections that it enters itself: in its own stream if it
knows its run (executors without Dask), not at all in a child of a Dask worker.
"""

from __future__ import annotations

import contextvars
import copy
import functools
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from . import _attempts, _input, _process, _recorder, _records
from ._records import CUSTOM, SECTIONS

_TIME, _MEMORY, _BYTES = (SECTIONS.label("kind", n) for n in ("time", "memory", "bytes"))
_KINDS = {name: number for number, name in enumerate(CUSTOM.labels["kind"])}
_TOP = -1

_clock = time.perf_counter_ns
_cpu = time.thread_time_ns
_Function = TypeVar("_Function", bound=Callable)


class _Entry:
    """A section that was entered and not yet left."""

    __slots__ = (
        "attempt",
        "bytes_b",
        "closed",
        "cpu_ns",
        "depth",
        "factory",
        "number",
        "outer",
        "previous",
        "recorder",
        "rss_b",
        "t_ns",
        "thread",
        "tracker",
        "wall_ns",
        "within_ns",
    )


_innermost: contextvars.ContextVar[_Entry | None] = contextvars.ContextVar("section", default=None)


class Tracker:
    """A named section, also called `track_time` and `track_section`; subclass it for your own measurements.

    Usable as ``with crema.track_time("jets"):`` and as a decorator. Sections may nest. Each time a
    section is entered it gets a row in the table ``sections``: wall and thread CPU seconds, its own
    seconds (without nested sections of the same thread), the chunk, the enclosing section.

    Parameters
    ----------
    name : str
        Name of the section. It is the last argument: a processor or events before it, as in roastcoffea's
        ``track_time(self, "jets")``, are ignored.

    Examples
    --------
    >>> class Allocations(crema.Tracker):
    ...     def enter(self):
    ...         self.before = sys.getallocatedblocks()
    ...
    ...     def exit(self):
    ...         self.record_metric("blocks", sys.getallocatedblocks() - self.before, "count")
    """

    _kind = _TIME
    __signature__: inspect.Signature | None = inspect.Signature(
        [inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str)]
    )  # what help shows

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "__init__" in cls.__dict__:
            cls.__signature__ = None  # its own

    def __init__(self, *arguments: Any, **named: Any) -> None:
        # roastcoffea passes the processor, and for bytes the events, before the name.
        name = named.get("name", named.get("section_name", arguments[-1] if arguments else None))
        self.name = name if isinstance(name, str) else type(self).__name__
        if not isinstance(name, str):
            _warn_unnamed(self.name)

    def enter(self) -> None:
        """Called after the section was entered, if it is recorded; for subclasses."""

    def exit(self) -> None:
        """Called before the section is left, also after an exception, if it is recorded; for subclasses."""

    def record_metric(self, name: str, value: float, unit: str = "", kind: str = "gauge") -> None:
        """As `crema.record_metric`."""
        record_metric(name, value, unit, kind)

    def __enter__(self) -> Tracker:
        if _recorder.recording():
            try:
                _enter(self)
            except Exception:
                _trouble("entering a section")
        return self

    def __exit__(self, *exception: object) -> None:
        entry = _innermost.get()
        if entry is not None:
            try:
                _leave(self, entry, _clock(), _cpu())
            except Exception:
                _trouble("leaving a section")

    def __call__(self, function: _Function) -> _Function:
        """Return `function` with each call as a section."""

        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            with copy.copy(self):
                return function(*args, **kwargs)

        return measured


track_section = track_time = Tracker


class BaseInstrumentationContext(Tracker):
    """A tracker as defined by coffea-metrics: a subclass records its measurements in its own ``__exit__``.

    A name is optional. The section ends after that ``__exit__``, whether or not it calls this one.
    Like everything here it never raises: an error in it is logged once and counted.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(
            *arguments, *([] if arguments or named else [type(self).__name__]), **named
        )

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        own = cls.__dict__.get("__exit__")
        if own is None:
            return

        @functools.wraps(own)
        def leave(self: Tracker, *exception: object) -> None:
            try:
                own(self, *exception)
            except Exception:
                _trouble(f"leaving {type(self).__name__}")
            Tracker.__exit__(self, *exception)

        cls.__exit__ = leave


class track_memory(Tracker):  # noqa: N801 - used like a function
    """A section that also records the resident memory of the process in bytes at its start and end; all threads of the process share it.

    Parameters
    ----------
    name : str
        Name of the section.
    """

    _kind = _MEMORY


class track_bytes(Tracker):  # noqa: N801 - used like a function
    """A section that also records the compressed bytes requested of the chunk's file within it; -1 if the source does not count them.

    coffea reads a column on first use, so the section that uses it first is charged for reading it.

    Parameters
    ----------
    name : str
        Name of the section.
    """

    _kind = _BYTES


def record_metric(name: str, value: float, unit: str = "", kind: str = "gauge") -> None:
    """Record your own number: a row of the table ``custom``, with the current chunk.

    Parameters
    ----------
    name : str
        Name of the metric; at most 4096 different names per process.
    value : float
        The number.
    unit : str
        Its unit, as any text.
    kind : {"gauge", "increment", "total"}
        How values combine: independent values, increments to be added up, or cumulative totals.

    Notes
    -----
    Never raises: an invalid value or kind is logged once and counted as a dropped record.
    """
    if _recorder.recording():
        try:
            _record(name, value, unit, kind)
        except Exception:
            _trouble("a metric")


def track_metrics(process: _Function) -> _Function:
    """Record each call of ``process(self, events)``, or of a function of events, as an attempt at a chunk.

    For cases where the Runner cannot be given the collector's checkpointer, which sees more: this
    one misses the opening of the file (`open_s` is unknown) and everything before ``process()``.
    Together with the checkpointer there is still one attempt, and this adds the exact time of a
    failure.

    Without Dask the collector must be in the process that runs the executor, or in its parent (Iterative, Futures).

    Parameters
    ----------
    process : callable
        The last positional argument of a call is the events of a chunk: NanoEvents made by coffea. Other calls are
        not recorded.
    """

    @functools.wraps(process)
    def measured(*args: Any, **kwargs: Any) -> Any:
        if not _recorder.recording():
            return process(*args, **kwargs)
        events = args[-1] if args else kwargs.get("events")
        attempt, own = _begin(events, args[0] if len(args) > 1 else process)
        if attempt is None:
            return process(*args, **kwargs)
        try:
            output = process(*args, **kwargs)
        except BaseException:
            _finish(attempt, "error")
            raise
        if own:
            _finish(attempt, "ok")
        return output

    return measured


# -------------------------------------------------------------------- sections


def _enter(tracker: Tracker) -> None:
    attempt = _attempts.current()
    recorder = _recorder_of(attempt)
    if recorder is None:
        return
    previous = _innermost.get()
    inside = previous is not None and previous.attempt is attempt and previous.recorder is recorder
    outer = previous if inside else None
    entry = _Entry()
    entry.previous = previous
    entry.recorder = recorder
    entry.number = 0 if attempt is None else next(attempt.entries)
    entry.tracker = tracker
    entry.outer = outer
    entry.attempt = attempt
    entry.depth = 0 if outer is None else outer.depth + 1
    entry.thread = threading.get_ident()
    entry.closed = False
    entry.within_ns = 0
    entry.rss_b = entry.bytes_b = -1
    if tracker._kind == _MEMORY:
        entry.rss_b = _process.rss_b()
    elif tracker._kind == _BYTES:
        entry.factory = _factory(attempt)
        entry.bytes_b = _input.requested_b(entry.factory)
    _innermost.set(entry)
    try:
        tracker.enter()
    finally:
        entry.t_ns = time.time_ns()
        entry.cpu_ns = _cpu()
        entry.wall_ns = _clock()
        _cut(attempt, entry.thread, entry.wall_ns, entry.cpu_ns, str(tracker.name))


def _leave(tracker: Tracker, innermost: _Entry, wall_ns: int, cpu_ns: int) -> None:
    entry: _Entry | None = innermost
    while entry is not None and (entry.tracker is not tracker or entry.closed):
        entry = entry.previous
    if entry is None:
        return
    entry.closed = True
    try:
        tracker.exit()
    finally:
        rest: _Entry | None = innermost
        while rest is not None and rest.closed:  # a generator may leave one in the middle
            rest = rest.previous
        _innermost.set(rest)
        outer = rest.tracker.name if rest is not None and rest.attempt is entry.attempt else ""
        _cut(entry.attempt, threading.get_ident(), wall_ns, cpu_ns, str(outer))
        _write_section(entry, wall_ns - entry.wall_ns, cpu_ns - entry.cpu_ns)


def _cut(
    attempt: _attempts.Attempt | None, thread: int, wall_ns: int, cpu_ns: int, section: str
) -> None:
    """Another section begins in the thread of an attempt."""
    watch = None if attempt is None else attempt.watch
    if watch is not None and watch.thread == thread:
        at = wall_ns, cpu_ns, _process.thread_clock.wait_ns()
        watch.cut(at, watch.phase, section)


def _write_section(entry: _Entry, wall_ns: int, cpu_ns: int) -> None:
    began_ns = time.thread_time_ns()
    recorder, outer, kind = entry.recorder, entry.outer, entry.tracker._kind
    same_thread = entry.thread == threading.get_ident()
    if outer is not None and outer.thread == entry.thread:
        outer.within_ns += wall_ns
    read_b = -1
    if kind == _BYTES and entry.bytes_b >= 0:
        read_b = _input.requested_b(entry.factory) - entry.bytes_b
    row = (
        (
            entry.t_ns,
            entry.rss_b,
            _process.rss_b() if kind == _MEMORY else -1,
            read_b,
            0 if entry.attempt is None else entry.attempt.values["chunk_id"],
            recorder.stream.name(_records.SECTION, str(entry.tracker.name)),
            recorder.worker_id,
            _TOP if outer is None else outer.number,
            entry.depth,
            kind,
            entry.number,
        ),
        (
            wall_ns * 1e-9,
            cpu_ns * 1e-9 if same_thread else _records.NAN,
            max(wall_ns - entry.within_ns, 0) * 1e-9,
        ),
    )
    recorder.stream.row(SECTIONS, row, began_ns=began_ns)


def _recorder_of(attempt: _attempts.Attempt | None) -> _recorder.Recorder | None:
    if attempt is not None:
        return attempt.recorder
    return _recorder.of_caller(_recorder.dask_task()[0])


def _factory(attempt: _attempts.Attempt | None) -> Any:
    """The factory that reads the chunk's file; searched once per attempt."""
    if attempt is None:
        return None
    if attempt.factory is None:
        attempt.factory = _input.factory_of_callers()
    return attempt.factory


# -------------------------------------------------------------------- metrics


def _record(name: str, value: float, unit: str, kind: str) -> None:
    attempt = _attempts.current()
    recorder = _recorder_of(attempt)
    if recorder is None:
        return
    if kind not in _KINDS:
        raise ValueError(f"kind {kind!r} of metric {name!r} is none of {', '.join(_KINDS)}")
    stream = recorder.stream
    unit_id = stream.name(_records.UNIT, str(unit))
    row = CUSTOM.row(
        t_ns=time.time_ns(),
        value=float(value),
        chunk_id=0 if attempt is None else attempt.values["chunk_id"],
        metric_id=stream.name(_records.METRIC, str(name), parent=unit_id),
        unit_id=unit_id,
        worker_id=recorder.worker_id,
        kind=_KINDS[kind],
    )
    stream.row(CUSTOM, row)


# -------------------------------------------------------------------- chunks


def _begin(events: Any, processor: Any) -> tuple[_attempts.Attempt | None, bool]:
    """The attempt to which a call of process() belongs, and whether this call began it."""
    try:
        factory = _input.factory_of_events(events)
        attempt = _attempts.current()
        if attempt is not None:
            attempt.factory = factory
            attempt.process_begins()
            return attempt, False
        worker, key = _recorder.dask_task()
        recorder = _recorder.of_caller(worker) if factory is not None else None
        if recorder is None:
            return None, False
    except Exception:
        _trouble("the start of a chunk")
        return None, False
    try:
        from .chunks import task_of

        if key is not None:
            recorder.attempts.keys.add(key)
        prefix, submission = task_of(recorder, worker, key, processor)
        identity = _input.identity(events, factory)
        attempt = recorder.attempts.begin(identity, prefix, key, submission)
        attempt.factory = factory
        attempt.in_process = True  # when it was opened is unknown
    except Exception:
        recorder.trouble("the start of a chunk")
        return None, False
    return attempt, True


def _finish(attempt: _attempts.Attempt, status: str) -> None:
    from .chunks import finish, is_cancelled

    if _attempts.current() is attempt:  # unless the checkpointer or the end of the task closed it
        if status == "ok" and is_cancelled(*_recorder.dask_task()):
            status = "cancelled"
        finish(attempt.recorder, {}, status, _attempts.now(), attempt.factory)


# -------------------------------------------------------------------- trouble


@functools.cache
def _warn_unnamed(called: str) -> None:
    _recorder.logger.warning("crema: a section without a name is recorded as %r", called)


def _trouble(where: str) -> None:
    try:
        recorder = _recorder_of(_attempts.current())
        if recorder is not None:
            recorder.trouble(where)
    except Exception:  # recording must never break an analysis
        _recorder.logger.debug("crema: %s", where, exc_info=True)
