"""The plugin that Dask installs on every worker: turns the worker's state into records in its spool.

Everything here runs on the worker's event loop in short callbacks; nothing waits and nothing
raises. Totals are cumulative (``digests_total``), never the deltas of heartbeats, so a lost record
costs only its time stamp.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import weakref
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any

from distributed import WorkerPlugin

from . import _columns, _process, _recorder, _records, _travel, _writers
from ._agent import AgentKeeper, key_event, key_topic, lock_is_held
from ._config import HookConfig
from ._digests import CHUNK, FOREIGN, REST, ActivityTotals, ForeignBusy
from ._records import MEMBERSHIP, TASK_EVENTS, WORKER_SAMPLES
from ._way import Way, over

logger = logging.getLogger("crema")

_STAYS = frozenset({"running", "paused"})  # Dask's states of a worker that is not leaving
_RUNNING = frozenset(("executing", "long-running", "cancelled", "resumed"))
_DONE = frozenset(("memory", "error", "erred", "released", "forgotten"))
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
_TASK_STATUS = {n: TASK_EVENTS.label("status", n) for n in ("ok", "error", "cancelled", "lost")}
_STATUS = {n: WORKER_SAMPLES.label("status", n) for n in ("running", "paused", "closing", "lost")}
_SOURCE = WORKER_SAMPLES.label("source", "worker")
CHUNK_MISSED = "crema-chunk-missed"  # event: a processor's task ended without a chunk
_NOT_FOR_TASKS = frozenset({"offload", "actor"})  # Dask's executors
_DELIVERY_S = 2.0  # time to deliver the last records of a worker that leaves
_DELIVERY_LOOK_S = 0.02
_EVENTS_S = 0.05  # minimum between two records of task events
_ARRIVALS_MAX = _columns.LIMITS["writer_arrivals"]  # of tasks waiting on one worker

# By run and worker, for Dask versions that do not expose a worker's plugins.
_hooks: weakref.WeakValueDictionary[tuple[str, int], WorkerHook] = weakref.WeakValueDictionary()


class WorkerHook(WorkerPlugin):
    """Records everything a worker knows about a run; ``client.register_plugin(WorkerHook(config))``.

    Parameters
    ----------
    config : HookConfig
        The run.
    """

    def __init__(self, config: HookConfig) -> None:
        self.config = config
        self.name = f"crema-{config.run_id}"
        self._follower: _Follower | None = None
        self._way: Way | None = (
            None  # over Dask; outlives the recording, whose end must be delivered
        )
        self._agent: AgentKeeper | None = None  # until everything is delivered
        self._writers: list[_writers.Writer] = []  # known after the end

    def __reduce__(self) -> tuple:
        substitute = WorkerPlugin()
        substitute.name = self.name
        return _travel.reduced("worker", self.config, substitute)

    def setup(self, worker: Any) -> None:
        """Open the worker's stream and start recording."""
        try:
            self._follower = _Follower(self.config, worker)
        except Exception as error:
            logger.warning("crema: this worker is not recorded", exc_info=True)
            text = f"{type(error).__name__}: {error}"
            name, uuid = getattr(worker, "address", ""), getattr(worker, "id", "")
            self._writers = [_writers.Writer(name, state=_writers.SILENT, uuid=uuid, text=text)]
            return
        _hooks[self.config.run_id, id(worker)] = self
        if self.config.serves():
            try:
                self._way = Way(over(worker, self.config.run_id), self.config.spool_dir())
            except Exception:
                logger.warning("crema: no records travel over Dask from here", exc_info=True)
        self._report([self._follower.writer()], worker)

    def teardown(self, worker: Any) -> Awaitable[None] | None:
        """Write the last totals and the end of the stream; they are on disk when this returns.

        A leaving worker awaits the result: until its records are durable elsewhere, two seconds at most.
        """
        if self._follower is None:
            self._close_way()
            if self._writers:  # already reported
                with contextlib.suppress(OSError):  # nothing could be written there
                    _writers.register_path(self.config.spool_dir(), self.config.run_id).unlink()
            return None
        stays = self._follower.stays()
        self._report(self.finish(), worker)
        if stays:  # only the plugin goes, so the run is over
            self._close_way(over=True)
            return None
        return self._see_delivered([writer.stream.hex() for writer in self._writers])

    async def _see_delivered(self, streams: list[str]) -> None:
        """Wait for the agent; a stream leaves the spool when all of it is durable in the sink."""
        directory, until = self.config.spool_dir(), time.monotonic() + _DELIVERY_S
        try:
            while time.monotonic() < until and lock_is_held(directory / "agent.lock"):
                if not any(any(directory.glob(f"sp-{stream}-*")) for stream in streams):
                    break
                await asyncio.sleep(_DELIVERY_LOOK_S)
        except Exception:
            logger.debug("crema: whether the last records left is not known", exc_info=True)
        finally:
            self._close_way()

    def _close_way(self, *, over: bool = False) -> None:
        way, self._way = self._way, None
        if way is not None:
            way.close()
        agent, self._agent = self._agent, None
        if agent is not None:
            agent.stop(over=over)

    def finish(self) -> list[_writers.Writer]:
        """End the recording; returns the writers of this worker and those outside Dask on its host."""
        follower, self._follower = self._follower, None
        if follower is not None:
            self._agent = follower.agent
            follower.close()
            self._writers = [follower.writer()]
        others = _writers.registered(self.config.spool_dir(), self.config.run_id)
        return self._writers + others

    def _report(self, writers: list[_writers.Writer], worker: Any) -> None:
        """Report the writers to the scheduler's plugin, in case this worker has left when the run ends."""
        try:
            worker.log_event(self.name, _writers.event(writers))
        except Exception:
            logger.debug("crema: the scheduler was not told of a stream", exc_info=True)

    def transition(self, key: Hashable, start: str, finish: str, **kwargs: Any) -> None:
        """Follow the transition of a task."""
        if self._follower is not None:
            self._follower.transition(key, start, finish)

    def status(self) -> dict[str, Any]:
        """State of this worker's recording, for queries over Dask."""
        return {} if self._follower is None else self._follower.status()


def is_foreign(config: HookConfig, annotations: Any) -> bool:
    """Whether a task with these annotations belongs to another run or client; a task without a mark counts as our own."""
    if not annotations:
        return False
    run_id = annotations.get(_records.MARK_RUN)
    if run_id is not None:
        return run_id != config.run_id
    mark = annotations.get(_records.MARK_SUBMISSION)
    return bool(mark and config.client) and mark[0] != config.client and not is_of_task(mark[0])


def mark_earlier(tasks: Iterable[Any]) -> None:
    """Mark unmarked Dask tasks that are still to run when a recording begins: they do not belong to any run."""
    for task in tasks:
        if task.state not in _DONE and _is_unmarked(task.annotations):
            task.annotations = {**(task.annotations or {}), _records.MARK_RUN: ""}


def _is_unmarked(annotations: Any) -> bool:
    return not annotations or (
        _records.MARK_RUN not in annotations and _records.MARK_SUBMISSION not in annotations
    )


def is_of_task(client: str) -> bool:
    """Whether a task created this client: what it submits belongs to the submitter of the task."""
    return client.startswith("Client-worker-")


def finish(run_id: str, dask_worker: Any) -> list[_writers.Writer]:
    """End a run's recording on a worker and return its writers: ``client.run(crema.worker.finish, run_id)``."""
    hook = _find(run_id, dask_worker)
    if hook is not None:
        return hook.finish()
    text = "crema's plugin is not on this worker"
    name, uuid = getattr(dask_worker, "address", ""), getattr(dask_worker, "id", "")
    return [_writers.Writer(name, state=_writers.SILENT, uuid=uuid, text=text)]


def status(run_id: str, dask_worker: Any) -> dict[str, Any]:
    """State of a run's recording on a worker: ``client.run(crema.worker.status, run_id)``.

    Returns
    -------
    dict
        Empty where the plugin is not active; else ``stream_id``, ``uuid``, ``spool``, ``records``,
        ``dropped``, ``agent`` (``"held"``: one serves the spool; ``"none"``; ``"operator"``:
        started by an operator) and ``problem`` (text, empty if there is none).
    """
    hook = _find(run_id, dask_worker)
    return {} if hook is None else hook.status()


def _find(run_id: str, dask_worker: Any) -> WorkerHook | None:
    run_id = HookConfig(run_id).run_id
    plugins = getattr(dask_worker, "plugins", None)
    if isinstance(plugins, dict):
        hook = plugins.get(f"crema-{run_id}")
        return hook if isinstance(hook, WorkerHook) else None
    return _hooks.get((run_id, id(dask_worker)))


class _Follower:
    """A worker's recording during the run."""

    def __init__(self, config: HookConfig, worker: Any) -> None:
        self._worker = worker
        self._topic = f"crema-{config.run_id}"
        self._interval_s = config.sample_interval_s
        self._memory_limit_b, nthreads = _or_else(lambda: _limit_b(worker), -1), _nthreads(worker)
        self._owner = _recorder.owner_of(worker)
        self._recorder = _recorder.Recorder(
            config,
            kind=_records.KIND_WORKER,
            uuid=getattr(worker, "id", "") or "",
            name=getattr(worker, "address", "") or self._owner,
            nthreads=nthreads or 0,
            memory_limit_b=self._memory_limit_b,
        )
        stream, self._worker_id = self._recorder.stream, self._recorder.worker_id
        self._read = self._recorder.read
        self._read("worker_samples.memory_limit_b", lambda: _limit_b(worker), -1)
        totals = self._read("activities", lambda: _mapping(worker.digests_total), {})
        self._totals = ActivityTotals(totals, stream, self._worker_id)
        rows = self._totals.baseline()
        rows += self._totals.busy(self._elapsed(), {}, baseline=1)
        stream.rows(_records.ACTIVITIES, rows)
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
        self._foreign: dict[Hashable, str] = {}  # prefixes of running tasks of other runs
        self._foreign_busy = ForeignBusy()
        self._expected = set(config.processor_prefixes)  # of chunks; empty once one was missed
        for key, task in running:
            self._note_owner(key, task, began_before=True)
            self._note_thread(key)
        self._arrived: dict[Hashable, tuple[int, int]] = {}  # time; earlier startstops
        self._ready: dict[Hashable, int] = {}
        self._events: list[_records.Row] = []
        self._events_after = 0.0
        self._events_timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._cpu = (time.monotonic(), time.process_time())
        self._waits = _process.ThreadWaits()
        self._gil = math.nan  # at the last sample
        self._looking: asyncio.Future | None = None
        self.agent = None
        if config.serves():
            self.agent = AgentKeeper(config, self._recorder.directory, self._announce_key)
        _recorder.register(self._recorder, self._owner)
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()
        self._timer = self._loop.call_soon(self._tick)
        if self.agent is not None:
            self.agent.watch(self._loop)

    def close(self) -> None:
        self._timer.cancel()
        if self._events_timer is not None:
            self._events_timer.cancel()
        if self.agent is not None:
            self.agent.writers_end()
        _recorder.forget(self._recorder.config.run_id, self._owner)
        for write in (self._write_gathered, self._write_totals, self._write_sample):
            self._guarded(write)
        # A worker that stays outlives the run: tasks still running on it were abandoned, not lost.
        self._recorder.close("cancelled" if self.stays() else "lost")

    def stays(self) -> bool:
        """Whether the worker is not leaving."""
        return _or_else(lambda: self._worker.status.name in _STAYS, True)

    def _announce_key(self, key: str) -> None:
        with contextlib.suppress(Exception):  # the worker is closing; another one announces it
            self._worker.log_event(key_topic(self._recorder.config.run_id), key_event(key))

    def writer(self) -> _writers.Writer:
        return self._recorder.writer()

    def status(self) -> dict[str, Any]:
        stream, agent = self._recorder.stream, self.agent
        held = agent is not None and agent.is_held()
        return {
            "stream_id": stream.stream_id.hex(),
            "uuid": self._recorder.uuid,
            "spool": str(self._recorder.directory),
            "records": stream.seq,
            "dropped": stream.dropped,
            "agent": "operator" if agent is None else "held" if held else "none",
            "problem": "" if agent is None else agent.problem,
        }

    def _guarded(self, write: Any, *args: Any) -> None:
        """Run a part of the recording; errors are noted and not raised."""
        try:
            write(*args)
        except Exception:
            self._recorder.trouble(write.__name__.strip("_").replace("_", " "))

    # ---------------------------------------------------------------- every interval

    def _tick(self) -> None:
        began_ns = time.thread_time_ns()
        now = self._loop.time()
        lag_s = max(now - self._due, 0.0)
        self._due += self._interval_s
        if self._due <= now:
            self._due = now + self._interval_s
        self._timer = self._loop.call_at(self._due, self._tick)
        self._guarded(self._write_totals)
        self._guarded(self._write_sample, lag_s)
        self._recorder.stream.spent(began_ns)

    def _write_totals(self) -> None:
        rows = self._totals.changes()
        rows += self._totals.busy(self._elapsed(), self._foreign_busy.seconds())
        self._recorder.stream.rows(_records.ACTIVITIES, rows)

    def _elapsed(self) -> dict[tuple[str, str], float]:
        """Thread-seconds by prefix and state; empty if Dask does not count them."""
        return self._read(
            "activities.busy",
            lambda: _mapping(self._worker.state.task_counter.cumulative_elapsed()),
            {},
        )

    def _delay_s(self) -> float:
        """How far the scheduler's clock is ahead according to Dask; 0 if unknown."""
        return self._read(
            "task_events.t_start_ns", lambda: float(self._worker.scheduler_delay), 0.0
        )

    def _write_sample(self, lag_s: float = math.nan) -> None:
        worker, stream = self._worker, self._recorder.stream
        stream.rows(_records.HEARTBEATS, [self._recorder.heartbeat_row(self._interval_s)])
        status = self._read("worker_samples.status", lambda: str(worker.status.name), "running")
        self._write_pause(status == "paused")
        if not self._recorder.config.track_workers:
            return
        then, cpu_then = self._cpu
        self._cpu = now, cpu = time.monotonic(), time.process_time()
        net_read_b, net_write_b = _process.net_io_b()
        disk_read_b, disk_write_b = _process.disk_io_b()
        unknown = _records.UNKNOWN_U16

        def sampled(column: str, read: Callable[[Any], Any], otherwise: Any) -> Any:
            return self._read(f"worker_samples.{column}", lambda: read(worker), otherwise)

        row = WORKER_SAMPLES.row(
            t_ns=time.time_ns(),
            cpu_pct=100 * (cpu - cpu_then) / (now - then) if now > then else math.nan,
            rss_b=_process.rss_b(),
            memory_limit_b=self._memory_limit_b,
            managed_b=sampled("managed_b", lambda w: int(w.state.nbytes), -1),
            spilled_b=sampled("spilled_b", _spilled_b, -1),
            net_read_b=net_read_b,
            net_write_b=net_write_b,
            disk_read_b=disk_read_b,
            disk_write_b=disk_write_b,
            event_loop_lag_s=lag_s,
            gil_contention=sampled("gil_contention", self._gil_contention, math.nan),
            worker_id=self._worker_id,
            nthreads=sampled("nthreads", lambda w: _u16(w.state.nthreads), unknown),
            executing=sampled("executing", _n_executing, unknown),
            ready=sampled("ready", _n_ready, unknown),
            status=_dask_status(status),
            source=_SOURCE,
            cpu_wait_s=sampled("cpu_wait_s", self._cpu_wait_s, math.nan),
        )
        stream.rows(WORKER_SAMPLES, [row])

    def _gil_contention(self, worker: Any) -> float:
        """Share of time that the GIL is held: Dask's own measurement if there is one (gilknocker), else the last sample.

        A sample sleeps for a millisecond, so it is taken in a thread.
        """
        values = worker.monitor.quantities.get("gil_contention")
        if values:
            return float(values[-1])
        if self._looking is not None and self._looking.done():
            self._gil = self._looking.result()
            self._looking = None
        if self._looking is None and self._recorder.stream.alive:
            self._looking = self._loop.run_in_executor(None, _process.gil_held)
        return self._gil

    def _cpu_wait_s(self, worker: Any) -> float:
        """CPU wait of the threads that run tasks only: Dask's other threads wake up a hundred times per second, and their waiting delays no task."""
        return self._waits.seconds(
            thread.native_id
            for name, executor in worker.executors.items()
            if name not in _NOT_FOR_TASKS
            for thread in list(executor._threads)  # one of processes has none: not known
        )

    def _write_pause(self, paused: bool) -> None:
        if paused == self._paused:
            return
        self._paused = paused
        row = MEMBERSHIP.row(
            t_ns=time.time_ns(),
            memory_limit_b=self._memory_limit_b,
            worker_id=self._worker_id,
            nthreads=_or_else(lambda: _u16(self._worker.state.nthreads), _records.UNKNOWN_U16),
            event=MEMBERSHIP.label("event", "pause" if paused else "resume"),
            evidence=MEMBERSHIP.label("evidence", "explicit"),
            t_uncertainty_ns=int(self._interval_s * 1e9),
        )
        self._recorder.stream.rows(MEMBERSHIP, [row])

    # ---------------------------------------------------------------- every task

    def transition(self, key: Hashable, start: str, finish: str) -> None:
        began_ns = time.thread_time_ns()
        try:
            if start in _RUNNING and key in self._executing:
                task, state = self._task(key), finish
                if task is not None:
                    state = self._read("task_events.status", lambda: _text(task.state), finish)
                if task is None or state not in _RUNNING:
                    self._task_ended(key, task, state, self._executing.pop(key))
                elif state == "cancelled":
                    self._note_thread(key)
            elif finish == "executing":
                self._executing[key] = self._delay_s()
                self._note_owner(key, self._task(key))
            elif finish == "ready" or finish == "constrained":
                if key in self._arrived or len(self._ready) < _ARRIVALS_MAX:
                    self._ready[key] = time.time_ns()
            elif finish == "waiting":
                if key in self._arrived or len(self._arrived) < _ARRIVALS_MAX:
                    task = self._task(key)
                    earlier = _or_else(lambda: len(task.startstops), 0) if task else 0
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
            return _key_split(key)
        prefix = self._read("task_events.task_prefix_id", lambda: _text(task.prefix), None)
        return _key_split(key) if prefix is None else prefix

    def _annotations(self, task: Any) -> Mapping[str, Any]:
        return self._read("task_events.side", lambda: _mapping(task.annotations or {}), {})

    def _note_owner(self, key: Hashable, task: Any, began_before: bool = False) -> None:
        """Tasks that ran here before the recording began were submitted before the run: they are foreign, marked or not."""
        if task is None:
            return
        if began_before or is_foreign(self._recorder.config, self._annotations(task)):
            prefix = self._foreign[key] = self._prefix(key, task)
            self._foreign_busy.change(prefix, 1)

    def _note_thread(self, key: Hashable) -> None:
        """Note the thread of a cancelled task that still runs: when it ends, Dask forgets the thread before it calls us."""

        def read() -> None:
            with self._worker.active_threads_lock:
                for thread, running in self._worker.active_threads.items():
                    if running == key:
                        self._threads[key] = thread

        self._read("task_events.thread", read, None)

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
        if foreign is not None:
            self._foreign_busy.change(foreign, -1)
            if not is_chunk:
                self._totals.task_ends(prefix, FOREIGN)
                if task is not None:
                    self._write_events(
                        key, task, prefix, outcome, _records.SIDE_FOREIGN, delay_s, thread
                    )
                return
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
            _or_else(lambda: self._worker.log_event(self._topic, missed(prefix)), None)
        if is_chunk:
            attempts.keys.discard(key)
            # A chunk still open at the end of its task has failed, though Dask may count the task
            # as a success (skipbadfiles).
            attempts.task_ended(key, "cancelled" if outcome == "cancelled" else "error")
        if task is not None:
            side = _records.SIDE_PROCESSOR if is_chunk else _records.SIDE_UNATTRIBUTED
            self._write_events(key, task, prefix, outcome, side, delay_s, thread)

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
            rows.append(
                TASK_EVENTS.row(
                    t_start_ns=int((event["start"] - delay_s) * 1e9),
                    t_stop_ns=int((event["stop"] - delay_s) * 1e9),
                    nbytes=self._read("task_events.nbytes", lambda: _nbytes(task), -1)
                    if compute and outcome == "ok"
                    else -1,
                    thread=self._recorder.slot(thread)
                    if compute and thread is not None
                    else _records.UNKNOWN_U16,
                    action=action,
                    status=_TASK_STATUS[outcome if compute else "ok"],
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
                self._events_after, self._guarded, self._write_gathered
            )

    def _write_gathered(self) -> None:
        rows, self._events, self._events_timer = self._events, [], None
        self._recorder.stream.rows(TASK_EVENTS, rows)


def _key_split(key: Hashable) -> str:
    from dask.utils import key_split

    return key_split(key)


def missed(prefix: str) -> dict[str, str]:
    """Message of the event that a processor's task ended without a chunk."""
    return {"action": CHUNK_MISSED, "prefix": prefix}


def _or_else(read: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return read()
    except Exception:
        return otherwise


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} where Dask had a text")
    return value


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError(f"a {type(value).__name__} where Dask had a mapping")
    return value


def _limit_b(worker: Any) -> int:
    """Memory limit; -1 for none."""
    limit = worker.memory_manager.memory_limit
    return -1 if limit is None else int(limit)


def _nthreads(worker: Any) -> int:
    """Task slots; 0 if unknown."""
    return _or_else(lambda: int(worker.state.nthreads), 0)


def _n_executing(worker: Any) -> int:
    return _u16(len(worker.state.executing) + len(worker.state.long_running))


def _n_ready(worker: Any) -> int:
    return _u16(len(worker.state.ready) + len(worker.state.constrained))


def _nbytes(task: Any) -> int:
    """Size of a result; -1 if unknown."""
    return -1 if task.nbytes is None else int(task.nbytes)


def _u16(value: int) -> int:
    return min(int(value), _records.UNKNOWN_U16 - 1)


def _dask_status(name: str) -> int:
    """Our number for Dask's status."""
    if name.startswith("closing"):
        return _STATUS["closing"]
    return _STATUS.get(name, _STATUS["running" if name == "init" else "lost"])


def _spilled_b(worker: Any) -> int:
    """Bytes currently on disk; 0 if spilling is off."""
    try:
        return int(worker.data.spilled_total.disk)
    except AttributeError:
        if isinstance(worker.data, dict):  # without spilling
            return 0
        raise
