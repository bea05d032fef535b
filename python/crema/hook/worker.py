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
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from distributed import WorkerPlugin

from . import _cgroup, _process, _recorder, _records, _travel, _tree, _writers
from ._agent import AgentKeeper, dismiss, key_event, key_topic, lock_is_held
from ._config import HookConfig
from ._dask import mapping, or_else, u16
from ._digests import ActivityTotals
from ._records import MEMBERSHIP, WORKER_SAMPLES
from ._reports import ANSWERS, END
from ._spool import only_its_agent_writes
from ._tasks import Tasks
from ._way import Way, over

logger = logging.getLogger("crema")

_STAYS = frozenset({"running", "paused"})  # Dask's states of a worker that is not leaving
_STATUS = {n: WORKER_SAMPLES.label("status", n) for n in ("running", "paused", "closing", "lost")}
_SOURCE = WORKER_SAMPLES.label("source", "worker")
_NOT_FOR_TASKS = frozenset({"offload", "actor"})  # Dask's executors
_DELIVERY_S = 2.0  # time to deliver the last records of a worker that leaves
_DELIVERY_LOOK_S = 0.02

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
        self._answers = False  # the scheduler's plugin can end the recording
        self._retired: Any = None  # the worker, if its recording ended because it was retired
        self.reports = True  # by an event; False where the report is the answer to the message that adds the plugin

    def __reduce__(self) -> tuple:
        substitute = WorkerPlugin()
        substitute.name = self.name
        return _travel.reduced("worker", self.config, substitute)

    def setup(self, worker: Any) -> None:
        """Open the worker's stream and start recording."""
        try:
            resumes = bool(self._writers)
            self._follower = _Follower(self.config, worker, self._end_if_retired, resumes)
        except Exception as error:
            logger.warning("crema: this worker is not recorded", exc_info=True)
            text = f"{type(error).__name__}: {error}"
            name, uuid = getattr(worker, "address", ""), getattr(worker, "id", "")
            self._writers = [_writers.Writer(name, state=_writers.SILENT, uuid=uuid, text=text)]
            return
        _hooks[self.config.run_id, id(worker)] = self
        if self.config.serves() and self._way is None:
            try:
                self._way = Way(over(worker, self.config.run_id), self.config.spool_dir())
            except Exception:
                logger.warning("crema: no records travel over Dask from here", exc_info=True)
        self._answers = _add_operation(worker)
        if self.reports:
            self._tell(self.report(), worker)

    def teardown(self, worker: Any) -> Awaitable[None] | None:
        """Write the last totals and the end of the stream; they are on disk when this returns.

        A leaving worker awaits the result: until its records are durable elsewhere, two seconds at most.
        """
        recording = self._follower is not None
        if recording:
            self._tell(_writers.event(self.finish()), worker)
        elif self._writers and self._retired is None:  # already reported
            with contextlib.suppress(OSError):  # nothing could be written there
                _writers.register_path(self.config.spool_dir(), self.config.run_id).unlink()
        streams = [writer.stream.hex() for writer in self._writers if writer.stream]
        if streams and not _stays(worker):
            return self._see_delivered(streams)
        self._close_way(over=recording)  # only the plugin goes, so the run is over
        return None

    async def _see_delivered(self, streams: list[str]) -> None:
        """Wait for the agent; a stream leaves the spool when all of it is durable in the sink.

        With the last worker the agent leaves too.
        """
        directory, until = self.config.spool_dir(), time.monotonic() + _DELIVERY_S
        asked = False
        try:
            while time.monotonic() < until and lock_is_held(directory / "agent.lock"):
                if not asked and not any(any(directory.glob(f"sp-{s}-*")) for s in streams):
                    if not self.config.serves() or not only_its_agent_writes(directory):
                        break
                    # A batch system kills what a job leaves behind, and a killed agent counts as lost.
                    dismiss(self.config)
                    asked = True
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
            self._writers = [*self._writers, follower.writer()]
        others = _writers.registered(self.config.spool_dir(), self.config.run_id)
        return self._writers + others

    def report(self) -> dict[str, Any] | None:
        """The open stream, for the scheduler's plugin; None if there is none."""
        if self._follower is None:
            return None
        return _writers.event([self._follower.writer()]) | {ANSWERS: self._answers}

    def _tell(self, report: dict[str, Any] | None, worker: Any) -> None:
        """Send a report to the scheduler's plugin, in case this worker has left when the run ends."""
        try:
            worker.log_event(self.name, report)
        except Exception:
            logger.debug("crema: a stream was not reported to the scheduler", exc_info=True)

    def transition(self, key: Hashable, start: str, finish: str, **kwargs: Any) -> None:
        """Follow the transition of a task."""
        if self._follower is not None:
            self._follower.tasks.transition(key, start, finish)
            self._end_if_retired(self._follower)
        elif self._retired is not None and finish == "executing" and _stays(self._retired):
            worker, self._retired = self._retired, None
            self.setup(worker)  # it was not retired after all

    def _end_if_retired(self, follower: _Follower) -> None:
        """End the recording of a worker that is retired once no task runs on it: Dask's nanny kills it if the rest takes long."""
        worker = follower.worker
        if follower is self._follower and not _stays(worker) and _n_executing(worker) == 0:
            self._retired = worker
            self._tell(_writers.event(self.finish()), worker)

    def status(self) -> dict[str, Any]:
        """State of this worker's recording, for queries over Dask."""
        return {} if self._follower is None else self._follower.status()


def finish(run_id: str, dask_worker: Any) -> list[_writers.Writer]:
    """End a run's recording on a worker and return its writers: ``client.run(crema.hook.worker.finish, run_id)``."""
    hook = _find(run_id, dask_worker)
    if hook is not None:
        return hook.finish()
    text = "crema's plugin is not on this worker"
    name, uuid = getattr(dask_worker, "address", ""), getattr(dask_worker, "id", "")
    return [_writers.Writer(name, state=_writers.SILENT, uuid=uuid, text=text)]


def report(run_id: str, dask_worker: Any) -> dict[str, Any] | None:
    """A worker's report of its stream; None where the plugin does not record."""
    hook = _find(run_id, dask_worker)
    return None if hook is None else hook.report()


def status(run_id: str, dask_worker: Any) -> dict[str, Any]:
    """State of a run's recording on a worker: ``client.run(crema.hook.worker.status, run_id)``.

    Returns
    -------
    dict
        Empty where the plugin is not active; else ``stream_id``, ``uuid``, ``spool``, ``records``,
        ``dropped``, ``agent`` (``"held"``: one serves the spool; ``"none"``; ``"operator"``:
        started by an operator) and ``problem`` (text, empty if there is none).
    """
    hook = _find(run_id, dask_worker)
    return {} if hook is None else hook.status()


def _add_operation(worker: Any) -> bool:
    """Let the scheduler's plugin end recordings of this worker from now on; False if that is not possible."""

    def end(run_id: str) -> dict[str, Any]:
        return _writers.event(finish(run_id, worker))

    try:
        worker.handlers.setdefault(END, end)  # Dask keeps every handler that was ever called
    except Exception:
        return False
    return True


def _find(run_id: str, dask_worker: Any) -> WorkerHook | None:
    run_id = HookConfig(run_id).run_id
    plugins = getattr(dask_worker, "plugins", None)
    if isinstance(plugins, dict):
        hook = plugins.get(f"crema-{run_id}")
        return hook if isinstance(hook, WorkerHook) else None
    return _hooks.get((run_id, id(dask_worker)))


class _Follower:
    """A worker's recording during the run."""

    def __init__(
        self,
        config: HookConfig,
        worker: Any,
        after_tick: Callable[[_Follower], None],
        resumes: bool,
    ) -> None:
        self.worker = worker
        self._after_tick = after_tick
        self._interval_s = config.sample_interval_s
        self._memory_limit_b, nthreads = or_else(lambda: _limit_b(worker), -1), _nthreads(worker)
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
        totals = self._read("activities", lambda: mapping(worker.digests_total), {})
        self._totals = ActivityTotals(totals, stream, self._worker_id)
        rows = self._totals.baseline()
        rows += self._totals.busy(self._elapsed(), {}, baseline=1)
        stream.rows(_records.ACTIVITIES, rows)
        self.tasks = Tasks(worker, self._recorder, self._totals, resumes)
        self._paused = False
        self._tree = _tree.Tree(lambda: _tree.recorded(config))
        self._used = self._tree.used()  # by the whole process, at the last sample
        self._used_at = time.monotonic()
        self._disk = [0, 0]  # this worker's share, cumulative
        self._waits = _process.ThreadWaits()
        self._quota = _cgroup.Quota()
        self._gil = math.nan  # at the last sample
        self._looking: asyncio.Future | None = None
        self.agent = None
        if config.serves():
            self.agent = AgentKeeper(config, self._recorder.directory, self._announce_key)
        self._recorder.look(self.tasks.by_thread)
        _recorder.register(self._recorder, self._owner)
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()
        self._timer = self._loop.call_soon(self._tick)
        if self.agent is not None:
            self.agent.watch(self._loop)

    def close(self) -> None:
        self._timer.cancel()
        if self.agent is not None:
            self.agent.writers_end()
        _recorder.forget(self._recorder.config.run_id, self._owner)
        self.tasks.close()
        for write in (self._write_totals, self._write_sample):
            self._recorder.guarded(write)
        # A worker that stays outlives the run: tasks still running on it were abandoned, not lost.
        self._recorder.close("cancelled" if _stays(self.worker) else "lost")

    def _announce_key(self, key: str) -> None:
        with contextlib.suppress(Exception):  # the worker is closing; another one announces it
            self.worker.log_event(key_topic(self._recorder.config.run_id), key_event(key))

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

    # ---------------------------------------------------------------- every interval

    def _tick(self) -> None:
        began_ns = time.thread_time_ns()
        now = self._loop.time()
        lag_s = max(now - self._due, 0.0)
        self._due += self._interval_s
        if self._due <= now:
            self._due = now + self._interval_s
        self._timer = self._loop.call_at(self._due, self._tick)
        self._recorder.guarded(self._write_totals)
        self._recorder.guarded(self._write_sample, lag_s)
        self._recorder.stream.spent(began_ns)
        self._recorder.guarded(self._after_tick, self)

    def _write_totals(self) -> None:
        rows = self._totals.changes()
        rows += self._totals.busy(self._elapsed(), self.tasks.foreign_busy.seconds())
        rows += self._totals.seceded(self.tasks.seceded)
        self._recorder.stream.rows(_records.ACTIVITIES, rows)

    def _elapsed(self) -> dict[tuple[str, str], float]:
        """Thread-seconds by prefix and state; empty if Dask does not count them."""
        return self._read(
            "activities.busy",
            lambda: mapping(self.worker.state.task_counter.cumulative_elapsed()),
            {},
        )

    def _write_sample(self, lag_s: float = math.nan) -> None:
        worker, stream = self.worker, self._recorder.stream
        stream.rows(_records.HEARTBEATS, [self._recorder.heartbeat_row(self._interval_s)])
        status = self._read("worker_samples.status", lambda: str(worker.status.name), "running")
        self._write_pause(status == "paused")
        if not self._recorder.config.track_workers:
            return
        used = self._tree.used()
        sharing = _recorder.sharing(self._recorder.config.run_id, self._owner)
        cpu_pct, disk_read_b, disk_write_b = self._since_last(used, sharing)
        net_read_b, net_write_b = _process.net_io_b()
        cpu_quota, cpu_throttled = self._read(
            "worker_samples.cpu_quota", self._quota.throttled, (math.nan, math.nan)
        )
        unknown = _records.UNKNOWN_U16
        self._look()

        def sampled(column: str, read: Callable[[Any], Any], otherwise: Any) -> Any:
            return self._read(f"worker_samples.{column}", lambda: read(worker), otherwise)

        row = WORKER_SAMPLES.row(
            t_ns=time.time_ns(),
            cpu_pct=cpu_pct,
            rss_b=used.rss_b if used.rss_b < 0 else used.rss_b // sharing,
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
            nthreads=sampled("nthreads", lambda w: u16(w.state.nthreads), unknown),
            executing=sampled("executing", _n_executing, unknown),
            ready=sampled("ready", _n_ready, unknown),
            status=_dask_status(status),
            source=_SOURCE,
            cpu_wait_s=sampled("cpu_wait_s", self._cpu_wait_s, math.nan),
            process_workers=u16(sharing),
            processes=u16(used.processes),
            memory=used.memory,
            cpu_quota=cpu_quota,
            cpu_throttled=cpu_throttled,
        )
        stream.rows(WORKER_SAMPLES, [row])

    def _since_last(self, used: _tree.Used, sharing: int) -> tuple[float, int, int]:
        """Share of the worker in what its process has used: percent of a core since the last sample, cumulative bytes read and written."""
        then, now = self._used, time.monotonic()
        took_s, self._used, self._used_at = now - self._used_at, used, now
        for i, (new_b, old_b) in enumerate(zip(used[2:4], then[2:4], strict=True)):
            self._disk[i] += max(new_b - max(old_b, 0), 0) // sharing
        disk = [-1 if new_b < 0 else self._disk[i] for i, new_b in enumerate(used[2:4])]
        cpu_pct = 100 * (used.cpu_s - then.cpu_s) / took_s / sharing if took_s > 0 else math.nan
        return cpu_pct, disk[0], disk[1]

    def _gil_contention(self, worker: Any) -> float:
        """Share of time that the GIL is held: Dask's own measurement if there is one (gilknocker), else the last sample."""
        values = worker.monitor.quantities.get("gil_contention")
        if values:
            return float(values[-1])
        return self._gil

    def _look(self) -> None:
        """Start what takes milliseconds, in a thread: whether the GIL is held, and a tree's memory when that is due."""
        if self._looking is not None and not self._looking.done():
            return
        if not self._recorder.stream.alive:
            return
        with contextlib.suppress(RuntimeError):  # no thread can be started: the last values stay
            self._looking = self._loop.run_in_executor(None, self._look_in_thread)

    def _look_in_thread(self) -> None:
        self._gil = _process.gil_held()
        if self._tree.is_due():
            self._tree.measure_memory()

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
            nthreads=or_else(lambda: u16(self.worker.state.nthreads), _records.UNKNOWN_U16),
            event=MEMBERSHIP.label("event", "pause" if paused else "resume"),
            evidence=MEMBERSHIP.label("evidence", "explicit"),
            t_uncertainty_ns=int(self._interval_s * 1e9),
        )
        self._recorder.stream.rows(MEMBERSHIP, [row])


def _stays(worker: Any) -> bool:
    """Whether it is not leaving."""
    return or_else(lambda: worker.status.name in _STAYS, True)


def _limit_b(worker: Any) -> int:
    """Memory limit; -1 for none."""
    limit = worker.memory_manager.memory_limit
    return -1 if limit is None else int(limit)


def _nthreads(worker: Any) -> int:
    """Task slots; 0 if unknown."""
    return or_else(lambda: int(worker.state.nthreads), 0)


def _n_executing(worker: Any) -> int:
    return u16(len(worker.state.executing) + len(worker.state.long_running))


def _n_ready(worker: Any) -> int:
    return u16(len(worker.state.ready) + len(worker.state.constrained))


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
