"""The plugin on Dask's scheduler: who was there and when, what was assigned to whom, which work was lost.

Only what no worker can tell is recorded here. Tasks that failed or were cancelled are in the streams of the workers that ran
them; the attempts of a worker that vanished are nowhere else. Everything runs on the scheduler's event loop, and nothing here
is called per task.
"""

from __future__ import annotations

import asyncio
import logging
import math
import pickle
import time
from collections.abc import Hashable, Iterable
from typing import Any

from distributed import SchedulerPlugin

from . import _recorder, _records
from ._agent import AgentKeeper, dismiss
from ._config import HookConfig
from ._records import MEMBERSHIP, TASK_EVENTS, WORKER_SAMPLES

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
CLIENT_GONE_S = 60.0  # a client that is away for longer does not come back to end its run
_SAMPLED_A_TICK = 500  # workers; more take turns, so that a sample never holds up the scheduler
_ENDED_BY_INTENT = ("nanny-close", "close-worker", "worker-close", "restart", "scheduler-close")


class SchedulerHook(SchedulerPlugin):
    """Records the scheduler's view of a run; ``client.register_plugin(SchedulerHook(config))``.

    Dask calls nothing when a scheduler plugin is unregistered. Call `close` first, which ends the stream at once; otherwise it ends
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

    def __reduce__(self) -> tuple:
        return SchedulerHook, (self.config,)

    async def start(self, scheduler: Any) -> None:
        """Open the stream and note who is there."""
        try:
            self._follower = _Follower(self, scheduler)
        except Exception:
            logger.warning("crema: the scheduler is not recorded", exc_info=True)

    async def close(self) -> None:
        """The scheduler closes."""
        self.finish()

    def finish(self) -> None:
        """Note who is still there and end the stream; it is on disk when this returns."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """A worker came."""
        if self._follower is not None:
            self._follower.guarded(self._follower.joined, worker, _EXPLICIT)

    def remove_worker(
        self, scheduler: Any, worker: str, *, stimulus_id: str = "", **kwargs: Any
    ) -> None:
        """A worker is gone."""
        if self._follower is not None:
            self._follower.guarded(self._follower.left, worker, stimulus_id)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """A client is gone; that of the run without having ended it, if this plugin is still there."""
        if self._follower is not None and client == self.config.client:
            asyncio.get_running_loop().call_later(CLIENT_GONE_S, self._end_abandoned, scheduler)

    def _end_abandoned(self, scheduler: Any) -> None:
        if self._follower is not None and self.config.client not in scheduler.clients:
            logger.warning("crema: the client of run %s is gone", self.config.run_id)
            self._ending = asyncio.create_task(self._end_everywhere(scheduler))

    async def _end_everywhere(self, scheduler: Any) -> None:
        """Nobody will: end the recording of every worker, then have the agents deliver what there is and leave."""
        self.finish()
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
        """Dask logs what happens to workers; that of interest comes before `remove_worker`."""
        if self._follower is not None and isinstance(msg, dict):
            self._follower.guarded(self._follower.logged, topic, msg)


def close(run_id: str, dask_scheduler: Any) -> None:
    """End a run's stream on the scheduler: ``client.run_on_scheduler(crema.scheduler.close, run_id)``."""
    hook = dask_scheduler.plugins.get(f"crema-{HookConfig(run_id).run_id}")
    if isinstance(hook, SchedulerHook):
        hook.finish()


class _Worker:
    """A worker as it was last known."""

    __slots__ = ("id", "intent", "state")

    def __init__(self, number: int, state: Any) -> None:
        self.id = number
        self.state = state  # Dask's, which stays readable when the worker is gone
        self.intent = False  # it said that it would leave


class _Follower:
    """The scheduler's recording while the run goes on."""

    def __init__(self, hook: SchedulerHook, scheduler: Any) -> None:
        config = hook.config
        self._hook = hook
        self._scheduler = scheduler
        self._interval_s = config.sample_interval_s
        self._recorder = _recorder.Recorder(
            config, kind=_records.KIND_SCHEDULER, uuid="", name=scheduler.address
        )
        self._stream = self._recorder.stream
        self._workers: dict[str, _Worker] = {}
        self._registered = False
        self._next = 0  # worker whose turn it is
        self._agent = AgentKeeper(config, self._recorder.directory) if config.serves() else None
        for address in list(scheduler.workers):
            self.joined(address, _BOUNDARY)
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

    def guarded(self, write: Any, *args: Any) -> None:
        """Run a part of the recording: its failure is noted and stays here."""
        try:
            write(*args)
        except Exception:
            self._recorder.trouble(write.__name__.strip("_").replace("_", " "))

    # ---------------------------------------------------------------- who is there

    def joined(self, address: str, evidence: int) -> None:
        state = self._scheduler.workers[address]
        number = self._stream.name(
            _records.WORKER,
            address,
            str(state.server_id),
            host=_records.text(state.host),
            pid=int(getattr(state, "pid", 0) or 0),
            nthreads=state.nthreads,
            memory_limit_b=_limit_b(state),
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

    def logged(self, topic: str, msg: dict[str, Any]) -> None:
        action = msg.get("action")
        if action == "worker-status-change":
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
            memory_limit_b=_limit_b(worker.state),
            worker_id=worker.id,
            nthreads=worker.state.nthreads,
            event=_EVENT[event],
            evidence=evidence,
            t_uncertainty_ns=0,
        )
        self._stream.rows(MEMBERSHIP, [row])

    # ---------------------------------------------------------------- what went with it

    def _write_lost(self, worker: _Worker, msg: dict[str, Any]) -> None:
        """Tasks that ran on a worker that is gone, and results that only it had; nbytes tells one from the other."""
        rows = []
        running = {task.key: seconds for task, seconds in worker.state.executing.items()}
        for key in msg.get("processing-tasks") or ():
            if (
                key in running
            ):  # as of its last heartbeat; others were only assigned, as far as is known
                start_s = worker.state.last_seen - running[key]
                rows.append(self._lost_row(worker, key, int(start_s * 1e9), -1))
        for key in msg.get("lost-computed-tasks") or ():
            task = self._scheduler.tasks.get(key)
            rows.append(self._lost_row(worker, key, 0, task.get_nbytes() if task else 0))
        self._stream.rows(TASK_EVENTS, rows)

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
        if self._registered and self._scheduler.plugins.get(self._hook.name) is not self._hook:
            self._hook.finish()
            return
        self._registered = True  # Dask keeps the plugin once `start` has returned
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
        self._stream.rows(WORKER_SAMPLES, [_sample(worker, t_ns) for worker in workers])

    def _write_heartbeat(self) -> None:
        self._stream.rows(_records.HEARTBEATS, [self._recorder.heartbeat_row(self._interval_s)])


def _sample(worker: _Worker, t_ns: int) -> _records.Row:
    """What the scheduler holds of a worker; memory is that of its last heartbeat."""
    state = worker.state
    memory = state.memory
    return WORKER_SAMPLES.row(
        t_ns=t_ns,
        cpu_pct=float(state.metrics.get("cpu", math.nan)),
        rss_b=int(memory.process),
        memory_limit_b=_limit_b(state),
        managed_b=int(memory.managed),
        spilled_b=int(memory.spilled),
        occupancy_s=float(state.occupancy),
        worker_id=worker.id,
        nthreads=state.nthreads,
        executing=len(state.executing) + len(state.long_running),
        processing=min(len(state.processing), _records.UNKNOWN_U16 - 1),
        status=_STATUS.get(state.status.name, _STATUS["closing"]),
        source=_SOURCE,
    )


def _limit_b(state: Any) -> int:
    """Memory limit of a worker; Dask says 0 for none."""
    return int(state.memory_limit or -1)
