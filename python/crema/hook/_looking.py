"""Looks at the threads that run tasks: what each one is blocked in, and in which line, twenty times per second.

Seconds on the CPU and seconds without a core are exact, since they are read where a piece of work begins and ends (`Watch.cut`). Only what is
left of a piece, the time for which the thread was blocked, is divided, in proportion to what the looks found in it.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from . import _kernel, _records, _stacks
from ._process import garbage
from ._records import LOOKS, UNKNOWN_ID
from ._unix import in_each_child
from ._waits import BLOCKED, Finder, Seen, by_thread, server_of

logger = logging.getLogger("crema")

OTHER, OPENING, PROCESS = (LOOKS.label("phase", n) for n in ("other", "opening", "process"))
STATES = LOOKS.labels["state"]
CPU, CORE, GIL, UNKNOWN = (STATES.index(n) for n in ("cpu", "core", "gil", "unknown"))
INPUT = STATES.index("input")

COST_SHARE = 0.0025  # of a core: looks are rarer where they cost more,
CREDIT_S = 0.01  # but not at once: the first ones are the dearest, and short runs have no others
_FAILURES_MAX = 10  # looks in a row that failed, after which there are no more
_USUAL_S = 2e-4  # of CPU for a look, until it is known
_IDLE_S = 1.0  # between two looks at children while no task runs
_FLUSH_S = (2.0, 60.0)  # between two records of totals: a twentieth of the time so far
_ROWS_MAX = 256  # of one such record; the others wait for the next one
_KEYS_MAX = 1 << 14  # of one stream; beyond it seconds are without a stack
_HISTORY_MAX = 1 << 10
_clock = time.perf_counter_ns

Instant = tuple[int, int, int]  # clock, CPU, waiting for a core; ns
Where = tuple[int, str, Any]  # state, place, stack
Times = tuple[float, float, float]  # seconds on the CPU, without a core, blocked
Kind = tuple[int, int, int, str]  # of a piece of work: task prefix, dataset, phase, section

_NO_TIME: Times = (0.0, 0.0, 0.0)
_UNKNOWN: Mapping[Where, float] = {(UNKNOWN, "", None): 1.0}
_COLUMNS = tuple(f"{STATES[state]}_s" for state in BLOCKED)


def _seconds(wall_ns: int, cpu_ns: int, wait_ns: int) -> Times:
    """Seconds on the CPU, without a core and blocked, which are together all of the time."""
    wall_s = max(wall_ns, 0) * 1e-9
    cpu_s = min(max(cpu_ns, 0) * 1e-9, wall_s)
    wait_s = min(max(wait_ns, 0) * 1e-9, wall_s - cpu_s)
    return cpu_s, wait_s, wall_s - cpu_s - wait_s


def _shares(weights: Mapping[Any, float], seconds: float) -> Iterator[tuple[Any, float]]:
    """The seconds of each key, in proportion to its weight."""
    whole = sum(weights.values())
    for key, weight in weights.items():
        yield key, seconds * weight / whole


class Watch:
    """A thread that works on a chunk. Its own thread cuts, the sampler looks, and whoever holds the lock of `Looks` settles."""

    __slots__ = (
        "child_s", "collections", "cpu_ns", "dataset_id", "found", "helper_s", "last", "marks", "native_id",
        "opening", "path", "phase", "prefix_id", "seconds", "section", "server", "thread",
    )  # fmt: skip

    def __init__(self, began: Instant, phase: int, ids: tuple[int, int], file: str) -> None:
        self.thread = threading.get_ident()
        self.native_id = threading.get_native_id()
        self.prefix_id, self.dataset_id = ids
        self.path = file
        self.server = server_of(file)
        self.phase = phase
        self.section = ""  # the innermost one
        self.last = began  # what is before it is settled
        self.cpu_ns = began[1]  # at the last look
        self.marks: list[tuple[int, int, int, int, str]] = []
        self.found: list[tuple[int, int, float, Where]] = []
        self.collections: deque[tuple[int, str, int, _stacks.Stack | None]] = deque()
        self.seconds = [0.0] * len(STATES)
        self.opening = [0.0] * len(STATES)
        self.helper_s = self.child_s = 0.0

    def cut(self, at: Instant, phase: int, section: str) -> None:
        """A piece of work ends here, and one of another phase or section begins."""
        self.marks.append((*at, self.phase, self.section))
        self.phase, self.section = phase, section

    def add(self, phase: int, weights: Mapping[Where, float], seconds: float) -> None:
        """Count seconds for which the thread was blocked, in proportion to the weights of states."""
        for (state, _, _), share_s in _shares(weights, seconds):
            self.seconds[state] += share_s
            if phase == OPENING:
                self.opening[state] += share_s


class _Piece:
    """Work of one phase and section: exact times, and the weights of what was found in it."""

    __slots__ = ("blocked", "cpu_ns", "n", "running", "wait_ns", "wall_ns")

    def __init__(self) -> None:
        self.wall_ns = self.cpu_ns = self.wait_ns = 0
        self.running: dict[Any, float] = {}  # by stack
        self.blocked: dict[Where, float] = {}
        self.n: dict[Where, int] = {}

    def take(self, interval_ns: int, running: float, where: Where) -> None:
        """A look that found the thread running with this probability, else waiting."""
        if running > 0:
            stack = where[2]
            self.running[stack] = self.running.get(stack, 0.0) + running * interval_ns
            where_running = (CPU, "", stack)
            self.n[where_running] = self.n.get(where_running, 0) + 1
        if running < 1:
            self.blocked[where] = self.blocked.get(where, 0.0) + (1 - running) * interval_ns
            self.n[where] = self.n.get(where, 0) + 1

    def remember(self, other: _Piece) -> None:
        """Add the weights of another one."""
        for own, its in ((self.running, other.running), (self.blocked, other.blocked)):
            if len(own) < _HISTORY_MAX:
                for key, weight in its.items():
                    own[key] = own.get(key, 0.0) + weight


class Looks:
    """What was seen of the threads of one stream, as cumulative seconds.

    Parameters
    ----------
    recorder : Recorder
        Of the stream.
    tasks : callable, optional
        Returns the prefix of the task that each thread runs, by number of the thread; chunks too.
    stacks : _stacks.Stacks
        Those of all streams of this process.
    """

    def __init__(
        self,
        recorder: Any,
        tasks: Callable[[], Mapping[int, str]] | None,
        stacks: _stacks.Stacks,
    ) -> None:
        self.recorder = recorder
        self.tasks = tasks or dict
        self.stacks = stacks
        self.watches: dict[int, Watch] = {}  # by thread
        self._others: dict[str, _Piece] = {}  # tasks that are not chunks, by prefix
        self._lock = threading.Lock()
        self._writing = threading.Lock()  # held while totals are written; END comes after
        self._history: dict[Kind, _Piece] = {}
        self._not_found: dict[Kind, Times] = {}  # in which nothing was found
        self._totals: dict[tuple, float] = {}  # seconds by prefix, dataset, phase, section, where
        self._counts: dict[tuple, int] = {}
        self._gc: dict[tuple, float] = {}  # seconds of garbage collections
        self._changed: dict[tuple, float] = {}  # since they were written
        self._stacks: dict[Any, int] = {}
        self._ended_ns: list[int] = []  # CPU time of chunks that have ended since the last look
        self._began = self._flushed = time.monotonic()

    def ended(self) -> int:
        """CPU time, since the look before, of threads whose chunks have ended."""
        ended, self._ended_ns = self._ended_ns, []
        return sum(ended)

    def take_other(
        self, prefix: str, times: tuple[int, int, int], running: float, where: Where
    ) -> None:
        """Add a look at a task that is not a chunk; `times` are its wall, CPU and waiting time in ns since the previous look."""
        wall_ns, cpu_ns, wait_ns = times
        with self._lock:  # when the stream ends, another thread writes the last totals
            piece = self._others.setdefault(prefix, _Piece())
            piece.wall_ns += wall_ns
            piece.cpu_ns += cpu_ns
            piece.wait_ns += wait_ns
            piece.take(wall_ns, running, where)

    # ---- chunks, in their own threads

    def begin(self, began: Instant, phase: int, values: Mapping[str, Any], file: str) -> Watch:
        """A chunk begins in the calling thread."""
        ids = values["task_prefix_id"], values["dataset_id"]
        watch = Watch(began, phase, ids, file)
        self.watches[watch.thread] = watch
        return watch

    def end(self, watch: Watch, at: Instant) -> dict[str, float]:
        """The chunk has ended; returns columns of its row."""
        if self.watches.get(watch.thread) is watch:
            self.watches.pop(watch.thread, None)  # another thread may end the stream meanwhile
        if at[1] < 0 or watch.last[1] < 0:
            return {}
        self._ended_ns.append(max(at[1] - watch.cpu_ns, 0))
        with self._lock:
            self._settle(watch, at)
        columns = {
            name: watch.seconds[state] for name, state in zip(_COLUMNS, BLOCKED, strict=True)
        }
        columns["open_gil_s"] = watch.opening[GIL]
        columns["open_input_s"] = watch.opening[INPUT]
        columns["helper_cpu_s"] = watch.helper_s
        columns["child_cpu_s"] = watch.child_s
        return columns

    def collected(self, thread: int, spent_ns: int, frame: FrameType) -> None:
        """A long garbage collection began in a frame of the calling thread, which may be anywhere: it must not wait for a lock."""
        watch = self.watches.get(thread)
        if watch is not None:
            stack = self.stacks.of(frame)
            watch.collections.append((watch.phase, watch.section, spent_ns, stack))

    # ---- dividing

    def _settle(self, watch: Watch, at: Instant) -> None:
        """Divide what passed since the last time, up to `at`."""
        marks, watch.marks = watch.marks, []
        found, watch.found = watch.found, []
        self._take_collections(watch)
        if not marks and not found:
            key = (watch.prefix_id, watch.dataset_id, watch.phase, watch.section)
            passed = _seconds(*(b - a for a, b in zip(watch.last, at, strict=True)))
            watch.last = at
            self._divide_later(key, passed, watch)
            return
        marks.append((*at, watch.phase, watch.section))
        self._settle_pieces(watch, marks, found)

    def _settle_pieces(
        self,
        watch: Watch,
        marks: list[tuple[int, int, int, int, str]],
        found: list[tuple[int, int, float, Where]],
    ) -> None:
        """Divide what passed since the last time, up to the last of these marks."""
        clock, cpu_ns, wait_ns = watch.last
        watch.last = marks[-1][:3]
        ids = watch.prefix_id, watch.dataset_id
        pieces: dict[tuple[int, str], _Piece] = {}
        i, n = 0, len(found)
        for t, cpu, wait, phase, section in marks:
            piece = pieces.get((phase, section))
            if piece is None:
                piece = pieces[phase, section] = _Piece()
            piece.wall_ns += max(t - clock, 0)
            piece.cpu_ns += max(cpu - cpu_ns, 0)
            piece.wait_ns += max(wait - wait_ns, 0)
            while i < n and found[i][0] <= t:
                if found[i][0] >= clock:
                    piece.take(*found[i][1:])
                i += 1
            clock, cpu_ns, wait_ns = t, cpu, wait
        for (phase, section), piece in pieces.items():
            self._divide((*ids, phase, section), piece, watch)

    def _take_collections(self, watch: Watch) -> None:
        ids = watch.prefix_id, watch.dataset_id
        while watch.collections:
            phase, section, spent_ns, stack = watch.collections.popleft()
            whole = self._count((*ids, phase, section), (CPU, "", stack), 0.0)
            self._gc[whole] = self._gc.get(whole, 0.0) + spent_ns * 1e-9

    def _divide(self, key: Kind, piece: _Piece, watch: Watch | None) -> None:
        """Assign the seconds of a piece to what was found in it; what was not found there is divided later."""
        cpu_s, wait_s, blocked_s = _seconds(piece.wall_ns, piece.cpu_ns, piece.wait_ns)
        if piece.n:
            known = self._history.get(key)
            if known is None:
                known = _Piece()
                if len(self._history) < _HISTORY_MAX:
                    self._history[key] = known
            known.remember(piece)
        if piece.running:
            self._add_running(key, piece.running, cpu_s, wait_s)
            cpu_s = wait_s = 0.0
        if piece.blocked:
            self._add_blocked(key, piece.blocked, blocked_s)
            if watch is not None:
                watch.add(key[2], piece.blocked, blocked_s)
            blocked_s = 0.0
        self._divide_later(key, (cpu_s, wait_s, blocked_s), watch)
        for where, n in piece.n.items():
            if (*key, *where) in self._totals:
                self._counts[*key, *where] = self._counts.get((*key, *where), 0) + n

    def _divide_later(self, key: Kind, passed: Times, watch: Watch | None) -> None:
        """Seconds in which nothing was found are divided as what was found in such pieces before or, for the tables of looks, will be."""
        if len(self._not_found) >= _HISTORY_MAX and key not in self._not_found:
            self._find_later(True)
        cpu_s, wait_s, blocked_s = self._not_found.get(key, _NO_TIME)
        self._not_found[key] = cpu_s + passed[0], wait_s + passed[1], blocked_s + passed[2]
        if watch is not None and passed[2] > 0:
            known = self._history.get(key)
            watch.add(key[2], (known.blocked if known else None) or _UNKNOWN, passed[2])

    def _find_later(self, last: bool) -> None:
        """Divide what was not found in a piece as what was found in others of its kind; what a thread was blocked in can wait for one."""
        not_found, self._not_found = self._not_found, {}
        for key, (cpu_s, wait_s, blocked_s) in not_found.items():
            known = self._history.get(key)
            running, blocked = (known.running, known.blocked) if known else ({}, {})
            self._add_running(key, running or {None: 1.0}, cpu_s, wait_s)
            if last or blocked:
                self._add_blocked(key, blocked or _UNKNOWN, blocked_s)
            elif blocked_s > 0:
                self._not_found[key] = 0.0, 0.0, blocked_s

    def _add_running(
        self, key: Kind, weights: Mapping[Any, float], cpu_s: float, wait_s: float
    ) -> None:
        for state, seconds in ((CPU, cpu_s), (CORE, wait_s)):
            for stack, share_s in _shares(weights, seconds):
                self._add(key, (state, "", stack), share_s)

    def _add_blocked(self, key: Kind, weights: Mapping[Where, float], seconds: float) -> None:
        for where, share_s in _shares(weights, seconds):
            self._add(key, where, share_s)

    def _add(self, key: Kind, where: Where, seconds: float) -> None:
        if seconds > 0:
            self._count(key, where, seconds)

    def _count(self, key: Kind, where: Where, seconds: float) -> tuple:
        """Add seconds to a total; returns the key of the total."""
        whole = (*key, *where)
        if whole not in self._totals and len(self._totals) >= _KEYS_MAX:
            whole = (*key, where[0], "", None)
            self.recorder.stream.limit_met("writer_stacks")
        self._totals[whole] = self._totals.get(whole, 0.0) + seconds
        self._changed[whole] = self._changed.get(whole, 0.0) + seconds
        return whole

    # ---- writing

    def flush(self, *, last: bool = False) -> None:
        """Write the totals that have changed, if it is time."""
        with self._writing:
            now = time.monotonic()
            due_s = min(max((now - self._began) / 20, _FLUSH_S[0]), _FLUSH_S[1])
            if not last and now - self._flushed < due_s:
                return
            self._flushed = now
            rows = self._take_changed(last)
            t_ns = time.time_ns()
            self.recorder.stream.rows(LOOKS, [self._row(t_ns, *row) for row in rows])

    def _take_changed(self, last: bool) -> list[tuple]:
        """Key, seconds, number of looks and seconds of garbage of the totals to be written: the largest changes, or all."""
        with self._lock:
            for prefix, piece in self._others.items():
                self._divide((self._prefix_id(prefix), UNKNOWN_ID, OTHER, ""), piece, None)
            self._others.clear()
            self._find_later(last)
            most = sorted(self._changed, key=self._changed.__getitem__, reverse=True)
            chosen = most if last else most[:_ROWS_MAX]
            for key in chosen:
                del self._changed[key]
            return [
                (key, self._totals[key], self._counts.get(key, 0), self._gc.get(key, 0.0))
                for key in chosen
            ]

    def _row(self, t_ns: int, key: tuple, seconds: float, n: int, gc_s: float) -> _records.Row:
        prefix_id, dataset_id, phase, section, state, place, stack = key
        name = self.recorder.stream.name
        return LOOKS.row(
            t_ns=t_ns,
            total_s=seconds,
            total_looks=n,
            total_gc_s=gc_s,
            worker_id=self.recorder.worker_id,
            task_prefix_id=prefix_id,
            dataset_id=dataset_id,
            section_id=name(_records.SECTION, section) if section else UNKNOWN_ID,
            place_id=name(_records.PLACE, place) if place else UNKNOWN_ID,
            stack_id=self._stack_id(stack),
            phase=phase,
            state=state,
        )

    def _prefix_id(self, prefix: str) -> int:
        return self.recorder.stream.name(_records.TASK_PREFIX, prefix)

    def _stack_id(self, stack: _stacks.Stack | None) -> int:
        """Number of a stack in the stream; its callers are written first."""
        number, stream = UNKNOWN_ID, self.recorder.stream
        for each in reversed(list(stack.outwards()) if stack is not None else []):
            known = self._stacks.get(each)
            if known is None:
                line = each.frame
                frame = stream.name(
                    _records.FRAME, line.file, line.function, line.line, line=line.line, owner=line.owner
                )  # fmt: skip
                if frame == UNKNOWN_ID:
                    return number
                known = stream.name(
                    _records.STACK, f"{number}:{frame}", "", max(number, 0), frame=frame, outermost=number < 0
                )  # fmt: skip
                if known == UNKNOWN_ID:
                    return number
                self._stacks[each] = known
            number = known
        return number

    def settle(self) -> None:
        """Divide what running chunks have done so far, so that little is kept for long."""
        for watch in list(self.watches.values()):
            found = watch.found
            if len(watch.collections) >= 200:
                with self._lock:
                    self._take_collections(watch)
            if len(found) >= 200 or len(watch.marks) >= 2000:
                with self._lock:
                    if self.watches.get(watch.thread) is watch and watch.marks:
                        self._settle_marks(watch)

    def _settle_marks(self, watch: Watch) -> None:
        """Up to the last cut: the time after it is not known from outside. The thread may cut meanwhile, so its list and phase stay its own."""
        marks = watch.marks[:]
        del watch.marks[: len(marks)]
        found, until = watch.found, marks[-1][0]
        watch.found = [look for look in found if look[0] > until]
        self._take_collections(watch)
        self._settle_pieces(watch, marks, found)


class _Sampler:
    """The thread that looks. It ends with the last stream of this process."""

    def __init__(self, interval_s: float, first: Looks) -> None:
        self.interval_s = interval_s
        self.streams = [first]
        self._stacks = first.stacks
        self._finder: Finder | None = None
        self._threads: dict[int, _kernel.Thread] = {}
        self._clock = _clock()
        self._looks = 0
        self._used = (0, 0, 0)  # CPU of the process, of this thread, of its children
        threading.Thread(target=self._run, name="crema looks", daemon=True).start()

    def _run(self) -> None:
        try:
            self._finder = Finder(self._stacks)
            self._used = self._finder.cpu_ns(0)
            self._clock = _clock()
            self._look_on()
        except Exception:
            with _lock:  # a stream that ends has the note first
                ended, self.streams = self.streams, []
                for looks in ended:
                    looks.recorder.unavailable("looks")

    def _look_on(self) -> None:
        """Look until no streams are left, or until `_FAILURES_MAX` looks in a row have failed."""
        usual_s, spent_s, began, failed = _USUAL_S, 0.0, time.monotonic(), 0
        while self.streams:
            over = spent_s / (CREDIT_S + COST_SHARE * (time.monotonic() - began))
            began_ns = time.thread_time_ns()
            time.sleep(max(self.interval_s, over * usual_s / COST_SHARE if over > 1 else 0))
            try:
                self._look()
                failed = 0
            except Exception:  # the time that passed is divided as the other looks say
                failed += 1
                for looks in list(self.streams):
                    looks.recorder.trouble("a look at threads", lost=False)
                if failed == _FAILURES_MAX:
                    raise
            for looks in list(self.streams):
                looks.recorder.guarded(looks.settle)
                looks.recorder.guarded(looks.flush)
            for looks in self.streams[:1]:
                looks.recorder.stream.spent(began_ns)
            cost_s = (time.thread_time_ns() - began_ns) * 1e-9
            spent_s += cost_s
            # A look that finds new code is dear once, and says little of the next one.
            usual_s += (min(cost_s, 2 * usual_s) - usual_s) / 8

    def _look(self) -> None:
        now = _clock()
        interval_ns, self._clock = now - self._clock, now
        self._looks += 1
        streams = list(self.streams)
        task_ns = sum(looks.ended() for looks in streams)
        tasks = [(looks, looks.tasks()) for looks in streams]
        busy = any(running or looks.watches for looks, running in tasks)
        used, self._used = self._used, self._finder.cpu_ns(0 if busy else _IDLE_S)
        if not busy:
            return
        self._finder.find_gil()
        process_ns, own_ns, child_ns = (b - a for a, b in zip(used, self._used, strict=True))
        seen = [
            self._seen(looks, watch, watch.thread, watch.native_id, "")
            for looks in streams
            for watch in list(looks.watches.values())
        ]
        chunks = {look.thread for look in seen if look is not None}
        seen += [
            self._seen(looks, None, thread, 0, prefix)
            for looks, running in tasks
            for thread, prefix in running.items()
            if thread not in chunks
        ]
        at_once = [look for look in seen if look is not None]
        if not at_once:
            return
        # What the frames hold is held until they are gone: nothing in between waits.
        others = self._finder.take_stacks(at_once, sys._current_frames())
        cpu_ns_of = by_thread(at_once)
        task_ns += sum(cpu_ns_of.values())
        helper_ns = max(process_ns - own_ns - task_ns, 0)
        self._finder.find(at_once, others, interval_ns, helper_ns)
        for look in at_once:
            where = look.state, look.place, look.stack
            watch = look.watch
            if watch is None:
                cpu_ns = look.cpu_ns if look.cpu_ns >= 0 else int(look.running * interval_ns)
                cpu_ns = min(cpu_ns, interval_ns)
                wait_ns = min(max(look.wait_ns, 0), interval_ns - cpu_ns)
                times = interval_ns, cpu_ns, wait_ns
                look.looks.take_other(look.prefix, times, look.running, where)
                continue
            watch.found.append((now, interval_ns, look.running, where))
            watch.helper_s += helper_ns * 1e-9 / len(cpu_ns_of)
            watch.child_s += child_ns * 1e-9 / len(cpu_ns_of)

    def _seen(
        self, looks: Looks, watch: Watch | None, thread: int, native_id: int, prefix: str
    ) -> Seen | None:
        """What the kernel says of a thread; None if it has just ended."""
        native_id = native_id or self._finder.native_id(thread)
        known = self._threads.get(native_id)
        try:
            if known is None:
                if len(self._threads) >= 1024:
                    self._threads.clear()
                known = self._threads[native_id] = _kernel.Thread(native_id)
            then, (cpu_before_ns, wait_before_ns), passed_ns, call = known.before
            if watch is None and then == self._looks:  # another stream has just looked at it
                return Seen(looks, None, thread, known, prefix, call, *passed_ns)
            cpu_ns, call = known.cpu_ns(), known.call()
            wait_ns = known.wait_ns() if watch is None or not call else 0
        except (OSError, IndexError, ValueError):
            self._threads.pop(native_id, None)
            self._finder.forget(thread)
            return None
        if watch is not None:
            used_ns, watch.cpu_ns = cpu_ns - watch.cpu_ns, cpu_ns
            return Seen(looks, watch, thread, known, prefix, call, used_ns, -1)
        passed_ns = (-1, -1)
        if then == self._looks - 1:
            passed_ns = cpu_ns - cpu_before_ns, wait_ns - wait_before_ns
        known.before = self._looks, (cpu_ns, wait_ns), passed_ns, call
        return Seen(looks, None, thread, known, prefix, call, *passed_ns)


_lock = threading.Lock()
_sampler: _Sampler | None = None


def start(
    recorder: Any, interval_s: float, tasks: Callable[[], Mapping[int, str]] | None = None
) -> Looks | None:
    """Look at the threads of a stream from now on, until `stop`; None where that is off or not possible, which is noted."""
    global _sampler
    if not interval_s > 0:
        return None
    why = _kernel.why_not()
    if why:
        recorder.unavailable("looks", why)
        return None
    with _lock:
        others = _sampler.streams if _sampler is not None else []
        stacks = next((each.stacks for each in others), None)
        looks = Looks(recorder, tasks, stacks or _stacks.Stacks())
        if stacks is not None:
            others.append(looks)
        else:  # also if there is a sampler: one that failed has no stream
            _sampler = _Sampler(interval_s, looks)
    garbage.on_long.append(looks.collected)
    return looks


def stop(looks: Looks | None) -> None:
    """Write the last totals of a stream; with the last stream the sampler goes, and with it what it has opened."""
    global _sampler
    if looks is None:
        return
    with _lock:
        if _sampler is not None and looks in _sampler.streams:
            _sampler.streams.remove(looks)
        if _sampler is not None and not _sampler.streams:
            _sampler = None
    if looks.collected in garbage.on_long:
        garbage.on_long.remove(looks.collected)
    looks.flush(last=True)


def _after_fork_in_child() -> None:
    global _lock, _sampler
    _lock, _sampler = threading.Lock(), None


in_each_child(_after_fork_in_child)
