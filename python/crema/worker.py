"""The plugin that Dask carries to every worker: what the worker knows becomes records in its spool.

Everything here runs on the worker's event loop, in short callbacks; nothing waits and nothing raises. Totals are cumulative
(``digests_total``), never the deltas of heartbeats, so a record that is lost costs only its time stamp.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Hashable
from typing import Any

from distributed import WorkerPlugin

from . import _process, _recorder, _records
from ._agent import AgentKeeper
from ._config import HookConfig
from ._digests import ActivityTotals
from ._records import MEMBERSHIP, TASK_EVENTS, WORKER_SAMPLES

logger = logging.getLogger("crema")

_STAYS = frozenset({"running", "paused"})  # Dask's states of a worker that is not on its way out
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
_TASK_STATUS = {n: TASK_EVENTS.label("status", n) for n in ("ok", "error", "cancelled", "lost")}
_STATUS = {n: WORKER_SAMPLES.label("status", n) for n in ("running", "paused", "closing", "lost")}
_SOURCE = WORKER_SAMPLES.label("source", "worker")
_EVENTS_S = 0.05  # between two records of task events, at least
_ARRIVALS_MAX = 100_000  # tasks that wait on one worker, whose arrival is remembered


class WorkerHook(WorkerPlugin):
    """Records everything a worker knows of a run; ``client.register_plugin(WorkerHook(config))``.

    Parameters
    ----------
    config : HookConfig
        The run.
    """

    def __init__(self, config: HookConfig) -> None:
        self.config = config
        self.name = f"crema-{config.run_id}"
        self._follower: _Follower | None = None

    def __reduce__(self) -> tuple:
        return WorkerHook, (self.config,)

    def setup(self, worker: Any) -> None:
        """Open the worker's stream and begin to follow it."""
        try:
            self._follower = _Follower(self.config, worker)
        except Exception:
            logger.warning("crema: this worker is not recorded", exc_info=True)

    def teardown(self, worker: Any) -> None:
        """Write the last totals and the end of the stream; they are on disk when this returns."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()

    def transition(self, key: Hashable, start: str, finish: str, **kwargs: Any) -> None:
        """Follow a task."""
        if self._follower is not None:
            self._follower.transition(key, start, finish)

    def status(self) -> dict[str, Any]:
        """What this worker's recording is doing, for whoever asks over Dask."""
        return {} if self._follower is None else self._follower.status()


def status(run_id: str, dask_worker: Any) -> dict[str, Any]:
    """State of a run's recording on a worker: ``client.run(crema.worker.status, run_id)``.

    Returns
    -------
    dict
        Empty where the plugin is not at work; else ``stream_id``, ``spool``, ``records``, ``dropped``, ``agent`` (``"held"``:
        one serves the spool, ``"none"``, ``"operator"``: not ours to start) and ``problem`` (text, empty if there is none).
    """
    hook = dask_worker.plugins.get(f"crema-{HookConfig(run_id).run_id}")
    return hook.status() if isinstance(hook, WorkerHook) else {}


class _Follower:
    """One worker's recording while the run goes on."""

    def __init__(self, config: HookConfig, worker: Any) -> None:
        self._worker = worker
        self._interval_s = config.sample_interval_s
        limit = worker.memory_manager.memory_limit
        self._recorder = _recorder.Recorder(
            config,
            kind=_records.KIND_WORKER,
            uuid=worker.id,
            name=worker.address,
            nthreads=worker.state.nthreads,
            memory_limit_b=-1 if limit is None else int(limit),
        )
        stream, self._worker_id = self._recorder.stream, self._recorder.worker_id
        self._memory_limit_b = -1 if limit is None else int(limit)
        self._totals = ActivityTotals(worker.digests_total, stream, self._worker_id)
        rows = self._totals.baseline()
        rows += self._totals.busy(worker.state.task_counter.cumulative_elapsed(), baseline=1)
        stream.rows(_records.ACTIVITIES, rows)
        running = list(worker.state.executing) + list(worker.state.long_running)
        # With the delay that Dask adds to a task's times: it is that of the task's start, and each heartbeat brings another.
        self._executing: dict[Hashable, float] = dict.fromkeys(
            (task.key for task in running), worker.scheduler_delay
        )
        self._arrived: dict[Hashable, tuple[int, int]] = {}  # when; startstops of earlier runs
        self._ready: dict[Hashable, int] = {}
        self._events: list[_records.Row] = []
        self._events_after = 0.0
        self._events_timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._cpu = (time.monotonic(), time.process_time())
        self._agent = AgentKeeper(config, self._recorder.directory) if config.serves() else None
        _recorder.register(self._recorder, worker.id)
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()
        self._timer = self._loop.call_soon(self._tick)
        if self._agent is not None:
            self._agent.watch(self._loop)

    def close(self) -> None:
        self._timer.cancel()
        if self._events_timer is not None:
            self._events_timer.cancel()
        if self._agent is not None:
            self._agent.stop()
        _recorder.forget(self._recorder.config.run_id, self._worker.id)
        for write in (self._write_gathered, self._write_totals, self._write_sample):
            self._guarded(write)
        # A worker that stays outlives the run: what still runs on it was given up, not lost.
        self._recorder.close("cancelled" if self._worker.status.name in _STAYS else "lost")

    def status(self) -> dict[str, Any]:
        stream, agent = self._recorder.stream, self._agent
        held = agent is not None and agent.is_held()
        return {
            "stream_id": stream.stream_id.hex(),
            "spool": str(self._recorder.directory),
            "records": stream.seq,
            "dropped": stream.dropped,
            "agent": "operator" if agent is None else "held" if held else "none",
            "problem": "" if agent is None else agent.problem,
        }

    def _guarded(self, write: Any, *args: Any) -> None:
        """Run a part of the recording: its failure is noted and stays here."""
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
        rows += self._totals.busy(self._worker.state.task_counter.cumulative_elapsed())
        self._recorder.stream.rows(_records.ACTIVITIES, rows)

    def _write_sample(self, lag_s: float = math.nan) -> None:
        worker, state, stream = self._worker, self._worker.state, self._recorder.stream
        stream.rows(_records.HEARTBEATS, [self._recorder.heartbeat_row(self._interval_s)])
        self._write_pause(worker.status.name == "paused")
        if not self._recorder.config.track_workers:
            return
        then, cpu_then = self._cpu
        self._cpu = now, cpu = time.monotonic(), time.process_time()
        net_read_b, net_write_b = _process.net_io_b()
        disk_read_b, disk_write_b = _process.disk_io_b()
        row = WORKER_SAMPLES.row(
            t_ns=time.time_ns(),
            cpu_pct=100 * (cpu - cpu_then) / (now - then) if now > then else math.nan,
            rss_b=_process.rss_b(),
            memory_limit_b=self._memory_limit_b,
            managed_b=int(state.nbytes),
            spilled_b=_spilled_b(worker),
            net_read_b=net_read_b,
            net_write_b=net_write_b,
            disk_read_b=disk_read_b,
            disk_write_b=disk_write_b,
            event_loop_lag_s=lag_s,
            gil_contention=_gil_contention(worker),
            worker_id=self._worker_id,
            nthreads=_u16(state.nthreads),
            executing=_u16(len(state.executing) + len(state.long_running)),
            ready=_u16(len(state.ready) + len(state.constrained)),
            status=_dask_status(worker.status.name),
            source=_SOURCE,
            cpu_wait_s=_process.cpu_wait_s(),
        )
        stream.rows(WORKER_SAMPLES, [row])

    def _write_pause(self, paused: bool) -> None:
        if paused == self._paused:
            return
        self._paused = paused
        row = MEMBERSHIP.row(
            t_ns=time.time_ns(),
            memory_limit_b=self._memory_limit_b,
            worker_id=self._worker_id,
            nthreads=_u16(self._worker.state.nthreads),
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
                task = self._worker.state.tasks.get(key)
                if task is None or task.state not in _RUNNING:
                    self._task_ended(key, task, self._executing.pop(key))
            elif finish == "executing":
                self._executing[key] = self._worker.scheduler_delay
            elif finish == "ready" or finish == "constrained":
                self._ready[key] = time.time_ns()
            elif finish == "waiting":
                if len(self._arrived) >= _ARRIVALS_MAX:
                    self._arrived.clear()
                    self._ready.clear()
                task = self._worker.state.tasks.get(key)
                self._arrived[key] = time.time_ns(), len(task.startstops) if task else 0
            elif finish == "forgotten" or finish == "released":
                self._arrived.pop(key, None)
                self._ready.pop(key, None)
        except Exception:
            self._recorder.trouble("following a task")
        self._recorder.stream.spent(began_ns)

    def _task_ended(self, key: Hashable, task: Any, delay_s: float) -> None:
        """A task left execution: its rows; its chunk, if it had one; its seconds, which Dask posts right after this."""
        attempts = self._recorder.attempts
        prefix = task.prefix if task is not None else _key_split(key)
        state = "forgotten" if task is None else task.state
        outcome = {"memory": "ok", "error": "error"}.get(state, "cancelled")
        is_chunk = key in attempts.keys
        if task is not None and task.span_id:
            names = (task.annotations or {}).get("span", {}).get("name")
            self._totals.name_span(task.span_id, names)
        self._totals.task_ends(prefix, is_chunk)
        if is_chunk:
            attempts.keys.discard(key)
            # A chunk still open when its task is over failed, though Dask may call the task a success (skipbadfiles).
            attempts.task_ended(key, "cancelled" if outcome == "cancelled" else "error")
        if task is not None:
            self._write_events(key, task, prefix, outcome, is_chunk, delay_s)

    def _write_events(
        self,
        key: Hashable,
        task: Any,
        prefix: str,
        outcome: str,
        is_chunk: bool,
        compute_delay_s: float,
    ) -> None:
        worker = self._worker
        thread = worker.threads.get(key)
        t_submit_ns, earlier = self._arrived.pop(key, (0, 0))
        shared = {
            "t_submit_ns": t_submit_ns,
            "t_ready_ns": self._ready.pop(key, 0),
            "task_key": _records.hash64(key),
            "worker_id": self._worker_id,
            "task_prefix_id": self._recorder.stream.name(_records.TASK_PREFIX, prefix),
            "side": _records.SIDE_PROCESSOR if is_chunk else _records.SIDE_UNATTRIBUTED,
        }
        rows = []
        for event in task.startstops[earlier:]:
            action = _ACTION.get(event["action"])
            if action is None:
                continue
            compute = event["action"] == "compute"
            # Dask gives computing and transfers on the scheduler's clock.
            delay_s = {"compute": compute_delay_s, "transfer": worker.scheduler_delay}.get(
                event["action"], 0.0
            )
            rows.append(
                TASK_EVENTS.row(
                    t_start_ns=int((event["start"] - delay_s) * 1e9),
                    t_stop_ns=int((event["stop"] - delay_s) * 1e9),
                    nbytes=int(task.nbytes or 0) if compute and outcome == "ok" else -1,
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
        """Write at once, but no more often than every few milliseconds: thousands of short tasks share a record."""
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


def _u16(value: int) -> int:
    return min(int(value), _records.UNKNOWN_U16 - 1)


def _dask_status(name: str) -> int:
    """Number of Dask's status among ours."""
    if name.startswith("closing"):
        return _STATUS["closing"]
    return _STATUS.get(name, _STATUS["running" if name == "init" else "lost"])


def _spilled_b(worker: Any) -> int:
    """Bytes now on disk; 0 where spilling is off."""
    try:
        return int(worker.data.spilled_total.disk)
    except AttributeError:
        return 0


def _gil_contention(worker: Any) -> float:
    """Share of time that the GIL is held: by Dask's own measurement if it has one (gilknocker), else one look."""
    values = worker.monitor.quantities.get("gil_contention")
    return float(values[-1]) if values else _process.gil_held()
