"""One line around an analysis: starts what records it, waits for the verdict, takes everything down again."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _attributes, _client, _cluster, _recorder
from ._agent import lock_is_held
from ._client import AggregatorClient
from ._config import HookConfig
from ._pipeline import PipelineError
from ._progress import Progress
from ._recorder import Recorder, end_marker
from ._records import KIND_CLIENT
from ._service import ConfiguredService, LocalService, Service

if TYPE_CHECKING:
    from distributed import Client

    from .chunks import ChunkHook

REPEAT_S = 0.5  # a message to the aggregator is repeated until it is answered
CONNECT_S = 0.02  # between attempts to send over a connection that is not there yet
OPEN_S = 20.0  # for the first answer
DISMISS_S = 10.0  # for the agents to leave after the verdict
LEAVE_S = 0.05  # between two looks at whether they have
_NEVER_S = 3600.0  # between samples that nobody asked for
_AGENT_SAMPLES_S = 0.1  # an agent samples no more often


class CremaError(RuntimeError):
    """A run cannot be recorded; raised before the analysis starts, never after."""


class MetricsCollector:
    """Record the analysis inside a ``with`` block into one run file.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster that the analysis runs on. None for executors that work on this machine (Iterative, Futures).
    processor_instance : object, optional
        The processor, or function, that the Runner will be given: tells its tasks from Dask's overhead.
    output : path, optional
        Directory of the run file; made if it is not there.
    run_label : str, optional
        A name for people.
    sample_interval : float, optional
        Seconds between two samples of a worker.
    track_workers : bool, optional
        False: the state of the workers is not sampled. Chunks, activities, tasks and who was there are recorded all the same.
    attributes : mapping, optional
        More root attributes of the run file, such as ``{"chunksize": 100_000}``.
    host : str, optional
        Address that the workers reach this machine by, if it is not the one that faces the scheduler.
    timeout : float, optional
        Seconds without any progress after which the wait for the verdict ends.
    quiet : bool, optional
        True: print neither progress nor tables.

    Attributes
    ----------
    run_id : str
        UUID of the run.
    path : pathlib.Path or None
        The run file, after the block.
    verdict : str or None
        ``COMPLETE``, ``PARTIAL``, or ``UNKNOWN`` where no verdict was to be had; after the block.
    reasons : list of dict
        ``code``, ``subject``, ``count``, ``text`` of what is missing; empty if the verdict is COMPLETE.

    Raises
    ------
    CremaError
        On entering, if the run could not be recorded: a worker without crema, a directory that cannot be written, a program
        that does not start. On leaving it never raises: what went wrong is in `verdict` and `reasons`.

    Notes
    -----
    Chunks are recorded by the Runner's checkpointer::

        with crema.MetricsCollector(client, processor_instance=instance) as mc:
            run = processor.Runner(executor=..., checkpointer=mc.checkpointer, savemetrics=True)
            output, report = run(fileset, processor_instance=instance)
            mc.set_coffea_report(report)

    With ``CREMA_AGGREGATOR`` (and ``CREMA_KEYS``) in the environment that pipeline is used; otherwise a sink and an
    aggregator are started beside the client. Workers with ``CREMA_SPOOL`` in their environment write there and start no agent.
    """

    def __init__(
        self,
        client: Client | None = None,
        processor_instance: Any = None,
        *,
        output: str | os.PathLike = ".",
        run_label: str = "",
        sample_interval: float = 1.0,
        track_workers: bool = True,
        attributes: Mapping[str, Any] | None = None,
        host: str | None = None,
        timeout: float = 300.0,
        quiet: bool = False,
    ) -> None:
        if not 0.01 <= sample_interval <= _NEVER_S:
            raise ValueError(f"{sample_interval=} is not within 0.01 s and an hour")
        if timeout <= 0:
            raise ValueError(f"{timeout=} must be positive")
        run_id = _attributes.new_run_id()
        self.run_id = str(run_id)
        self.path: pathlib.Path | None = None
        self.verdict: str | None = None
        self.reasons: list[dict[str, Any]] = []
        self.revision = 0
        self._run_id = run_id
        self._client = client
        self._processor = processor_instance
        self._output = pathlib.Path(output).expanduser().absolute()
        self._run_label = run_label
        self._sample_interval_s = sample_interval
        self._track_workers = track_workers
        self._agent_samples_s = (
            max(sample_interval, _AGENT_SAMPLES_S) if track_workers else _NEVER_S
        )
        self._extra = dict(attributes or {})
        self._host = host
        self._timeout_s = timeout
        self._quiet = quiet
        self._service: Service | None = None
        self._own_agent = False  # one that serves the executors of this machine
        self._link: AggregatorClient | None = None
        self._config: HookConfig | None = None
        self._recorder: Recorder | None = None  # of this process, where there is no cluster
        self._hooks: list[tuple[Any, str]] = []  # undo function, name
        self._report: dict[str, str] = {}
        self._sealed = False
        self._t_start_ns = 0

    # -------------------------------------------------------------- during the run

    @property
    def checkpointer(self) -> ChunkHook:
        """What the Runner's ``checkpointer`` is to be: records each attempt at a chunk, keeps no checkpoints."""
        return self.checkpointer_around(None)

    def checkpointer_around(self, own: Any) -> ChunkHook:
        """Record each attempt at a chunk, with a checkpointer of your own behind it."""
        from .chunks import ChunkHook

        if self._config is None:
            raise CremaError("the checkpointer belongs to a run: ask for it inside the with block")
        # It travels with every chunk, and never starts an agent: the keys stay out of it.
        return ChunkHook(dataclasses.replace(self._config, keys=None), own)

    def set_coffea_report(self, report: Mapping[str, Any]) -> None:
        """Keep the report of ``savemetrics=True`` in the run file, as metrics ``coffea.*`` of its table ``custom``."""
        self._report = _attributes.of_report(report)

    # -------------------------------------------------------------- after the run

    def get_metrics(self) -> dict[str, float]:
        """Metrics of the whole run, name to value, in the units of ``summary/workflow``."""
        from .reader import open as open_run

        with open_run(self._file()) as run:
            return run.summary()

    def print_summary(self) -> None:
        """Print the tables of the run file."""
        from .report import print_report

        print_report(self._file())

    def _file(self) -> pathlib.Path:
        if self.path is None or not self.path.is_file():
            raise CremaError(f"there is no run file of run {self.run_id} on this machine")
        return self.path

    # -------------------------------------------------------------- entering

    def __enter__(self) -> MetricsCollector:
        if self._t_start_ns:
            raise CremaError("a collector records one run: make another one")
        try:
            self._start()
        except (PipelineError, _cluster.ClusterError, FileNotFoundError, OSError) as error:
            self._take_down()
            raise CremaError(str(error)) from error
        except BaseException:
            self._take_down()
            raise
        return self

    def _start(self) -> None:
        with_scheduler = self._client is not None and _cluster.check(self._client)
        self._start_service()
        self._config = self._make_config()
        self._link = AggregatorClient(self._service.endpoint, self._service.keys)
        self._t_start_ns = time.time_ns()
        self._open()
        self._t_start_ns = self._on_the_sinks_clock(self._t_start_ns)
        if self._client is not None:
            self._register(with_scheduler)
        else:
            self._record_client()

    def _record_client(self) -> None:
        """A stream of this process itself: a run that has no chunk at all still has somebody who says that it is over."""
        name = f"{socket.gethostname()}:{os.getpid()}"
        self._recorder = Recorder(self._config, kind=KIND_CLIENT, uuid="", name=name)
        _recorder.announce(self._config)

    def _start_service(self) -> None:
        endpoint = os.environ.get("CREMA_AGGREGATOR")
        if endpoint:
            keys = os.environ.get("CREMA_KEYS")
            self._service = ConfiguredService(
                self._run_id, endpoint, pathlib.Path(keys) if keys else None
            )
        else:
            must_be_writable(self._output)
            local = self._client is None
            host = self._host or ("127.0.0.1" if local else _cluster.address_facing(self._client))
            self._service = LocalService(self._run_id, self._output, host)
            self._service.start()
        self._own_agent = self._client is None and not os.environ.get("CREMA_SPOOL")
        if self._own_agent:
            self._service.start_agent(self._agent_samples_s)

    def _make_config(self) -> HookConfig:
        here = {"spool": str(self._service.spool), "start_agent": False} if self._own_agent else {}
        return HookConfig(
            run_id=self.run_id,
            aggregator=self._service.endpoint,
            keys=self._service.key_texts or None,
            sample_interval_s=self._sample_interval_s,
            track_workers=self._track_workers,
            agent_options=(
                *("--sample-interval", f"{self._agent_samples_s:g}s"),
                # An operator's aggregator outlives this client: an agent that is told to leave waits for it.
                *(() if self._service.owned else ("--drain-timeout", "1h")),
            ),
            client="" if self._client is None else self._client.id,
            **here,
        )

    def _open(self) -> None:
        """Announce the run, until the aggregator knows it."""
        attributes = _attributes.of_client(
            {
                "run_label": self._run_label,
                "processor_name": _attributes.processor_name(self._processor),
                "sample_interval_s": self._sample_interval_s,
                **(_attributes.of_cluster(self._client) if self._client is not None else {}),
                **self._extra,
            }
        )
        message = {
            "run_id": self._run_id.bytes,
            "t_start_ns": self._t_start_ns,
            "keys": list(attributes),
            "values": list(attributes.values()),
            "processor_prefixes": _attributes.processor_prefixes(self._processor),
        }
        deadline = time.monotonic() + OPEN_S
        while time.monotonic() < deadline:
            sent = self._link.send(_client.RUN_OPEN, **message)
            for state in self._link.states(self._run_id.bytes, REPEAT_S if sent else CONNECT_S):
                if state.phase == _client.FAILED:
                    raise CremaError(f"the run could not be opened: {state.error}")
                if state.phase != _client.UNKNOWN:
                    return
        trouble = self._service.trouble()
        raise CremaError(
            f"no aggregator answered at {self._service.endpoint} within {OPEN_S:g} s"
            + (f": {trouble}" if trouble else "")
        )

    def _on_the_sinks_clock(self, t_ns: int) -> int:
        """A time of this host as the services tell it; a difference within what its measurement allows is none."""
        offset_ns, bound_ns = self._link.clock(self._run_id.bytes)
        return t_ns - offset_ns if abs(offset_ns) > bound_ns else t_ns

    def _register(self, with_scheduler: bool) -> None:
        from .scheduler import SchedulerHook
        from .worker import WorkerHook

        if with_scheduler:
            hook = SchedulerHook(self._config)
            self._hooks.append((_cluster.unregister_scheduler, hook.name))
            _cluster.register(self._client, hook)
        else:
            self._say(
                "crema: the scheduler takes no plugins: when workers came and left is not recorded"
            )
        hook = WorkerHook(self._config)
        self._hooks.append((_cluster.unregister_workers, hook.name))
        _cluster.register(self._client, hook)
        _cluster.check_recording(self._client, self._config.run_id)

    # -------------------------------------------------------------- leaving

    def __exit__(self, exc_type: Any, exc: BaseException | None, tb: Any) -> None:
        t_end_ns = time.time_ns()
        try:
            self._flush()
            self._await_verdict(t_end_ns, exc)
        except Exception as error:
            # Recording failed, the analysis did not: its result is worth more than this exception.
            self._give_up("collector_failed", f"{type(error).__name__}: {error}")
        except BaseException:
            self._give_up("interrupted", "the wait for the verdict was interrupted")
            raise
        finally:
            left = self._take_down()
            if left:
                self._say(f"crema: records that were not delivered are kept in {left}")
        self._tell()

    def _flush(self) -> None:
        """Have every process write its last records, then end the streams of this one."""
        from . import chunks

        while self._hooks:
            undo, name = self._hooks.pop()
            try:
                undo(self._client, name)
            except Exception as error:
                # The cluster may be gone; the barrier finds out what that cost.
                self._say(f"crema: {error}")
        with contextlib.suppress(OSError):
            chunks.close(self._config.run_id)
            if self._client is None:
                end_marker(self._config).touch()
        self._close_recorder()

    def _close_recorder(self) -> None:
        if self._recorder is not None:
            _recorder.announce(None)
            self._recorder.close("error")
            self._recorder = None

    def _await_verdict(self, t_end_ns: int, exc: BaseException | None) -> None:
        attributes = dict(self._report)
        if exc is not None:
            lines = traceback.format_exception_only(type(exc), exc)
            attributes["exception"] = _attributes.text("".join(lines).strip())
        if self._service.supervisor.restarts:
            attributes["pipeline_restarts"] = _attributes.text(self._service.supervisor.restarts)
        message = {
            "run_id": self._run_id.bytes,
            "t_start_ns": self._t_start_ns,
            "t_end_ns": self._on_the_sinks_clock(t_end_ns),
            "keys": list(attributes),
            "values": list(attributes.values()),
            "processor_prefixes": _attributes.processor_prefixes(self._processor),
            "dismiss": True,
        }
        state = self._repeat_until_sealed(message)
        if state is None or state.phase not in (_client.SEALED, _client.FAILED):
            trouble = self._service.trouble()
            text = trouble or f"no progress for {self._timeout_s:g} s"
            self._give_up("no_verdict", f"{text}; {_progress_text(state)}")
            return
        self._take(state)
        self._see_agents_off(message)

    def _repeat_until_sealed(self, message: dict[str, Any]) -> Any:
        """Say RUN_END until the file is there, the pipeline is lost or nothing moves any more; the last RunState."""
        state, moved_at, before = None, time.monotonic(), None
        with contextlib.ExitStack() as stack:
            progress = None if self._quiet else stack.enter_context(Progress())
            while time.monotonic() - moved_at < self._timeout_s and not self._service.trouble():
                self._link.send(_client.RUN_END, **message)
                for state in self._link.states(self._run_id.bytes, REPEAT_S):
                    if state.phase in (_client.SEALED, _client.FAILED):
                        return state
                    now = (state.phase, state.committed, state.missing, len(state.waiting_for))
                    if now != before:
                        before, moved_at = now, time.monotonic()
                if progress is not None:
                    progress.show(state)
        return state

    def _see_agents_off(self, message: dict[str, Any]) -> None:
        """Agents that were started for this run leave when the aggregator dismisses them: it must live until then."""
        supervisor = self._service.supervisor
        if self._own_agent:
            supervisor.dismiss("crema-agent")
        elif not self._service.owned:
            return  # the aggregator stays, and sees to it
        deadline = time.monotonic() + DISMISS_S
        while time.monotonic() < deadline:
            if self._own_agent and not supervisor.alive("crema-agent"):
                return
            self._link.send(_client.RUN_END, **message)
            for state in self._link.states(self._run_id.bytes, LEAVE_S):
                if state.agents == 0 and not self._agent_is_here():
                    return

    def _agent_is_here(self) -> bool:
        """Whether an agent that a worker on this host started is still there."""
        return self._config.serves() and lock_is_held(self._config.spool_dir() / "agent.lock")

    def _take(self, state: Any) -> None:
        self.verdict = state.verdict or "UNKNOWN"
        self._sealed = state.phase == _client.SEALED
        self.path = pathlib.Path(state.path) if state.path else None
        self.revision = state.revision
        self.reasons = [
            {"code": r.code, "subject": r.subject, "count": r.count, "text": r.text}
            for r in state.reasons
        ]
        if state.phase == _client.FAILED:
            self._give_up("file_not_written", state.error)

    def _give_up(self, code: str, text: str) -> None:
        self.verdict = "UNKNOWN"
        self.reasons.append({"code": code, "subject": self.run_id, "count": 0, "text": text})

    def _take_down(self) -> str:
        """End what was started; where undelivered records lie, if there are any."""
        while self._hooks:
            undo, name = self._hooks.pop()
            with contextlib.suppress(Exception):
                undo(self._client, name)
        self._close_recorder()
        if self._config is not None and self._client is None:
            with contextlib.suppress(OSError):
                end_marker(self._config).unlink()
        if self._link is not None:
            self._link.close()
            self._link = None
        service, self._service = self._service, None
        left = [service.close(sealed=self._sealed)] if service is not None else []
        if self._config is not None and not self._own_agent:
            spool = self._config.spool_dir()  # of the workers on this host, if there are any
            left += [str(spool)] if self._config.serves() and any(spool.glob("sp-*")) else []
        return " and ".join(filter(None, left))

    def _tell(self) -> None:
        """Verdict and tables, for people."""
        if self.verdict == "UNKNOWN":
            for reason in self.reasons:
                self._say(f"crema: no verdict: {reason['text']}")
        elif not self._quiet and self.path is not None and self.path.is_file():
            from .report import print_report

            try:
                print_report(self.path)
            except Exception as error:
                self._say(f"crema: {self.path} cannot be shown: {error}")
        elif not self._quiet:
            self._say(
                f"crema: verdict {self.verdict}; the run file is {self.path} on the sink's host"
            )

    @staticmethod
    def _say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def must_be_writable(directory: pathlib.Path) -> None:
    """Make a directory, and a file in it.

    Raises
    ------
    CremaError
        If that does not work: better now than when the run is over.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".crema-", dir=directory):
            pass
    except OSError as error:
        raise CremaError(f"run files cannot be written to {directory}: {error}") from error


def _progress_text(state: Any) -> str:
    from ._progress import describe

    return describe(state).removeprefix("crema: ")
