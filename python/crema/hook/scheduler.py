"""The plugin on Dask's scheduler: membership of workers, assigned tasks, lost work.

It records only what workers cannot. Tasks that failed or were cancelled are in the streams of the
workers that ran them; attempts of a worker that vanished appear only here. Everything runs on the
scheduler's event loop. A submission is marked task by task, once; no transition of a task calls anything here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import weakref
from collections.abc import Collection, Hashable, Iterable
from typing import Any

from distributed import SchedulerPlugin

from . import _abandoned, _lost, _marks, _messages, _recorder, _records, _seen, _travel, _writers
from ._agent import AgentKeeper, key_event, key_topic
from ._broker import Broker
from ._config import HookConfig
from ._dask import or_else, text
from ._deaths import Deaths, as_seen
from ._records import MEMBERSHIP, TASK_EVENTS
from ._reports import ANSWERS, END, of_answer
from ._way import Way
from .nanny import from_nannies, to_nannies

logger = logging.getLogger("crema")

_EXPLICIT = MEMBERSHIP.label("evidence", "explicit")
_BOUNDARY = MEMBERSHIP.label("evidence", "run_boundary")
CLIENT_GONE_S = 60.0  # a client that is away for longer will not return to end its run
CLIENT_AGAIN = "-crema-"  # in the id of a collector's client in place of a closed one
SUBMITTED_S = 2.0  # at the end of a run, for graphs that are still on their way
GIVEN_S = 5.0  # for workers to take the plugin, beside what they do
REMOVED_S = 2.0  # for workers to take the plugin back
LATE_S = 60.0  # after a run, for messages about it that are still on their way
_SAMPLED_A_TICK = 500  # workers; if there are more, they take turns
_Stopped = tuple[list[_writers.Writer], list[str] | None]
# By run and scheduler, for Dask versions that do not expose a scheduler's plugins.
_hooks: weakref.WeakValueDictionary[tuple[str, int], SchedulerHook] = weakref.WeakValueDictionary()


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
        self._n_submitted = 0  # by the run's client
        self.is_over = False  # workers that join from now on do not belong to the run
        self._holders: list[str] = []  # workers that have the plugin, then

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

        self._nannies = asyncio.create_task(to_nannies(scheduler, self.config))

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
            asyncio.get_running_loop().call_later(LATE_S, self._sweep, scheduler, broker)

    def _sweep(self, scheduler: Any, broker: Broker) -> None:
        """Remove what late messages of the run needed: a scheduler may outlive thousands of runs."""
        with contextlib.suppress(Exception):
            broker.remove(scheduler)
            for topic in (self.name, key_topic(self.config.run_id)):
                scheduler._broker._topics.pop(topic, None)

    def finish(self) -> list[_writers.Writer]:
        """Record the remaining workers and end the stream, which is on disk when this returns. Returns all known writers."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()
            self._writers = follower.writers()
        return self._writers

    async def stop(self, scheduler: Any, sent: int, limit_s: float | None) -> _Stopped:
        """End the recording of the workers, and then of the scheduler; see the function `stop`."""
        end = time.monotonic() + SUBMITTED_S
        while self._n_submitted < sent and time.monotonic() < end:
            await asyncio.sleep(0.005)
        follower = self._follower
        here = or_else(lambda: list(scheduler.workers), None)
        if follower is None or here is None:
            return [], None
        self.is_over = True
        await follower.deaths.settle()
        self._holders = here
        with contextlib.suppress(Exception):  # nothing would end the stream of one that joins
            scheduler.worker_plugins.pop(self.name)
        others = await follower.end_workers(here, limit_s)
        return ([], others) if others else (self.finish(), [])

    async def remove(self, scheduler: Any, *, ended: bool) -> None:
        """Remove both plugins; workers that have ended their recording need not be waited for."""
        await from_nannies(scheduler, self.name)
        await self.remove_from_workers(scheduler, reply=not ended)
        await scheduler.unregister_scheduler_plugin(self.name)

    async def remove_from_workers(self, scheduler: Any, *, reply: bool = True) -> None:
        """Remove the workers' plugin; Dask's own function fails if a worker leaves meanwhile."""
        workers = list(scheduler.workers)
        if scheduler.worker_plugins.pop(self.name, None) is None:
            workers = [address for address in self._holders if address in scheduler.workers]
        await _messages.ask(
            scheduler,
            workers,
            reply=reply,
            limit_s=REMOVED_S,
            op="plugin-remove",
            name=self.name,
        )

    def writers(self) -> list[_writers.Writer]:
        """All known writers."""
        return self._writers if self._follower is None else self._follower.writers()

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """A worker joined."""
        if self._follower is not None and not self.is_over:
            self._follower.guarded(self._follower.joined, worker)

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
        self._n_submitted += client == self.config.client
        if self._follower is not None:
            stimulus, wanted = kwargs.get("stimulus_id"), kwargs.get("keys", ())
            self._follower.guarded(self._follower.submitted, client, tasks, wanted, stimulus)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """A client left; if it is the run's, it has not finished the run, or this plugin would be gone."""
        if client == self.config.client:
            self._expect_client(scheduler)

    def _expect_client(self, scheduler: Any) -> None:
        asyncio.get_running_loop().call_later(CLIENT_GONE_S, self._end_abandoned, scheduler)

    def _end_abandoned(self, scheduler: Any) -> None:
        if or_else(lambda: scheduler.status.name == "closed", False):
            return
        clients = scheduler.clients
        if _find(self.config.run_id, scheduler) is not self or self.config.client in clients:
            return
        if self.is_over and any(CLIENT_AGAIN in client for client in clients):
            self._expect_client(scheduler)  # it may be the one that awaits the verdict
            return
        logger.warning("crema: the client of run %s is gone", self.config.run_id)
        self._ending = asyncio.create_task(_abandoned.end(self, scheduler))

    def log_event(self, topic: str, msg: Any) -> None:
        """Follow Dask's events about workers; the relevant ones come before `remove_worker`."""
        if self._follower is not None and isinstance(msg, dict):
            self._follower.guarded(self._follower.logged, topic, msg)


async def writers(run_id: str, dask_scheduler: Any) -> list[_writers.Writer]:
    """All known writers: ``client.run_on_scheduler(crema.hook.scheduler.writers, run_id)``."""
    hook = _find(run_id, dask_scheduler)
    return [] if hook is None else hook.writers()


async def give(run_id: str, dask_scheduler: Any, function: bytes) -> None:
    """Let the workers run a function that adds their plugin, and note the reports that it returns.

    One that stands still is not waited for: it gets the function when it goes on, and reports its stream then.
    """
    message = {"op": "run", "function": function}
    workers = or_else(lambda: list(dask_scheduler.workers), None)
    if workers is None:
        answers = await dask_scheduler.broadcast(msg=message, on_error="ignore")
    else:
        answers = await _messages.ask(dask_scheduler, workers, limit_s=GIVEN_S, **message)
    hook = _find(run_id, dask_scheduler)
    follower = None if hook is None else hook._follower
    for answer in answers.values() if follower is not None else ():
        if not isinstance(answer, TimeoutError):
            follower.guarded(follower.answered, answer)


async def stop(
    run_id: str, dask_scheduler: Any, sent: int = 0, limit_s: float | None = None
) -> _Stopped:
    """End a run's recording on the workers, and on the scheduler if none of them is left to be asked otherwise.

    Waits for the `sent` graphs of its client, whose last ones may be under way where it had the result of an earlier call. A worker
    that does not answer within `limit_s` is listed with that as what is known of it, and need not be asked otherwise.

    Returns
    -------
    writers : list of Writer
        All writers, if none is left to be asked.
    others : list of str or None
        Addresses of the workers that must be asked before `end`; None: all workers.
    """
    hook = _find(run_id, dask_scheduler)
    return ([], None) if hook is None else await hook.stop(dask_scheduler, sent, limit_s)


def end(run_id: str, dask_scheduler: Any) -> list[_writers.Writer]:
    """End a run's recording on the cluster, after its workers were asked, and return all writers. Undelivered records may still be sent."""
    hook = _find(run_id, dask_scheduler)
    if hook is None:
        return []
    hook.is_over = True
    return hook.finish()


async def forget(run_id: str, dask_scheduler: Any) -> None:
    """Remove both plugins of a run; its records have arrived, or never will."""
    hook = _find(run_id, dask_scheduler)
    if hook is not None:
        ended, hook.is_over = hook.is_over, True
        hook.finish()
        hook.close_way(dask_scheduler)
        await hook.remove(dask_scheduler, ended=ended)
        return
    name = f"crema-{HookConfig(run_id).run_id}"
    if name in dask_scheduler.worker_plugins:
        await dask_scheduler.unregister_worker_plugin(None, name)


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
        self.workers: dict[str, _Worker] = {}
        self.deaths = Deaths(lambda row: self._stream.rows(MEMBERSHIP, [row]))
        self._roll = _writers.Roll()  # all workers so far, and their reports about their streams
        self._answering: set[str] = set()  # ids of workers that can be asked when the run ends
        self._registered = False
        self._next = 0  # next worker to sample
        self._agent = None
        if config.serves():
            self._agent = AgentKeeper(config, self._recorder.directory, self._announce_key)
        self._read("task_events.side", lambda: _marks.mark_earlier(scheduler.tasks.values()), None)
        here: list[str] = []
        for what in ("membership", "worker_samples.occupancy_s", "worker_samples.processing"):
            here = self._read(what, lambda: list(scheduler.workers), here)
        self.guarded(self._joined_before, here)
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
        self.guarded(self._write_samples, self.workers)
        self.deaths.close()
        self.guarded(self._write_membership, self.workers.values(), "leave", _BOUNDARY)
        self.guarded(self._write_heartbeat)
        self._recorder.close("lost")

    def _announce_key(self, key: str) -> None:
        self._scheduler.log_event(key_topic(self._recorder.config.run_id), key_event(key))

    # ---------------------------------------------------------------- what is submitted

    def submitted(
        self,
        client: str,
        tasks: Iterable[Hashable],
        wanted: Collection[Hashable],
        stimulus: str | None,
    ) -> None:
        """Mark submitted tasks; note those that were submitted before."""
        number = _records.hash64(stimulus or time.time_ns()) & 0x7FFFFFFF

        def put() -> list[Hashable]:
            return _marks.submitted(self._scheduler.tasks, tasks, wanted, client, number)

        again = self._read("chunks.submission_key", put, [])
        if again and not _marks.is_foreign(self._recorder.config, _marks.of(client, number)):
            self._stream.count("crema.tasks_again", about=map(_records.hash64, again))

    # ---------------------------------------------------------------- membership

    def _joined_before(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self.guarded(self._take_in, address)
        self._write_membership(self.workers.values(), "join", _BOUNDARY)

    def joined(self, address: str) -> None:
        self._write_membership([self._take_in(address)], "join", _EXPLICIT)

    def _take_in(self, address: str) -> _Worker:
        state = self._read("membership", lambda: self._scheduler.workers[address], None)
        uuid = self._uuid(state)
        self._roll.add([_writers.Writer(address, state=_writers.UNKNOWN, uuid=uuid)])
        number = self._stream.name(
            _records.WORKER,
            address,
            uuid,
            host=self._read("dict/worker.host", lambda: text(state.host), ""),
            pid=int(getattr(state, "pid", 0) or 0),
            nthreads=_seen.nthreads(self._read, state) % _records.UNKNOWN_U16,
            memory_limit_b=_seen.limit_b(self._read, state),
        )
        worker = self.workers[address] = _Worker(number, state)
        return worker

    def left(self, address: str, stimulus_id: str) -> None:
        worker = self.workers.pop(address, None)
        if worker is None:
            return
        event, cause, evidence = as_seen(stimulus_id, worker.intent)
        values = _seen.membership(self._read, worker.state, worker.id, event, evidence)
        self.deaths.left(address, values, worker.state, cause)

    def writers(self) -> list[_writers.Writer]:
        """All known writers. The END of a worker that left without a report must be found by its id; present ones can be asked."""
        here = {self._uuid(worker.state) for worker in self.workers.values()}
        rows = [
            row._replace(state=_writers.LEFT)
            if row.state == _writers.UNKNOWN and row.uuid not in here and not row.text
            else row
            for row in self._roll.writers()
        ]
        return [self._recorder.writer(), *rows]

    def logged(self, topic: str, msg: dict[str, Any]) -> None:
        action = msg.get("action")
        if action == _writers.ACTION and topic == self._hook.name:
            self.reported(msg)
        elif self.deaths.logged(topic, msg, self._hook.name):
            return
        elif action == "worker-status-change":
            worker = self.workers.get(topic)
            if worker is not None:
                self._status_changed(worker, msg)
        elif action == "remove-worker" and topic == "all":
            worker = self.workers.get(msg.get("worker", ""))
            if worker is not None:
                worker.intent = worker.intent or bool(msg.get("expected"))
                self._write_lost(worker, msg)

    def answered(self, answer: dict[str, Any]) -> None:
        """A worker was given the plugin."""
        if report := of_answer(answer):
            self.reported(report)

    def reported(self, msg: dict[str, Any]) -> None:
        """A worker reported its own stream first, then those of processes beside it."""
        found = _writers.of_event(msg)
        self._roll.add(found)
        if msg.get(ANSWERS):
            self._answering.add(found[0].uuid)

    async def end_workers(self, here: list[str], limit_s: float | None) -> list[str]:
        """End the recording of the workers that can be asked from here; returns the addresses of the others."""
        known = {a: self._uuid(self.workers[a].state) for a in here if a in self.workers}
        asked = [address for address, uuid in known.items() if uuid in self._answering]
        answers: dict[str, Any] = {}
        try:
            run_id = self._recorder.config.run_id
            answers = await _messages.ask(
                self._scheduler, asked, limit_s=limit_s, op=END, run_id=run_id
            )
            for address, answer in answers.items():
                late = isinstance(answer, TimeoutError)
                self._roll.add_answers({address: answer if late else _writers.of_event(answer)})
        except Exception:
            logger.debug("crema: the client asks the workers", exc_info=True)
            answers = {}
        return [a for a in here if a not in answers and (a in self.workers or a not in known)]

    def _status_changed(self, worker: _Worker, msg: dict[str, Any]) -> None:
        before, now = msg.get("prev-status"), str(msg.get("status"))
        if now.startswith("closing"):
            worker.intent = True
        elif now == "paused":
            self._write_membership([worker], "pause", _EXPLICIT)
        elif before == "paused" and now == "running":
            self._write_membership([worker], "resume", _EXPLICIT)

    def _write_membership(self, workers: Iterable[_Worker], event: str, evidence: int) -> None:
        of = [_seen.membership(self._read, w.state, w.id, event, evidence) for w in workers]
        self._stream.rows(MEMBERSHIP, [MEMBERSHIP.row(**values) for values in of])

    def _uuid(self, state: Any) -> str:
        """Dask's id of a worker; empty if unknown, then the worker is identified by its address."""
        return self._read("dict/worker.uuid", lambda: text(state.server_id), "")

    # ---------------------------------------------------------------- work lost with a worker

    def _write_lost(self, worker: _Worker, msg: dict[str, Any]) -> None:
        """Record tasks that ran on a worker that left, and results that only it had; nbytes distinguishes the two."""
        rows = self._read(
            "task_events",
            lambda: _lost.rows(self._scheduler, self._recorder, worker.id, worker.state, msg),
            [],
        )
        self._stream.rows(TASK_EVENTS, rows)

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
        addresses = list(self.workers)
        if len(addresses) > _SAMPLED_A_TICK:
            first, self._next = self._next, (self._next + _SAMPLED_A_TICK) % len(addresses)
            addresses = (addresses + addresses)[first : first + _SAMPLED_A_TICK]
        self.guarded(self._write_samples, addresses)
        self.guarded(self._write_heartbeat)

    def _write_samples(self, addresses: Iterable[str]) -> None:
        if not self._recorder.config.track_workers:
            return
        t_ns = time.time_ns()
        workers = [self.workers[a] for a in addresses if a in self.workers]
        among = _seen.sharing(worker.state for worker in workers)
        rows = [_seen.sample(self._read, w.state, w.id, t_ns, among) for w in workers]
        self._stream.rows(_records.WORKER_SAMPLES, rows)

    def _write_heartbeat(self) -> None:
        self._stream.rows(_records.HEARTBEATS, [self._recorder.heartbeat_row(self._interval_s)])
