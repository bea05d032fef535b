"""The tasks of a worker: rows of their computing and transfers, the end of their chunks, and whose seconds they took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Mapping
from typing import Any

from . import _columns, _records
from ._dask import key_split, mapping, or_else, text
from ._digests import CHUNK, FOREIGN, REST, ActivityTotals, ForeignBusy
from ._marks import is_foreign, mark_earlier
from ._recorder import Recorder
from ._records import TASK_EVENTS

_RUNNING = frozenset(("executing", "long-running", "cancelled", "resumed"))
_ACTION = {
    dask: TASK_EVENTS.label("action", ours)
    for dask, ours in {
        "compute": "compute",
        "transfer": "transfer",
        "disk-read": "disk_read",
        "disk-write": "disk_write",
        "deserialize": "deserialize",
    }.items()
}
_STATUS = {n: TASK_EVENTS.label("status", n) for n in ("ok", "error", "cancelled", "lost")}
CHUNK_MISSED = "crema-chunk-missed"  # event: a processor's task ended without a chunk
_EVENTS_S = 0.05  # minimum between two records of task events
_ARRIVALS_MAX = _columns.LIMITS["writer_arrivals"]  # of tasks waiting on one worker


class Tasks:
    """Follows the transitions of a worker's tasks from now on.

    Parameters
    ----------
    worker : distributed.Worker
        The worker.
    recorder : Recorder
        Its stream.
    totals : ActivityTotals
        Told which task the next seconds belong to.
    resumes : bool
        Whether this worker was recorded before in this run: then tasks from before the run have been marked already.
    """

    def __init__(
        self, worker: Any, recorder: Recorder, totals: ActivityTotals, resumes: bool
    ) -> None:
        self._worker = worker
        self._recorder = recorder
        self._worker_id = recorder.worker_id
        self._totals = totals
        self._read = recorder.read
        self._loop = asyncio.get_running_loop()
        if not resumes:
            self._read("task_events.side", lambda: mark_earlier(worker.state.tasks.values()), None)
        running = self._read(
            "task_events.side",
            lambda: [(t.key, t) for t in [*worker.state.executing, *worker.state.long_running]],
            [],
        )
        # Includes the delay that Dask adds to a task's times: it is fixed at the task's start, and
        # each heartbeat brings a new one.
        self._executing: dict[Hashable, float] = dict.fromkeys(dict(running), self._delay_s())
        self._threads: dict[Hashable, int] = {}  # of cancelled tasks that still run
        self._left_slot_ns: dict[Hashable, int] = {}  # since when a task runs without a slot
        self.seceded: dict[str, float] = {}  # seconds of such tasks after that, by prefix
        self._foreign: dict[Hashable, str] = {}  # prefixes of running tasks of other runs
        self.foreign_busy = ForeignBusy()
        # Prefixes of chunks; empty once one was missed.
        self._expected = set(recorder.config.processor_prefixes)
        for key, task in running:
            self._note_owner(key, task, began_before=not resumes)
            self._note_thread(key)
        self._arrived: dict[Hashable, tuple[int, int]] = {}  # time; earlier startstops
        self._ready: dict[Hashable, int] = {}
        self._events: list[_records.Row] = []
        self._events_after = 0.0
        self._events_timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Write what was gathered."""
        if self._events_timer is not None:
            self._events_timer.cancel()
        self._recorder.guarded(self._write_gathered)

    def _delay_s(self) -> float:
        """How far the scheduler's clock is ahead according to Dask; 0 if unknown."""
        return self._read(
            "task_events.t_start_ns", lambda: float(self._worker.scheduler_delay), 0.0
        )

    def transition(self, key: Hashable, start: str, finish: str) -> None:
        """A task went from one of Dask's states to another."""
        began_ns = time.thread_time_ns()
        try:
            if start in _RUNNING and key in self._executing:
                task, state = self._task(key), finish
                if task is not None:
                    state = self._read("task_events.status", lambda: text(task.state), finish)
                if task is None or state not in _RUNNING:
                    self._task_ended(key, task, state, self._executing.pop(key))
                elif state == "cancelled":
                    self._note_thread(key)
                elif finish == "long-running":
                    self._leave_slot(key)
            elif finish == "executing":
                self._executing[key] = self._delay_s()
                self._note_owner(key, self._task(key))
            elif finish == "ready" or finish == "constrained":
                if key in self._arrived or len(self._ready) < _ARRIVALS_MAX:
                    self._ready[key] = time.time_ns()
            elif finish == "waiting":
                if key in self._arrived or len(self._arrived) < _ARRIVALS_MAX:
                    task = self._task(key)
                    earlier = or_else(lambda: len(task.startstops), 0) if task else 0
                    self._arrived[key] = time.time_ns(), earlier
                else:
                    self._recorder.stream.limit_met("writer_arrivals")
            elif finish == "forgotten" or finish == "released":
                self._arrived.pop(key, None)
                self._ready.pop(key, None)
        except Exception:
            self._recorder.trouble("following a task")
        self._recorder.stream.spent(began_ns)

    def _task(self, key: Hashable) -> Any:
        """Dask's task of that key; None if it is unknown."""
        return self._read("task_events", lambda: self._worker.state.tasks.get(key), None)

    def _prefix(self, key: Hashable, task: Any) -> str:
        if task is None:
            return key_split(key)
        prefix = self._read("task_events.task_prefix_id", lambda: text(task.prefix), None)
        return key_split(key) if prefix is None else prefix

    def _annotations(self, task: Any) -> Mapping[str, Any]:
        return self._read("task_events.side", lambda: mapping(task.annotations or {}), {})

    def _note_owner(self, key: Hashable, task: Any, began_before: bool = False) -> None:
        """Tasks that ran here before the recording began were submitted before the run: they are foreign, marked or not.

        Dask announces some that were running when the recording resumed.
        """
        if task is None or key in self._foreign:
            return
        if began_before or is_foreign(self._recorder.config, self._annotations(task)):
            prefix = self._foreign[key] = self._prefix(key, task)
            self.foreign_busy.change(prefix, 1)

    def _note_thread(self, key: Hashable) -> None:
        """Note the thread of a cancelled task that still runs: when it ends, Dask forgets the thread before it calls us."""

        def read() -> None:
            with self._worker.active_threads_lock:
                for thread, running in self._worker.active_threads.items():
                    if running == key:
                        self._threads[key] = thread

        self._read("task_events.thread", read, None)

    def by_thread(self) -> dict[int, str]:
        """Prefix of the task of this run that each thread is running."""
        threads = self._read("looks", lambda: dict(self._worker.active_threads), {})
        return {
            thread: self._prefix(key, self._task(key))
            for thread, key in threads.items()
            if key not in self._foreign
        }

    def _leave_slot(self, key: Hashable) -> None:
        """A task runs on without its slot (``secede``, ``worker_client``), which another one gets; a chunk counts as a whole."""
        if key in self._recorder.attempts.keys or key in self._left_slot_ns:
            return
        self._left_slot_ns[key] = time.time_ns()
        if key in self._foreign:
            self.foreign_busy.change(self._foreign[key], -1)

    def _task_ended(self, key: Hashable, task: Any, state: str, delay_s: float) -> None:
        """A task left execution: write its rows, close its chunk, and assign its seconds, which Dask posts right after this."""
        attempts = self._recorder.attempts
        thread = self._threads.pop(key, None)
        thread = self._read(
            "task_events.thread", lambda: self._worker.threads.get(key, thread), thread
        )
        prefix = self._prefix(key, task)
        outcome = {"memory": "ok", "error": "error"}.get(state, "cancelled")
        is_chunk = key in attempts.keys
        foreign = self._foreign.pop(key, None)
        left_ns = self._left_slot_ns.pop(key, 0)
        if foreign is not None:
            if not left_ns:
                self.foreign_busy.change(foreign, -1)
            if not is_chunk:
                self._totals.task_ends(prefix, FOREIGN)
                if task is not None:
                    self._write_events(
                        key, task, prefix, outcome, _records.SIDE_FOREIGN, delay_s, thread, left_ns
                    )
                return
        if left_ns and outcome == "ok":
            seconds = max(time.time_ns() - left_ns, 0) * 1e-9
            self.seceded[prefix] = self.seceded.get(prefix, 0.0) + seconds
        if task is not None:
            self._read("activities.span_id", lambda: self._name_span(task), None)
        self._totals.task_ends(prefix, CHUNK if is_chunk else REST)
        if (
            not is_chunk
            and prefix in self._expected
            and outcome == "ok"
            and not attempts.without_key
        ):
            self._expected.clear()
            topic = f"crema-{self._recorder.config.run_id}"
            or_else(lambda: self._worker.log_event(topic, missed(prefix)), None)
        if is_chunk:
            attempts.keys.discard(key)
            # A chunk still open at the end of its task has failed, though Dask may count the task
            # as a success (skipbadfiles).
            attempts.task_ended(key, "cancelled" if outcome == "cancelled" else "error")
        if task is not None:
            side = _records.SIDE_PROCESSOR if is_chunk else _records.SIDE_UNATTRIBUTED
            self._write_events(key, task, prefix, outcome, side, delay_s, thread, left_ns)

    def _name_span(self, task: Any) -> None:
        if task.span_id:
            names = self._annotations(task).get("span", {}).get("name")
            self._totals.name_span(task.span_id, names)

    def _write_events(
        self,
        key: Hashable,
        task: Any,
        prefix: str,
        outcome: str,
        side: int,
        compute_delay_s: float,
        thread: int | None,
        left_slot_ns: int,
    ) -> None:
        delays_s = {"compute": compute_delay_s, "transfer": self._delay_s()}
        t_submit_ns, earlier = self._arrived.pop(key, (0, 0))
        shared = {
            "t_submit_ns": t_submit_ns,
            "t_ready_ns": self._ready.pop(key, 0),
            "task_key": _records.hash64(key),
            "worker_id": self._worker_id,
            "task_prefix_id": self._recorder.stream.name(_records.TASK_PREFIX, prefix),
            "side": side,
        }
        rows = []
        startstops = self._read("task_events", lambda: list(task.startstops)[earlier:], [])
        for event in startstops:
            action = _ACTION.get(event["action"])
            if action is None or (side == _records.SIDE_FOREIGN and event["action"] != "compute"):
                continue  # for tasks of other runs only the slots are recorded
            compute = event["action"] == "compute"
            # Dask reports computing and transfers on the scheduler's clock.
            delay_s = delays_s.get(event["action"], 0.0)
            t_start_ns = int((event["start"] - delay_s) * 1e9)
            t_stop_ns = int((event["stop"] - delay_s) * 1e9)
            if compute and left_slot_ns:
                t_stop_ns = max(min(t_stop_ns, left_slot_ns), t_start_ns)
            rows.append(
                TASK_EVENTS.row(
                    t_start_ns=t_start_ns,
                    t_stop_ns=t_stop_ns,
                    nbytes=self._read("task_events.nbytes", lambda: _nbytes(task), -1)
                    if compute and outcome == "ok"
                    else -1,
                    thread=self._recorder.slot(thread)
                    if compute and thread is not None
                    else _records.UNKNOWN_U16,
                    action=action,
                    status=_STATUS[outcome if compute else "ok"],
                    **shared,
                )
            )
        self._gather_events(rows)

    def _gather_events(self, rows: list[_records.Row]) -> None:
        """Write soon, but at most every few milliseconds: thousands of short tasks share a record."""
        self._events += rows
        now = self._loop.time()
        if now >= self._events_after:
            self._events_after = now + _EVENTS_S
            self._write_gathered()
        elif self._events_timer is None:
            self._events_timer = self._loop.call_at(
                self._events_after, self._recorder.guarded, self._write_gathered
            )

    def _write_gathered(self) -> None:
        rows, self._events, self._events_timer = self._events, [], None
        self._recorder.stream.rows(TASK_EVENTS, rows)


def missed(prefix: str) -> dict[str, str]:
    """Message of the event that a processor's task ended without a chunk."""
    return {"action": CHUNK_MISSED, "prefix": prefix}


def _nbytes(task: Any) -> int:
    """Size of a result; -1 if unknown."""
    return -1 if task.nbytes is None else int(task.nbytes)
