"""The plugin on Dask's scheduler: membership of workers, assigned tasks, lost work.

It records only what workers cannot. Tasks that failed or were cancelled are in the streams of the
workers that ran them; attempts of a worker that vanished appear only here. Everything runs on the
scheduler's event loop, and nothing here is called for each task.
"""

from __future__ import annotations

import asyncio
import logging
import math
import pickle
import time
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from distributed import SchedulerPlugin

from . import _recorder, _records, _travel, _writers
from ._agent import AgentKeeper, dismiss, key_event, key_topic
from ._broker import Broker
from ._config import HookConfig
from ._dask import text
from ._marks import is_foreign, mark_earlier
from ._records import MEMBERSHIP, TASK_EVENTS, WORKER_SAMPLES
from ._way import Way

logger = logging.getLogger("crema")

_EVENT = {
    n: MEMBERSHIP.label("event", n) for n in ("join", "leave", "lost", "retire", "pause", "resume")
}
_EXPLICIT = MEMBERSHIP.label("evidence", "explicit")
_TIMEOUT = MEMBERSHIP.label("evidence", "heartbeat_timeout")
_BOUNDARY = MEMBERSHIP.label("evidence", "run_boundary")
_STATUS = {n: WORKER_SAMPLES.label("status", n) for n in ("running", "paused", "closing", "lost")}
_SOURCE = WORKER_SAMPLES.label("source", "scheduler")
_COMPUTE = TASK_EVENTS.label("action", "compute")
_LOST = TASK_EVENTS.label("status", "lost")
CLIENT_GONE_S = 60.0  # a client that is away for longer will not return to end its run
_REPORT_S = 0.1  # about the time for the reports of workers whose plugin was set up
_SAMPLED_A_TICK = 500  # workers; if there are more, they take turns
# By run and scheduler, for Dask versions that do not expose a scheduler's plugins.
_hooks: weakref.WeakValueDictionary[tuple[str, int], SchedulerHook] = weakref.WeakValueDictionary()

_ENDED_BY_INTENT = ("nanny-close", "close-worker", "worker-close", "restart", "scheduler-close")


class SchedulerHook(SchedulerPlugin):
    """Records the scheduler's view of a run; ``client.register_plugin(SchedulerHook(config))``.

    Dask does not notify a scheduler plugin that is unregistered. Call `end` first, which ends the stream at once; otherwise it ends
    when the next sample is due.

    Parameters
    ----------
    config : HookConfig
        The run.
    """

    def __init__(self, config: HookConfig) -> None:
        self.config = config
        self.name = f"crema-{config.run_id}"
        self._follower: _Follower | None = None
        self._ending: asyncio.Task | None = None
        self._writers: list[_writers.Writer] = []  # the known writers of the run, after its end
        self._broker: Broker | None = None  # of the way over Dask
        self._way: Way | None = None  # of this host
        self.is_over = False  # workers that join now record nothing

    def __reduce__(self) -> tuple:
        substitute = SchedulerPlugin()
        substitute.name = self.name
        return _travel.reduced("scheduler", self.config, substitute)

    async def start(self, scheduler: Any) -> None:
        """Open the stream and record the present workers."""
        _hooks[self.config.run_id, id(scheduler)] = self
        try:
            self._follower = _Follower(self, scheduler)
        except Exception as error:
            logger.warning("crema: the scheduler is not recorded", exc_info=True)
            text = f"{type(error).__name__}: {error}"
            name, kind = getattr(scheduler, "address", "") or "scheduler", _records.KIND_SCHEDULER
            self._writers = [_writers.Writer(name, kind, _writers.SILENT, text=text)]
        try:
            self._broker = Broker(self.config.run_id)
            self._broker.serve(scheduler)
            if self.config.serves() and self._follower is not None:
                self._way = Way(self._broker.call, self.config.spool_dir())
        except Exception:
            logger.warning("crema: no records travel over Dask", exc_info=True)

    async def close(self) -> None:
        """The scheduler is closing."""
        self.finish()

    def close_way(self, scheduler: Any) -> None:
        """Stop carrying records over Dask."""
        way, self._way = self._way, None
        if way is not None:
            way.close()
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close(scheduler)

    def finish(self) -> list[_writers.Writer]:
        """Record the remaining workers and end the stream, which is on disk when this returns. Returns all known writers."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()
            self._writers = follower.writers()
        return self._writers

    def writers(self) -> list[_writers.Writer]:
        """All known writers."""
        return self._writers if self._follower is None else self._follower.writers()

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """A worker joined."""
        if self._follower is not None:
            self._follower.guarded(self._follower.joined, worker, _EXPLICIT)

    def remove_worker(
        self, scheduler: Any, worker: str, *, stimulus_id: str = "", **kwargs: Any
    ) -> None:
        """A worker left."""
        if self._follower is not None:
            self._follower.guarded(self._follower.left, worker, stimulus_id)

    def update_graph(
        self, scheduler: Any, *, client: str, tasks: Iterable[Hashable], **kwargs: Any
    ) -> None:
        """A client submitted tasks, not yet assigned to workers: mark them with the client and the submission."""
        if self._follower is not None:
            stimulus = kwargs.get("stimulus_id")
            self._follower.guarded(self._follower.submitted, client, tasks, stimulus)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """A client left; if it is the run's, it has not ended the run, or this plugin would be gone."""
        if self._follower is not None and client == self.config.client:
            asyncio.get_running_loop().call_later(CLIENT_GONE_S, self._end_abandoned, scheduler)

    def _end_abandoned(self, scheduler: Any) -> None:
        if self._follower is not None and self.config.client not in scheduler.clients:
            logger.warning("crema: the client of run %s is gone", self.config.run_id)
            self._ending = asyncio.create_task(self._end_everywhere(scheduler))

    async def _end_everywhere(self, scheduler: Any) -> None:
        """End an abandoned run: end the recording of every worker, then let the agents deliver everything and exit."""
        self.finish()
        self.close_way(scheduler)
        try:
            await scheduler.unregister_worker_plugin(None, self.name)
            message = {
                "op": "run",
                "function": pickle.dumps(dismiss),
                "kwargs": pickle.dumps({"config": self.config}),
            }
            await scheduler.broadcast(msg=message, on_error="ignore")
            dismiss(self.config)
            await scheduler.unregister_scheduler_plugin(self.name)
        except Exception:
            logger.warning("crema: the end of an abandoned run", exc_info=True)

    def log_event(self, topic: str, msg: Any) -> None:
        """Follow Dask's events about workers; the relevant ones come before `remove_worker`."""
        if self._follower is not None and isinstance(msg, dict):
            self._follower.guarded(self._follower.logged, topic, msg)


async def writers(run_id: str, dask_scheduler: Any) -> list[_writers.Writer]:
    """All known writers: ``client.run_on_scheduler(crema.scheduler.writers, run_id)``.

    A worker answers the registration of its plugin some milliseconds before its report of a stream arrives, which is waited for.
    """
    hook = _find(run_id, dask_scheduler)
    found = [] if hook is None else hook.writers()
    waits_s = _REPORT_S / 64
    while waits_s < _REPORT_S and any(w.state == _writers.UNKNOWN for w in found):
        await asyncio.sleep(waits_s)
        waits_s *= 2
        found = hook.writers()
    return found


def end(run_id: str, dask_scheduler: Any) -> list[_writers.Writer]:
    """End a run's recording on the cluster, after its workers were asked, and return all writers. Undelivered records may still be sent."""
    hook = _find(run_id, dask_scheduler)
    if hook is None:
        return []
    hook.is_over = True
    return hook.finish()


async def forget(run_id: str, dask_scheduler: Any) -> None:
    """Remove both plugins of a run; its records have arrived, or never will."""
    name = f"crema-{HookConfig(run_id).run_id}"
    hook = _find(run_id, dask_scheduler)
    if hook is not None:
        hook.is_over = True
        hook.finish()
        hook.close_way(dask_scheduler)
    if name in dask_scheduler.worker_plugins:
        await dask_scheduler.unregister_worker_plugin(None, name)
    if hook is not None:
        await dask_scheduler.unregister_scheduler_plugin(name)


def _find(run_id: str, dask_scheduler: Any) -> SchedulerHook | None:
    run_id = HookConfig(run_id).run_id
    plugins = getattr(dask_scheduler, "plugins", None)
    if not isinstance(plugins, dict):
        return _hooks.get((run_id, id(dask_scheduler)))
    hook = plugins.get(f"crema-{run_id}")
    return hook if isinstance(hook, SchedulerHook) else None


class _Worker:
    """The last known state of a worker."""

    __slots__ = ("id", "intent", "state")

    def __init__(self, number: int, state: Any) -> None:
        self.id = number
        self.state = state  # Dask's, which stays readable after the worker has left
        self.intent = False  # it announced that it would leave


class _Follower:
    """The scheduler's recording during the run."""

    def __init__(self, hook: SchedulerHook, scheduler: Any) -> None:
        config = hook.config
        self._hook = hook
        self._scheduler = scheduler
        self._interval_s = config.sample_interval_s
        name = getattr(scheduler, "address", "") or "scheduler"
        self._recorder = _recorder.Recorder(
            config, kind=_records.KIND_SCHEDULER, uuid="", name=name
        )
        self._read, self.guarded = self._recorder.read, self._recorder.guarded
        self._stream = self._recorder.stream
        self._workers: dict[str, _Worker] = {}
        self._roll = _writers.Roll()  # all workers so far, and their reports about their streams
        self._registered = False
        self._next = 0  # next worker to sample
        self._agent = None
        if config.serves():
            self._agent = AgentKeeper(config, self._recorder.directory, self._announce_key)
        self._read("task_events.side", lambda: mark_earlier(scheduler.tasks.values()), None)
        here: list[str] = []
        for what in ("membership", "worker_samples.occupancy_s", "worker_samples.processing"):
            here = self._read(what, lambda: list(scheduler.workers), here)
        for address in here:
            self.guarded(self.joined, address, _BOUNDARY)
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()
        self._timer = self._loop.call_soon(self._tick)
        if self._agent is not None:
            self._agent.watch(self._loop)

    def close(self) -> None:
        """Idempotent."""
        if not self._stream.alive:
            return
        self._timer.cancel()
        if self._agent is not None:
            self._agent.stop()
        self.guarded(self._write_samples, self._workers)
        for worker in self._workers.values():
            self.guarded(self._write_membership, worker, "leave", _BOUNDARY)
        self.guarded(self._write_heartbeat)
        self._recorder.close("lost")

    def _announce_key(self, key: str) -> None:
        self._scheduler.log_event(key_topic(self._recorder.config.run_id), key_event(key))

    # ---------------------------------------------------------------- what is submitted

    def submitted(self, client: str, tasks: Iterable[Hashable], stimulus: str | None) -> None:
        """Mark submitted tasks. They keep their first mark: Dask already knows them and recomputes what it has lost."""
        number = _records.hash64(stimulus or time.time_ns()) & 0x7FFFFFFF
        mark = {_records.MARK_SUBMISSION: (client, number)}

        def put() -> None:
            known = self._scheduler.tasks
            for key in tasks:
                task = known.get(key)
                if task is None:
                    continue
                if not task.annotations:
                    task.annotations = mark.copy()
                elif _records.MARK_SUBMISSION not in task.annotations:
                    task.annotations = task.annotations | mark

        self._read("chunks.submission_key", put, None)

    # ---------------------------------------------------------------- membership

    def joined(self, address: str, evidence: int) -> None:
        state = self._read("membership", lambda: self._scheduler.workers[address], None)
        uuid = self._uuid(state)
        if not self._hook.is_over:
            self._roll.add([_writers.Writer(address, state=_writers.UNKNOWN, uuid=uuid)])
        number = self._stream.name(
            _records.WORKER,
            address,
            uuid,
            host=self._read("dict/worker.host", lambda: text(state.host), ""),
            pid=int(getattr(state, "pid", 0) or 0),
            nthreads=self._nthreads(state) % _records.UNKNOWN_U16,
            memory_limit_b=self._limit_b(state),
        )
        worker = self._workers[address] = _Worker(number, state)
        self._write_membership(worker, "join", evidence)

    def left(self, address: str, stimulus_id: str) -> None:
        worker = self._workers.pop(address, None)
        if worker is None:
            return
        if stimulus_id.startswith("retire-workers"):
            self._write_membership(worker, "retire", _EXPLICIT)
        elif "worker-ttl" in stimulus_id:
            self._write_membership(worker, "lost", _TIMEOUT)
        elif worker.intent or stimulus_id.startswith(_ENDED_BY_INTENT):
            self._write_membership(worker, "leave", _EXPLICIT)
        else:
            self._write_membership(worker, "lost", _EXPLICIT)

    def writers(self) -> list[_writers.Writer]:
        """All known writers. The END of a worker that left without a report must be found by its id; present ones can be asked."""
        here = {self._uuid(worker.state) for worker in self._workers.values()}
        rows = [
            row._replace(state=_writers.LEFT)
            if row.state == _writers.UNKNOWN and row.uuid not in here
            else row
            for row in self._roll.writers()
        ]
        return [self._recorder.writer(), *rows]

    def logged(self, topic: str, msg: dict[str, Any]) -> None:
        action = msg.get("action")
        if action == _writers.ACTION and topic == self._hook.name:
            self._roll.add(_writers.of_event(msg))
        elif action == "worker-status-change":
            worker = self._workers.get(topic)
            if worker is not None:
                self._status_changed(worker, msg)
        elif action == "remove-worker" and topic == "all":
            worker = self._workers.get(msg.get("worker", ""))
            if worker is not None:
                worker.intent = worker.intent or bool(msg.get("expected"))
                self._write_lost(worker, msg)

    def _status_changed(self, worker: _Worker, msg: dict[str, Any]) -> None:
        before, now = msg.get("prev-status"), str(msg.get("status"))
        if now.startswith("closing"):
            worker.intent = True
        elif now == "paused":
            self._write_membership(worker, "pause", _EXPLICIT)
        elif before == "paused" and now == "running":
            self._write_membership(worker, "resume", _EXPLICIT)

    def _write_membership(self, worker: _Worker, event: str, evidence: int) -> None:
        row = MEMBERSHIP.row(
            t_ns=time.time_ns(),
            memory_limit_b=self._limit_b(worker.state),
            worker_id=worker.id,
            nthreads=self._nthreads(worker.state),
            event=_EVENT[event],
            evidence=evidence,
            t_uncertainty_ns=0,
        )
        self._stream.rows(MEMBERSHIP, [row])

    def _uuid(self, state: Any) -> str:
        """Dask's id of a worker; empty if unknown, then the worker is identified by its address."""
        return self._read("dict/worker.uuid", lambda: text(state.server_id), "")

    def _nthreads(self, state: Any) -> int:
        return self._read("membership.nthreads", lambda: int(state.nthreads), _records.UNKNOWN_U16)

    def _limit_b(self, state: Any) -> int:
        """Memory limit of a worker; Dask's 0 means none."""
        return self._read("membership.memory_limit_b", lambda: int(state.memory_limit) or -1, -1)

    # ---------------------------------------------------------------- work lost with a worker

    def _write_lost(self, worker: _Worker, msg: dict[str, Any]) -> None:
        """Record tasks that ran on a worker that left, and results that only it had; nbytes distinguishes the two."""
        rows = self._read("task_events", lambda: self._lost_rows(worker, msg), [])
        self._stream.rows(TASK_EVENTS, rows)

    def _lost_rows(self, worker: _Worker, msg: dict[str, Any]) -> list[_records.Row]:
        rows = []
        running = {task.key: seconds for task, seconds in worker.state.executing.items()}
        for key in msg.get("processing-tasks") or ():
            if key in running and not self._is_foreign(
                key
            ):  # as of its last heartbeat; the others were only assigned, as far as known
                start_s = worker.state.last_seen - running[key]
                rows.append(self._lost_row(worker, key, int(start_s * 1e9), -1))
        for key in msg.get("lost-computed-tasks") or ():
            task = self._scheduler.tasks.get(key)
            if not self._is_foreign(key):
                rows.append(self._lost_row(worker, key, 0, task.get_nbytes() if task else 0))
        return rows

    def _is_foreign(self, key: Hashable) -> bool:
        task = self._scheduler.tasks.get(key)
        return task is not None and is_foreign(self._recorder.config, task.annotations)

    def _lost_row(
        self, worker: _Worker, key: Hashable, t_start_ns: int, nbytes: int
    ) -> _records.Row:
        task = self._scheduler.tasks.get(key)
        prefix = task.prefix.name if task is not None else ""
        return TASK_EVENTS.row(
            t_start_ns=t_start_ns,
            t_stop_ns=time.time_ns(),
            nbytes=int(nbytes),
            task_key=_records.hash64(key),
            worker_id=worker.id,
            task_prefix_id=self._stream.name(_records.TASK_PREFIX, prefix)
            if prefix
            else _records.UNKNOWN_ID,
            action=_COMPUTE,
            status=_LOST,
            side=_records.SIDE_UNATTRIBUTED,
        )

    # ---------------------------------------------------------------- every interval

    def _tick(self) -> None:
        if not self._stream.alive:
            return
        here = _find(self._recorder.config.run_id, self._scheduler)
        if self._registered and here is not self._hook:
            self._hook.finish()
            return
        self._registered = True  # Dask registers the plugin once `start` has returned
        now = self._loop.time()
        self._due += self._interval_s
        if self._due <= now:
            self._due = now + self._interval_s
        self._timer = self._loop.call_at(self._due, self._tick)
        addresses = list(self._workers)
        if len(addresses) > _SAMPLED_A_TICK:
            first, self._next = self._next, (self._next + _SAMPLED_A_TICK) % len(addresses)
            addresses = (addresses + addresses)[first : first + _SAMPLED_A_TICK]
        self.guarded(self._write_samples, addresses)
        self.guarded(self._write_heartbeat)

    def _write_samples(self, addresses: Iterable[str]) -> None:
        if not self._recorder.config.track_workers:
            return
        t_ns = time.time_ns()
        workers = (self._workers[a] for a in addresses if a in self._workers)
        self._stream.rows(WORKER_SAMPLES, [self._sample(worker, t_ns) for worker in workers])

    def _sample(self, worker: _Worker, t_ns: int) -> _records.Row:
        """The scheduler's view of a worker; memory is from its last heartbeat."""
        state, unknown = worker.state, _records.UNKNOWN_U16

        def sampled(column: str, read: Callable[[Any], Any], otherwise: Any = -1) -> Any:
            return self._read(f"worker_samples.{column}", lambda: read(state), otherwise)

        return WORKER_SAMPLES.row(
            t_ns=t_ns,
            cpu_pct=sampled("cpu_pct", lambda s: float(s.metrics.get("cpu", math.nan)), math.nan),
            rss_b=sampled("rss_b", lambda s: int(s.memory.process)),
            memory_limit_b=self._limit_b(state),
            managed_b=sampled("managed_b", lambda s: int(s.memory.managed)),
            spilled_b=sampled("spilled_b", lambda s: int(s.memory.spilled)),
            occupancy_s=sampled("occupancy_s", lambda s: float(s.occupancy), math.nan),
            worker_id=worker.id,
            nthreads=self._nthreads(state),
            executing=sampled("executing", _n_executing, unknown),
            processing=sampled(
                "processing", lambda s: min(len(s.processing), unknown - 1), unknown
            ),
            status=sampled("status", _status_of, _STATUS["running"]),
            source=_SOURCE,
        )

    def _write_heartbeat(self) -> None:
        self._stream.rows(_records.HEARTBEATS, [self._recorder.heartbeat_row(self._interval_s)])


def _n_executing(state: Any) -> int:
    return len(state.executing) + len(state.long_running)


def _status_of(state: Any) -> int:
    return _STATUS.get(text(state.status.name), _STATUS["closing"])
