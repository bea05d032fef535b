"""Records an analysis in a ``with`` block: starts the pipeline, waits for the verdict, and ends everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from ..hook import _columns, _recorder, _unix, _writers
from ..hook._agent import KEY_ACTION, key_topic
from ..hook._config import HookConfig
from ..hook._recorder import Recorder, end_marker
from ..hook._records import KIND_CLIENT
from . import _attributes, _client, _cluster, _keys, _runner
from ._alive import SignOfLife
from ._carrier import Carrier
from ._client import AggregatorClient
from ._host_agent import HostAgent
from ._pipeline import PipelineError
from ._progress import NoDisplay, Progress
from ._reach import Reach
from ._service import ConfiguredService, LocalService, Service

if TYPE_CHECKING:
    from distributed import Client

    from ..hook.chunks import ChunkHook
    from ..read.live import Display

REPEAT_S = 0.5  # a message to the aggregator is repeated until it is answered
CONNECT_S = 0.02  # between attempts to send over a connection that is not there yet
OPEN_S = 20.0  # for the first answer
DISMISS_S = 10.0  # for the agents to exit after the verdict
ORPHAN_S = (
    60.0  # after which an agent without writers gives up an aggregator that ended with its client
)
LEAVE_S = 0.05  # between two checks whether they have
_NEVER_S = 3600.0  # between samples that were not requested
_AGENT_SAMPLES_S = 0.1  # minimum sample interval of an agent


class CremaError(RuntimeError):
    """A run cannot be recorded, or one of its files is missing."""


class MetricsCollector:
    """Record the analysis inside a ``with`` block into one run file.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster that the analysis runs on. None for executors that work on this machine (Iterative, Futures).
    processor_instance : object, optional
        The processor or function that the Runner will get: distinguishes its tasks from Dask's overhead.
    backend : {"dask"}, optional
        As in roastcoffea; also accepted as the second argument. Other executors are recorded too.
    output : path, optional
        Directory of the run file; created if it is missing.
    run_label : str, optional
        A descriptive name.
    sample_interval : float, optional
        Seconds between two samples of a worker; ``worker_tracking_interval`` is an alias.
    track_workers : bool, optional
        False: the state of the workers is not sampled. Chunks, activities, tasks and who was there are recorded all the same.
    attributes : mapping, optional
        More root attributes of the run file, such as ``{"chunksize": 100_000}``. Attributes that
        only the sink writes, such as ``format`` or ``verdict``, are refused.
    advertise : str, optional
        Address or name by which workers reach this machine, if it is not one of its own (a
        forwarded port); followed by a colon and the port if that differs; several separated by
        commas. Default: ``CREMA_ADVERTISE``. Hosts that reach none of the addresses send their
        records over Dask.
    port : int, str or pair of int, optional
        Port, or first and last port, that workers can reach on this machine: ``4000``, ``"10000-10100"``. Default: ``CREMA_PORT``, otherwise any port.
    timeout : float, optional
        Seconds without progress after which waiting for the verdict ends.
    quiet : bool, optional
        True: print only errors.
    report : {"brief", "full", "none"}, optional
        What to print on standard error at the end of the run: six lines, all tables, or nothing.
    on_error : {"warn", "raise"}, optional
        How to handle a run that cannot be recorded. ``"warn"``: one line on standard error gives
        the reason, the analysis runs unrecorded, the verdict is ``UNKNOWN``; crema raises nothing
        inside the block or on leaving it. ``"raise"``: entering the block raises.

    Attributes
    ----------
    run_id : str
        UUID of the run.
    path : pathlib.Path or None
        The run file, after the block.
    verdict : str or None
        ``COMPLETE``, ``PARTIAL``, or ``UNKNOWN`` if there is none; after the block.
    reasons : list of dict
        ``code``, ``subject``, ``count``, ``text`` of everything missing; empty if the verdict is COMPLETE.
    notes : list of dict
        The same for facts worth knowing although nothing is missing: files that coffea dropped
        (``skipbadfiles``), calls of ``apply_to_fileset`` and ``NanoEventsFactory`` that read input
        without a Runner (``input_direct``; in the file the attribute ``coffea.direct_calls``).

    Raises
    ------
    ValueError
        At once, if an argument is invalid.
    CremaError
        With ``on_error="raise"``, on entering, if the run or a worker could not be recorded: a worker without crema, a directory that
        cannot be written, a program that does not start. Leaving the block never raises: errors are in `verdict` and `reasons`.

    Notes
    -----
    Chunks are recorded by a checkpointer, which is given to every Runner called inside the block::

        with crema.MetricsCollector(client, processor_instance=instance) as mc:
            run = processor.Runner(executor=..., savemetrics=True)
            output, report = run(fileset, processor_instance=instance)
            mc.set_coffea_report(report)

    With an asynchronous client use ``async with crema.MetricsCollector(client)``; the event loop never waits for it.

    A Runner that is called elsewhere, such as in another process, needs ``checkpointer=mc.checkpointer``.

    With ``CREMA_AGGREGATOR`` (and ``CREMA_KEYS``) in the environment that pipeline is used;
    otherwise a sink and an aggregator are started beside the client. Workers with ``CREMA_SPOOL``
    in their environment write to that spool and start no agent.
    """

    def __init__(
        self,
        client: Client | None = None,
        processor_instance: Any = None,
        *,
        backend: str = "dask",
        output: str | os.PathLike = ".",
        run_label: str = "",
        sample_interval: float = 1.0,
        worker_tracking_interval: float | None = None,
        track_workers: bool = True,
        attributes: Mapping[str, Any] | None = None,
        advertise: str | None = None,
        port: int | str | tuple[int, int] | None = None,
        timeout: float = 300.0,
        quiet: bool = False,
        report: Literal["brief", "full", "none"] = "brief",
        on_error: Literal["warn", "raise"] = "warn",
    ) -> None:
        if isinstance(processor_instance, str):  # roastcoffea's second argument
            backend, processor_instance = processor_instance, None
        if backend != "dask":
            raise ValueError(f"{backend=}: only 'dask' is there, for every executor")
        if worker_tracking_interval is not None:
            sample_interval = worker_tracking_interval
        if report not in ("brief", "full", "none"):
            raise ValueError(f"{report=} is none of 'brief', 'full' and 'none'")
        if on_error not in ("warn", "raise"):
            raise ValueError(f"{on_error=} is neither 'warn' nor 'raise'")
        if not 0.01 <= sample_interval <= _NEVER_S:
            raise ValueError(f"{sample_interval=} is not within 0.01 s and an hour")
        if timeout <= 0:
            raise ValueError(f"{timeout=} must be positive")
        _attributes.must_be_free(attributes or {})
        run_id = _attributes.new_run_id()
        self.run_id = str(run_id)
        self.path: pathlib.Path | None = None
        self.verdict: str | None = None
        self.reasons: list[dict[str, Any]] = []
        self.notes: list[dict[str, Any]] = []
        self.revision = 0
        self._run_id = run_id
        self._client = client
        self._own_client: Client | None = None  # in place of one that was closed inside the block
        self._address = ""  # of the scheduler
        self._processor = processor_instance
        self._output = pathlib.Path(output).expanduser().absolute()
        self._run_label = run_label
        self._sample_interval_s = sample_interval
        self._track_workers = track_workers
        self._agent_samples_s = (
            max(sample_interval, _AGENT_SAMPLES_S) if track_workers else _NEVER_S
        )
        self._extra = dict(attributes or {})
        self._reach = Reach.of(advertise, port)
        self._timeout_s = timeout
        self._quiet = quiet
        self._how = report
        self._on_error = on_error
        self._missed = False  # a chunk was missed, and reported
        self._entered = self._recorded = (
            False  # whether this collector entered its block, and records it
        )
        self._service: Service | None = None
        self._own_agent = False  # it serves the executors on this machine
        self._link: AggregatorClient | None = None
        self._alive: SignOfLife | None = None
        self._config: HookConfig | None = None
        self._recorder: Recorder | None = None  # of this process, without a cluster
        self._hooked = False  # the cluster has some of the plugins
        self._with_scheduler = False  # the scheduler takes plugins
        self._carrier: Carrier | None = None  # for records that travel over Dask
        self._hosts_told = ""  # whose they are
        self._keys_end: Callable[[], None] = lambda: None  # ends the events with agents' keys
        self._known: list[_writers.Writer] = []  # writers known at the start
        self._lacking: dict[str, str] = {}  # processes that cannot record
        self._parts: list[dict[str, Any]] = []  # of the list of writers
        self._report: dict[str, str] = {}
        self._sealed = False
        self._interrupted = False  # while it waited for the verdict
        self._t_start_ns = 0
        self._displays: list[Display] = []
        self._marks = contextlib.ExitStack()  # marks what is submitted inside the block

    # -------------------------------------------------------------- during the run

    @property
    def checkpointer(self) -> ChunkHook | None:
        """Checkpointer for the Runner: records each attempt at a chunk, stores no checkpoints. None if nothing is recorded."""
        return self.checkpointer_around(None)

    def checkpointer_around(self, own: Any) -> ChunkHook | None:
        """Record each attempt at a chunk, with a checkpointer of your own behind it."""
        from ..hook.chunks import ChunkHook

        if not self._entered:
            raise CremaError("the checkpointer belongs to a run: ask for it inside the with block")
        if not self._recorded:
            return own
        # It is pickled with every chunk, and never starts an agent.
        return ChunkHook(dataclasses.replace(self._config, server_key=""), own)

    def set_coffea_report(
        self, report: Mapping[str, Any] | None, custom_metrics: Mapping[str, Any] | None = None
    ) -> None:
        """Keep the report of ``savemetrics=True`` in the run file, as metrics ``coffea.*`` of its table ``custom``.

        Parameters
        ----------
        report : mapping
            The report that the Runner returned with the output.
        custom_metrics : mapping, optional
            By dataset: ``entries``, ``duration`` and ``performance_counters`` with ``num_requested_bytes``; their sums replace the
            report's, as in roastcoffea.
        """
        try:
            own = _attributes.of_custom_metrics(custom_metrics or {})
            self._report |= _attributes.of_report({**(report or {}), **own})
        except Exception as error:
            self._say(f"crema: coffea's report is not recorded: {type(error).__name__}: {error}")

    def live(self, n_events: int | None = None) -> Display | NoDisplay:
        """Show the run in this cell of a notebook, once a second, until the block ends.

        Parameters
        ----------
        n_events : int, optional
            Number of events of the whole input: enables an estimate of the remaining time.

        Returns
        -------
        Display or NoDisplay
            The latter, which shows nothing, if the run cannot be watched from here; a line gives the reason.

        Raises
        ------
        CremaError
            With ``on_error="raise"``: outside the block, without IPython, or if an operator's
            pipeline writes the file; `crema top` on the sink's host shows that run.
        """
        try:
            shown = self._watch(n_events)
        except Exception as error:
            if self._on_error == "raise":
                raise
            self._say(f"crema: mc.live() shows nothing: {str(error) or repr(error)}")
            return NoDisplay()
        self._displays.append(shown)
        return shown

    def _watch(self, n_events: int | None) -> Display:
        if self._service is None or not self._recorded:
            raise CremaError(
                "the run is not recorded"
                if self._entered
                else "a run can only be watched inside the with block"
            )
        if not self._service.owned:
            raise CremaError("the sink writes elsewhere; watch with crema top on its host")
        try:
            from ..read.live import Display, Watch

            return Display(Watch(self._output / f"{self.run_id}.live.h5", n_events))
        except ImportError as error:
            raise CremaError(
                f"mc.live() is for notebooks: {error}; crema top is for terminals"
            ) from error

    def extract_metrics_from_output(self, output: Any) -> None:
        """Nothing needs to be extracted: chunks and sections are in the run file. Removes what roastcoffea's decorator has added."""
        if isinstance(output, dict):
            output.pop("__roastcoffea_metrics__", None)

    # -------------------------------------------------------------- after the run

    @property
    def metrics(self) -> dict[str, Any]:
        """Same as `get_metrics`."""
        return self.get_metrics()

    @property
    def span_metrics(self) -> dict[tuple[str, str, str, str], float]:
        """Dask's fine metrics of tasks: ``("execute", prefix, activity, unit)`` to its sum over all workers; empty without a run file."""
        from ..read import roastcoffea

        return self._read(roastcoffea.span_metrics, {})

    def get_metrics(self) -> dict[str, Any]:
        """Metrics of the whole run, name to value, in the units of ``summary/workflow``; roastcoffea's names too. Empty without a run file."""
        from ..read import roastcoffea

        return self._read(roastcoffea.metrics, {})

    def save_measurement(
        self, output_dir: str | os.PathLike, measurement_name: str | None = None
    ) -> pathlib.Path:
        """Write metrics and a copy of the run file to a new directory in roastcoffea's layout; returns the directory."""
        from ..read import roastcoffea

        return roastcoffea.save_measurement(self._file(), output_dir, measurement_name)

    def print_summary(self) -> None:
        """Print the tables of the run file."""
        from ..read.report import print_report

        self._read(lambda run: print_report(run.path), None)

    def _read(self, read: Callable[[Any], Any], otherwise: Any) -> Any:
        """Result of `read` for the run file; without a file a line says so."""
        from ..read.reader import open as open_run

        try:
            with open_run(self._file()) as run:
                return read(run)
        except Exception as error:
            if self._on_error == "raise":
                raise
            self._say(f"crema: {error}")
            return otherwise

    def report(self, path: str | os.PathLike | None = None) -> pathlib.Path:
        """Write the report of the run: one HTML page that opens offline.

        Parameters
        ----------
        path : path, optional
            Path of the page; beside the run file by default.

        Returns
        -------
        pathlib.Path
            Path of the page.

        Raises
        ------
        CremaError
            If the run file is not on this machine.
        OSError
            If the page cannot be written.
        """
        from ..read.html import write_report

        return write_report(self._file(), path)

    def _file(self) -> pathlib.Path:
        if self.path is None or not self.path.is_file():
            raise CremaError(f"there is no run file of run {self.run_id} on this machine")
        return self.path

    # -------------------------------------------------------------- entering

    def __enter__(self) -> MetricsCollector:
        if self._may_enter():
            error = _outcome(self._start) or _outcome(self._begin_block)
            if error is not None:
                self._end()
                self._not_entered(error)
        return self

    async def __aenter__(self) -> MetricsCollector:
        if self._may_enter():
            error = await _in_thread(self._start) or _outcome(self._begin_block)
            if error is not None:
                await _in_thread(self._end)
                self._not_entered(error)
        return self

    def _may_enter(self) -> bool:
        if self._entered:
            self._refuse(CremaError("a collector records one run: make another one"))
            return False
        self._entered = True
        return True

    def _begin_block(self) -> None:
        """Prepare the code in the block; runs in its thread and context."""
        if self._client is not None:
            self._marks.enter_context(_cluster.marked(self._config.run_id))
        self._recorded = True
        _runner.hook(self._config.run_id, self.checkpointer_around)

    def _not_entered(self, error: BaseException) -> None:
        self._recorded = False
        if not isinstance(error, Exception):
            raise error
        self._give_up("not_recorded", str(error) or type(error).__name__)
        self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        """Handle a run that cannot be recorded: raise, or print a line and let the analysis run."""
        if self._on_error == "warn":
            self._say(f"crema: the analysis runs unrecorded: {str(error) or repr(error)}")
        elif isinstance(error, (PipelineError, _cluster.ClusterError, OSError)):
            raise CremaError(str(error)) from error
        else:
            raise error

    def _end(self) -> None:
        """End everything, whatever state it is in; errors are printed."""
        try:
            left = self._take_down()
        except Exception as error:
            left = f"what is left: {type(error).__name__}: {error}"
        if left:
            self._say(f"crema: records that were not delivered are kept in {left}")

    def _start(self) -> None:
        _unix.require()
        lacking = _cluster.check(self._client) if self._client is not None else {}
        if self._on_error == "raise":
            refused = {name: lack for name, lack in lacking.items() if lack != _cluster.NO_PLUGINS}
            self._unrecorded(refused)
        self._start_service()
        self._config = self._make_config()
        self._link = AggregatorClient(self._service.endpoint, self._service.keys)
        self._t_start_ns = time.time_ns()
        run_open = self._run_open()
        self._open(run_open)
        self._alive = SignOfLife(
            self._service.endpoint,
            self._service.keys,
            run_open,
            lambda trouble: self._say(f"crema: {trouble}"),
        )
        if self._own_agent:  # the aggregator admits its key now that it knows the run
            self._service.start_agent(self._agent_samples_s)
        self._t_start_ns = self._on_the_sinks_clock(self._t_start_ns)
        if self._client is not None:
            self._register(lacking)
        else:
            self._record_client()

    def _record_client(self) -> None:
        """Record a stream of this process, so that a run without any chunk still has a writer that ends it."""
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
            plan = self._reach.plan(self._client)
            self._service = LocalService(self._run_id, self._output, plan)
            self._service.start()
        self._own_agent = self._client is None and not os.environ.get("CREMA_SPOOL")
        if self._own_agent:
            self._service.make_agent_keys()

    def _make_config(self) -> HookConfig:
        here = {"spool": str(self._service.spool), "start_agent": False} if self._own_agent else {}
        return HookConfig(
            run_id=self.run_id,
            aggregator=self._service.endpoints,
            server_key=self._service.server_key,
            sample_interval_s=self._sample_interval_s,
            track_workers=self._track_workers,
            agent_options=(
                *("--sample-interval", f"{self._agent_samples_s:g}s"),
                # An operator's aggregator outlives this client: a dismissed agent waits for it. Our
                # own aggregator does not.
                *(
                    ("--orphan-timeout", f"{ORPHAN_S:g}s")
                    if self._service.owned
                    else ("--drain-timeout", "1h")
                ),
            ),
            processor_prefixes=tuple(_attributes.processor_prefixes(self._processor)),
            client="" if self._client is None else self._client.id,
            **here,
        )

    def _run_open(self) -> dict[str, Any]:
        attributes = _attributes.of_client(
            {
                "run_label": self._run_label,
                "processor_name": _attributes.processor_name(self._processor),
                "sample_interval_s": self._sample_interval_s,
                **(_attributes.of_cluster(self._client) if self._client is not None else {}),
                **self._extra,
            }
        )
        return {
            "run_id": self._run_id.bytes,
            "t_start_ns": self._t_start_ns,
            "keys": list(attributes),
            "values": list(attributes.values()),
            "processor_prefixes": _attributes.processor_prefixes(self._processor),
            "agent_key": self._service.agent_keys.public if self._service.agent_keys else b"",
        }

    def _open(self, message: dict[str, Any]) -> None:
        """Announce the run until the aggregator knows it."""
        deadline = time.monotonic() + OPEN_S
        while time.monotonic() < deadline:
            sent = self._link.send(_client.RUN_OPEN, **message)
            for state in self._link.states(self._run_id.bytes, REPEAT_S if sent else CONNECT_S):
                if state.phase == _client.FAILED or state.refusal:
                    raise CremaError(f"the run could not be opened: {state.error}")
                if state.phase != _client.UNKNOWN:
                    if state.trouble:
                        self._say(f"crema: {state.trouble}")
                    return
            if refusal := self._refusal():
                raise CremaError(refusal)
        trouble = self._service.trouble() or self._service.silence()
        raise CremaError(
            f"no aggregator answered at {self._service.endpoint} within {OPEN_S:g} s"
            + (f": {trouble}" if trouble else "")
        )

    def _refusal(self) -> str:
        """Sentence saying that the aggregator refuses this client, or empty."""
        if not self._link.fenced:
            return ""
        return (
            f"the aggregator at {self._service.endpoint} refuses this client: {self._link.fenced}"
        )

    def _on_the_sinks_clock(self, t_ns: int) -> int:
        """Convert a time of this host to the services' clock; a difference within its uncertainty is ignored."""
        offset_ns, bound_ns = self._link.clock(self._run_id.bytes)
        return t_ns - offset_ns if abs(offset_ns) > bound_ns else t_ns

    def _register(self, lacking: dict[str, str]) -> None:
        from ..hook.scheduler import SchedulerHook
        from ..hook.worker import WorkerHook

        self._hooked, self._with_scheduler = True, _cluster.SCHEDULER not in lacking
        self._lacking = _cluster.without(lacking)
        self._address = self._client.scheduler.address
        self._keys_end = _cluster.on_event(
            self._client, key_topic(self._config.run_id), self._on_key
        )
        if self._with_scheduler:
            _cluster.register(self._client, SchedulerHook(self._config))
            self._carrier = self._make_carrier()
        else:
            text = "the times at which workers joined and left are not recorded"
            self._say(f"crema: {text}: the scheduler: {lacking.pop(_cluster.SCHEDULER)}")
            _cluster.note_start(self._client, self._config.run_id)
        hook = WorkerHook(self._config)
        _cluster.register(self._client, hook)
        self._marks.callback(_cluster.on_event(self._client, hook.name, self._on_event))
        self._known, silent = _cluster.recording(self._client, self._config.run_id)
        self._unrecorded(silent | lacking)
        if self._with_scheduler:
            self._known += _cluster.scheduler_writer(self._client, self._config.run_id)

    def _on_key(self, event: Any) -> None:
        """Request the admission of a new agent's public key; called by Dask's client on its event loop."""
        alive = self._alive
        if alive is not None and isinstance(event, dict) and event.get("action") == KEY_ACTION:
            alive.admit(_keys.public_key(event.get("key")))

    def _on_event(self, event: Any) -> None:
        """Handle an event of a worker's plugin during the run; called by Dask's client on its event loop."""
        prefix = event.get("prefix") if isinstance(event, dict) else None
        if prefix and not self._missed:
            self._missed = True
            self._say(
                f"crema: a task {prefix!r} has ended without a recorded chunk: "
                "give its Runner checkpointer=mc.checkpointer"
            )

    def _unrecorded(self, lacking: dict[str, str]) -> None:
        if not lacking:
            return
        text = f"{len(lacking)} processes work unrecorded: {_cluster.listed(lacking)}"
        if self._on_error == "raise":
            raise CremaError(text)
        self._say(f"crema: {text}")

    def _tell_hosts(self, hosts: str) -> None:
        if self._hosts_told == hosts:  # of a carrier before this one
            return
        self._hosts_told = hosts
        tried = self._service.endpoints.replace("tcp://", "").replace(",", ", ")
        self._say(f"crema: records of {hosts} travel over Dask: no connection to {tried}")

    # -------------------------------------------------------------- leaving

    def __exit__(self, exc_type: Any, exc: BaseException | None, tb: Any) -> None:
        if self._recorded:
            self._finish(self._end_block(), exc)

    async def __aexit__(self, exc_type: Any, exc: BaseException | None, tb: Any) -> None:
        if self._recorded:
            t_end_ns = self._end_block()
            error = await _in_thread(lambda: self._finish(t_end_ns, exc))
            if error is not None:
                raise error

    def _end_block(self) -> int:
        """Undo `_begin_block`; returns the end time of the block."""
        self._recorded = False
        t_end_ns = time.time_ns()
        self._report |= _runner.unhook(self._config.run_id)
        with contextlib.suppress(ValueError):  # entered in another context, a cell of a notebook
            self._marks.close()
        for display in self._displays:
            display.stop()
        return t_end_ns

    def _finish(self, t_end_ns: int, exc: BaseException | None) -> None:
        """Wait for the verdict, end everything and print the result."""
        try:
            if self._alive is not None:
                self._alive.run_ends()
            self._flush()
            self._await_verdict(t_end_ns, exc)
        except Exception as error:
            # Recording failed, but the analysis did not: its result matters more than this
            # exception.
            self._stopped("collector_failed", f"{type(error).__name__}: {error}")
        except BaseException:
            self._stopped("interrupted", "the wait for the verdict was interrupted")
            self._interrupted = not self._sealed
            raise
        finally:
            self._end()
        self._tell()

    def _flush(self) -> None:
        """Let every process write its last records, end the streams of this one, and list the writers."""
        from ..hook import chunks

        roll, run_id = _writers.Roll(), self._config.run_id
        if self._hooked:
            self._connect_again()
            roll.add(self._end_on_cluster(self._say))
            for event in _cluster.events(self._client, key_topic(run_id)):
                self._on_key(event)  # events lost with a broken connection
        with contextlib.suppress(OSError):
            chunks.close(self._config.run_id)
            if self._client is None:
                end_marker(self._config).touch()
        recorder = self._recorder
        self._close_recorder()
        if recorder is not None:
            roll.add([recorder.writer()])
        roll.add(_writers.registered(self._config.spool_dir(), run_id))
        self._parts = _writers.parts(self._run_id.bytes, roll.writers())

    def _connect_again(self) -> None:
        """Where the client was closed inside the block, another one asks in its place."""
        self._own_client = _cluster.again(self._client, self._address)
        if self._own_client is None:
            return
        self._client = self._own_client
        if self._carrier is not None:
            self._carrier.close()
            self._carrier = self._make_carrier()

    def _make_carrier(self) -> Carrier:
        run_id, endpoint = self._config.run_id, self._service.endpoint
        return Carrier(self._client, run_id, endpoint, self._tell_hosts)

    def _end_on_cluster(self, say: Callable[[str], None]) -> list[_writers.Writer]:
        self._hooked = False
        run_id = self._config.run_id
        return _cluster.end(
            self._client, run_id, self._known, self._lacking, self._with_scheduler, say
        )

    def _stop_signs(self) -> None:
        if self._alive is not None:
            self._alive.stop()
            self._alive = None

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
            "writer_parts": len(self._parts),
        }
        with contextlib.closing(HostAgent(self._config)) as host:
            state = self._repeat_until_sealed(message, host)
            if state is not None and state.phase in (_client.SEALED, _client.FAILED):
                self._take(state)
                self._see_agents_off(message, host)
                return
        trouble = self._service.trouble() or self._refusal()
        text = trouble or f"no progress for {self._timeout_s:g} s"
        if state is not None and state.refusal:
            text = "the aggregator refuses it"
        self._give_up("no_verdict", f"{text}; {_progress_text(state)}{self._service.remedy()}")

    def _repeat_until_sealed(self, message: dict[str, Any], host: HostAgent) -> Any:
        """Say RUN_END until the file is there, the pipeline is lost or nothing moves any more; the last RunState."""
        state, moved_at, before, kept = None, time.monotonic(), None, 0
        with contextlib.ExitStack() as stack:
            progress = None if self._quiet else stack.enter_context(Progress())
            while time.monotonic() - moved_at < self._timeout_s and not self._service.trouble():
                for part in self._parts[kept:]:
                    self._link.send(_client.RUN_WRITERS, **part)
                self._link.send(_client.RUN_END, **message)
                for state in self._link.states(self._run_id.bytes, REPEAT_S):
                    host.look()  # it may have just started
                    kept = state.writers_kept  # a restarted aggregator has none
                    if _is_given_up(state):
                        continue  # sealed without its end, which is being sent now
                    if state.phase in (_client.SEALED, _client.FAILED) or state.refusal:
                        return state
                    now = (state.phase, state.committed, state.missing, len(state.waiting_for))
                    if now != before:
                        before, moved_at = now, time.monotonic()
                if self._link.fenced:
                    return state
                if progress is not None:
                    progress.show(state)
        return state

    def _see_agents_off(self, message: dict[str, Any], host: HostAgent) -> None:
        """Wait until the agents started for this run have exited: the aggregator dismisses them and must run until then."""
        supervisor = self._service.supervisor
        deadline = time.monotonic() + DISMISS_S
        if self._own_agent:
            supervisor.dismiss("crema-agent")
        elif not self._service.owned:
            host.wait(deadline)  # the aggregator stays for the others
            return
        while time.monotonic() < deadline:
            if self._own_agent and not supervisor.alive("crema-agent"):
                return
            self._link.send(_client.RUN_END, **message)
            for state in self._link.states(self._run_id.bytes, LEAVE_S):
                if state.agents == 0 and not host.serves():
                    host.wait(deadline)
                    return

    def _take(self, state: Any) -> None:
        self.verdict = state.verdict or "UNKNOWN"
        self._sealed = state.phase == _client.SEALED
        self.path = pathlib.Path(state.path) if state.path else None
        self.revision = state.revision
        told = [
            {"code": r.code, "subject": r.subject, "count": r.count, "text": r.text}
            for r in state.reasons
        ]
        self.reasons = [reason for reason in told if reason["code"] not in _columns.NOTES]
        self.notes = [reason for reason in told if reason["code"] in _columns.NOTES]
        self.notes += _runner.notes(self._report)
        if state.phase == _client.FAILED:
            self._give_up("file_not_written", state.error)

    def _stopped(self, code: str, text: str) -> None:
        """Nobody waits any longer; a file that is there has its verdict."""
        if not self._sealed:
            self._give_up(code, text)

    def _give_up(self, code: str, text: str) -> None:
        self.verdict = "UNKNOWN"
        self.reasons.append({"code": code, "subject": self.run_id, "count": 0, "text": text})

    def _take_down(self) -> str:
        """End everything that was started; returns the location of undelivered records, if any."""
        if self._config is not None:
            _runner.unhook(self._config.run_id)
        if self._hooked:
            self._end_on_cluster(lambda line: None)
        self._keys_end()
        if self._with_scheduler:
            self._leave_cluster()
        if self._own_client is not None:
            with contextlib.suppress(Exception):  # Dask's, of a scheduler that has gone meanwhile
                self._own_client.close()
            self._own_client = None
        self._stop_signs()
        self._close_recorder()
        if self._config is not None:
            with contextlib.suppress(OSError):
                _writers.register_path(self._config.spool_dir(), self._config.run_id).unlink(True)
                if self._client is None:
                    end_marker(self._config).unlink()
        if self._link is not None:
            self._link.close()
            self._link = None
        service, self._service = self._service, None
        left = []
        if service is not None and service.owned and self._interrupted:
            service.hand_over()
            file = self._output / f"{self.run_id}.h5"
            self._say(f"crema: interrupted; {file} is being made of what has arrived")
        elif service is not None:
            left = [service.close(sealed=self._sealed)]
        if self._config is not None and not self._own_agent:
            spool = self._config.spool_dir()  # of the workers on this host, if any
            left += [str(spool)] if self._config.serves() and any(spool.glob("sp-*")) else []
        return " and ".join(filter(None, left))

    def _leave_cluster(self) -> None:
        """Remove the plugins and end the way over Dask: nothing is left to be sent."""
        self._with_scheduler = False
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            carrier.close()
        with contextlib.suppress(_cluster.ClusterError):
            _cluster.forget(self._client, self._config.run_id)

    def _tell(self) -> None:
        """Print the result of the run."""
        if self.verdict == "UNKNOWN":
            for reason in self.reasons:
                self._say(f"crema: no verdict: {reason['text']}")
        elif self._quiet or self._how == "none":
            return
        elif self.path is None or not self.path.is_file():
            self._say(
                f"crema: verdict {self.verdict}; the run file is {self.path} on the sink's host"
            )
        else:
            try:
                self._show(self.path)
            except Exception as error:
                self._say(f"crema: {self.path} cannot be shown: {error}")

    def _show(self, path: pathlib.Path) -> None:
        from ..read import brief
        from ..read.reader import open as open_run
        from ..read.report import print_report

        if self._how == "full":
            print_report(path, console=Console(stderr=True))
            return
        with open_run(path) as run:
            Console(stderr=True).print(brief.lines(run), soft_wrap=True)

    @staticmethod
    def _say(line: str) -> None:
        with contextlib.suppress(Exception):  # a closed standard error must not be an error
            print("; ".join(line.splitlines()), file=sys.stderr, flush=True)


def _outcome(call: Callable[[], None]) -> BaseException | None:
    """What a call raised, or None."""
    try:
        call()
    except BaseException as error:
        return error
    return None


async def _in_thread(call: Callable[[], None]) -> BaseException | None:
    """The same for a blocking call while the event loop continues; a cancelled one is still awaited."""
    done = asyncio.ensure_future(asyncio.to_thread(_outcome, call))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError as error:
        await done
        return error


def must_be_writable(directory: pathlib.Path) -> None:
    """Check that a directory exists, or can be made, and that a file can be made in it.

    Raises
    ------
    CremaError
        If that fails: better now than at the end of the run.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".crema-", dir=directory):
            pass
    except OSError as error:
        raise CremaError(f"run files cannot be written to {directory}: {error}") from error


def _is_given_up(state: Any) -> bool:
    return any(reason.code == "run_not_ended" for reason in state.reasons)


def _progress_text(state: Any) -> str:
    from ._progress import describe

    return describe(state).removeprefix("crema: ")
