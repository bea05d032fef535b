"""Records an analysis in a ``with`` block: starts the pipeline, waits for the verdict, and ends everything it started."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import socket
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

from ..hook import (
    _columns,
    _recorder,
    _unix,
    _writers,
    instrument,  # noqa: F401  once in the block it may be too late to import it: a process may lack descriptors
)
from ..hook._config import HookConfig
from ..hook._recorder import Recorder, end_marker
from ..hook._records import KIND_CLIENT
from ..hook._secrets import cleaned
from ..read import _notes
from . import _attributes, _client, _cluster, _marking, _reports, _runner, _source, _window
from ._dialogue import DISMISS_S, DISMISS_SOME_S, Dialogue
from ._host_agent import HostAgent
from ._patience import Patience
from ._pipeline import PipelineError
from ._plugins import Plugins
from ._progress import describe
from ._reach import Reach
from ._service import ConfiguredService, LocalService, Service
from ._settings import Settings
from ._threads import (
    ROOM,
    ROOM_FILES,
    in_thread,
    must_open,
    must_start,
    outcome,
)
from ._view import CremaError, RunView, must_be_writable, output_directory

if TYPE_CHECKING:
    from distributed import Client

    from ..hook.chunks import ChunkHook
    from ..read.live import Display


class MetricsCollector(RunView):
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
        Directory of the run file ``<run_id>.h5``; created if it is missing.
    run_label : str, optional
        A descriptive name.
    sample_interval : float, optional
        Seconds between two samples of a worker; ``worker_tracking_interval`` is an alias.
    track_workers : bool, optional
        False: the state of the workers is not sampled. Chunks, activities, tasks and membership are recorded all the same.
    look_interval : float, optional
        Seconds between two looks at the threads that run tasks: what each one waits for, and in which line. 0: none.
    look_source : bool, optional
        False: no text of these lines is kept. It is of the processor's module and package only, without secrets in its literals.
    attributes : mapping, optional
        More root attributes of the run file, such as ``{"chunksize": 100_000}``; those that only the sink writes are refused.
    advertise : str, optional
        Address or name by which workers reach this machine, if it is not one of its own (a forwarded port); followed by a
        colon and the port if that differs; several separated by commas. Default: ``CREMA_ADVERTISE``. Hosts that reach none
        of the addresses send their records over Dask.
    port : int, str or pair of int, optional
        Port, or first and last port, that workers can reach on this machine: ``4000``, ``"10000-10100"``. Default: ``CREMA_PORT``, otherwise any port.
    timeout : float, optional
        Seconds without progress after which leaving the block ends with the file of what has arrived; half of them, 60 s at most,
        for Dask's processes to answer. Writing the file has a limit of its own.
    quiet : bool, optional
        True: print only errors.
    report : {"brief", "full", "none"}, optional
        What to print on standard error at the end of the run: six lines, all tables, or nothing.
    on_error : {"warn", "raise"}, optional
        How to handle a run that cannot be recorded. ``"warn"``: one line on standard error gives the reason, the analysis runs
        unrecorded, the verdict is ``UNKNOWN``; crema raises nothing inside the block or on leaving it. ``"raise"``: entering raises.

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
        The same for facts worth knowing although nothing is missing: files that coffea dropped (``skipbadfiles``) or that a
        dataset lists more than once (``input_repeated``), calls that read input without a Runner (``input_direct``), blocks inside
        this one that recorded their Runners' chunks (``chunks_inner``), Runners without a result (``result_missing``), tasks that
        were not through (``still_running``), a wall clock that was set (``clock_stepped``).

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

    With ``CREMA_AGGREGATOR`` (and ``CREMA_KEYS``) in the environment that pipeline is used; otherwise a sink and an aggregator are
    started beside the client. Workers with ``CREMA_SPOOL`` in their environment write to that spool and start no agent.
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
        look_interval: float = 0.05,
        look_source: bool = True,
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
            raise ValueError(f"{backend=}: the only backend is 'dask', for every executor")
        if worker_tracking_interval is not None:
            sample_interval = worker_tracking_interval
        if report not in ("brief", "full", "none"):
            raise ValueError(f"{report=} is none of 'brief', 'full' and 'none'")
        if on_error not in ("warn", "raise"):
            raise ValueError(f"{on_error=} is neither 'warn' nor 'raise'")
        if timeout <= 0:
            raise ValueError(f"{timeout=} must be positive")
        run_id = _attributes.new_run_id()
        self.run_id = str(run_id)
        self.path: pathlib.Path | None = None
        self.verdict: str | None = None
        self.reasons: list[dict[str, Any]] = []
        self.notes: list[dict[str, Any]] = []
        self.revision = 0
        self._run_id = run_id
        self._client = client
        self._settings = Settings(
            processor_instance,
            run_label,
            sample_interval,
            track_workers,
            dict(attributes or {}),
            look_interval,
            look_source,
        )
        self._output = output_directory(output)
        self._reach = Reach.of(advertise, port)
        self._timeout_s = timeout
        self._quiet = quiet
        self._how = report
        self._on_error = on_error
        self._entered, self._began = False, False  # the collector was asked to; the block did
        self._recorder_pid = 0  # the process that records its block
        self._again = 0  # blocks of it that are open and record nothing
        self._service: Service | None = None
        self._own_agent = False  # it serves the executors on this machine
        self._dialogue: Dialogue | None = None
        self._config: HookConfig | None = None
        self._recorder: Recorder | None = None  # of this process, without a cluster
        self._plugins: Plugins | None = None  # on the cluster
        self._parts: list[dict[str, Any]] = []  # of the list of writers
        self._report: dict[str, str] = {}
        self._sealed = False
        self._interrupted = False  # Ctrl-C, or an error, while it waited for the verdict
        self._window: _window.Window | None = None
        self._displays: list[Display] = []
        self._git: _attributes.GitCommit | None = None
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
        if not self._recorder_pid:
            return own
        # It is pickled with every chunk, and never starts an agent.
        return ChunkHook(dataclasses.replace(self._config, server_key=""), own)

    def set_coffea_report(self, report: Any, custom_metrics: Mapping | None = None) -> None:
        """Keep the report of ``savemetrics=True`` in the run file, as metrics ``coffea.*`` of its table ``custom``.

        Parameters
        ----------
        report : mapping
            The report that the Runner returned with the output; or uproot's by partition, computed, of one dataset or by dataset.
        custom_metrics : mapping, optional
            By dataset: ``entries``, ``duration``, ``performance_counters`` (``num_requested_bytes``); sums replace the report's.
        """
        try:
            over = self._began and not self._recorder_pid
            self._report |= _reports.attributes(report, custom_metrics, over=over)
        except Exception as error:
            self._say(f"crema: coffea's report is not recorded: {type(error).__name__}: {error}")

    # -------------------------------------------------------------- entering

    def __enter__(self) -> MetricsCollector:
        if self._may_enter():
            error = outcome(self._start) or outcome(self._begin_block)
            if error is not None:
                self._end()
                self._not_entered(error)
        return self

    async def __aenter__(self) -> MetricsCollector:
        if self._may_enter():
            error = await in_thread(self._start) or outcome(self._begin_block)
            if error is not None:
                await in_thread(self._end)
                self._not_entered(error)
        return self

    def _may_enter(self) -> bool:
        if self._entered:
            self._refuse(error := CremaError("a collector records one run: make another one"))
            self._again += 1
            self._give_up("not_recorded", str(error))
            return False
        self._entered = True
        return True

    def _begin_block(self) -> None:
        """Prepare the code in the block; runs in its thread and context."""
        if self._client is not None:
            self._marks.enter_context(_marking.marked(self._config.run_id))
        self._recorder_pid = os.getpid()
        _runner.hook(self._config.run_id, self.checkpointer_around, self._say)
        self._began = True

    def _not_entered(self, error: BaseException) -> None:
        self._recorder_pid = 0
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
            if left := self._take_down():
                self._say(f"crema: records that were not delivered are kept in {left}")
        except Exception as error:
            self._say(f"crema: not everything could be ended: {type(error).__name__}: {error}")
        finally:
            if self._service is not None:  # Ctrl-C
                self._service.hand_over()

    def _start(self) -> None:
        _unix.require()
        must_open(ROOM_FILES)
        what = self._settings
        self._git = _attributes.GitCommit(what.processor)
        if self._client is not None:
            _cluster.must_answer(self._client)  # in this thread, whose event loop it may be
        with ThreadPoolExecutor(1, "crema-start") as beside:
            started = beside.submit(self._start_service)
            lacking = {}
            if self._client is not None:
                lacking = _cluster.check(self._client, self._on_error == "raise")
            attributes = what.run_attributes(self._client)
            started.result()
        attributes = self._with_commit(attributes)
        if self._on_error == "raise":
            refused = {name: lack for name, lack in lacking.items() if lack != _cluster.NO_PLUGINS}
            self._unrecorded(refused)
        service = self._service
        self._config = what.hook_config(self.run_id, service, self._client, self._own_agent)
        self._config.spool_dir()  # this process keeps it, whatever the block changes
        self._dialogue = Dialogue(self._run_id, service, self._say)
        self._window = window = _window.Window()
        run_open = what.run_open(self._run_id, service, attributes, window.start_ns)
        self._dialogue.open(run_open)
        if self._own_agent:  # the aggregator admits its key now that it knows the run
            service.start_agent(what.agent_samples_s)
        window.start_ns = self._dialogue.on_the_sinks_clock(window.start_ns)
        self._dialogue.begin_block(run_open)
        if self._client is not None:
            self._plugins = Plugins(self._client, self._config, service, self._say, self._admit)
            lack = lacking.get(_cluster.SCHEDULER, "")
            self._unrecorded(self._plugins.register(lack, self._marks))
        else:
            self._record_client()
        must_start(ROOM)

    def _record_client(self) -> None:
        """Record a stream of this process, so that a run without any chunk still has a writer that ends it."""
        name = f"{socket.gethostname()}:{os.getpid()}"
        self._recorder = Recorder(self._config, kind=KIND_CLIENT, uuid="", name=name)
        _recorder.announce(self._config)

    def _start_service(self) -> None:
        if endpoint := os.environ.get("CREMA_AGGREGATOR"):
            self._service = ConfiguredService(self._run_id, endpoint, os.getenv("CREMA_KEYS", ""))
        else:
            must_be_writable(self._output)
            plan = self._reach.plan(self._client)
            self._service = LocalService(self._run_id, self._output, plan)
            self._service.start()
        self._own_agent = self._client is None and not os.environ.get("CREMA_SPOOL")
        if self._own_agent:
            self._service.make_agent_keys()

    def _admit(self, key: bytes) -> None:
        if (dialogue := self._dialogue) is not None:
            dialogue.admit(key)

    def _unrecorded(self, lacking: dict[str, str]) -> None:
        if not lacking:
            return
        text = f"{len(lacking)} processes work unrecorded: {_cluster.listed(lacking)}"
        if self._on_error == "raise":
            raise CremaError(text)
        self._say(f"crema: {text}")

    # -------------------------------------------------------------- leaving

    def __exit__(self, exc_type: Any, exc: BaseException | None, tb: Any) -> None:
        if self._may_leave():
            self._finish(exc)

    async def __aexit__(self, exc_type: Any, exc: BaseException | None, tb: Any) -> None:
        if self._may_leave():
            error = await in_thread(lambda: self._finish(exc))
            if error is not None:
                raise error

    def _may_leave(self) -> bool:
        self._again, again = max(self._again - 1, 0), self._again
        return not again and self._recorder_pid == os.getpid()

    def _end_block(self) -> int:
        """Undo `_begin_block`; returns the end time of the block."""
        self._recorder_pid = 0
        t_end_ns = self._window.end_ns()
        config = self._config
        self._report |= _runner.unhook(config.run_id, self._window, config.name_bytes)
        self._report |= self._window.notes()
        with contextlib.suppress(Exception):  # of Dask's client, whose loop may be gone
            self._marks.close()
        for display in self._displays:
            display.stop()
        return t_end_ns

    def _finish(self, exc: BaseException | None) -> None:
        """End the block, wait for the verdict, end everything and print the result."""
        try:
            t_end_ns = self._end_block()
            patience = Patience(self._timeout_s)
            self._flush(patience)
            self._await_verdict(t_end_ns, exc, patience)
        except Exception as error:
            # The analysis did not fail: its result matters more than this exception.
            self._stopped("collector_failed", f"{type(error).__name__}: {error}")
            self._interrupted = not self._sealed
        except BaseException:
            if not self._sealed and (state := self._dialogue.sealed(self._output)) is not None:
                self._take(state)
            self._stopped("interrupted", "the wait for the verdict was interrupted")
            self._interrupted = not self._sealed
            raise
        finally:
            self._end()
        for display in self._displays:
            with contextlib.suppress(Exception):  # of IPython: nobody may be there to look
                display.finish()
        self._print_result()

    def _flush(self, patience: Patience) -> None:
        """Let every process write its last records, end the streams of this one, and list the writers."""
        from ..hook import chunks

        roll, run_id = _writers.Roll(), self._config.run_id
        self._report |= _source.kept(self._settings, self._client, run_id, self._window.start_ns)
        if self._plugins is not None:
            roll.add(self._plugins.end(patience))
            self._report |= self._plugins.notes
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

    def _close_recorder(self) -> None:
        if self._recorder is not None:
            _recorder.withdraw(self._config)
            self._recorder.close("error")
            self._recorder = None

    def _with_commit(self, attributes: dict[str, str]) -> dict[str, str]:
        """The commit too, once it is known, unless the user has given another one."""
        commit = self._git.get() if self._git is not None else None
        if commit is None or "git_commit" in self._settings.attributes:
            return attributes
        self._git = None
        return attributes | {"git_commit": commit}

    def _await_verdict(self, t_end_ns: int, exc: BaseException | None, patience: Patience) -> None:
        attributes = self._with_commit(dict(self._report))
        if exc is not None:
            raised = "".join(traceback.format_exception_only(exc))
            attributes["exception"] = _attributes.text(raised.strip())
        if self._service.supervisor.restarts:
            attributes["pipeline_restarts"] = _attributes.text(self._service.supervisor.restarts)
        message = {
            "run_id": self._run_id.bytes,
            "t_start_ns": self._window.start_ns,
            "t_end_ns": t_end_ns,
            "keys": list(attributes),
            "values": [cleaned(value) for value in attributes.values()],
            "processor_prefixes": self._settings.processor_prefixes,
            "dismiss": True,
            "writer_parts": len(self._parts),
            "limit_ns": patience.limit_ns(),
        }
        with contextlib.closing(HostAgent(self._config, self._admit)) as host:
            state = self._dialogue.until_sealed(message, self._parts, host, patience, self._quiet)
            if state is not None and state.phase in (_client.SEALED, _client.FAILED):
                self._take(state)
                if self.verdict != "COMPLETE" and self._dialogue.trouble:
                    self._say(f"crema: {self._dialogue.trouble}")
                wait_s = DISMISS_S if self.verdict == "COMPLETE" else DISMISS_SOME_S
                self._dialogue.see_agents_off(message, host, self._own_agent, wait_s)
                return
        trouble = self._service.trouble() or self._dialogue.refusal()
        text = trouble or f"no progress for {self._timeout_s:g} s"
        if state is not None and state.refusal:
            text = "the aggregator refuses it"
        text += f"; {describe(state).removeprefix('crema: ')}{self._service.remedy()}"
        self._give_up("no_verdict", text)

    def _take(self, state: Any) -> None:
        self.verdict = state.verdict or "UNKNOWN"
        self._sealed = state.phase == _client.SEALED
        self.path = _unix.local_path(state.path) if state.path else None
        self.revision = state.revision
        names = ("code", "subject", "count", "text")
        given = [{name: getattr(reason, name) for name in names} for reason in state.reasons]
        self.reasons = [reason for reason in given if reason["code"] not in _columns.NOTES]
        self.notes = [reason for reason in given if reason["code"] in _columns.NOTES]
        self.notes += _notes.of_attributes(self._report)
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
        self._recorder_pid = 0
        self._settings = dataclasses.replace(self._settings, processor=None)  # it may hold much
        if self._git is not None:
            self._git.close()
        self._marks.close()
        if self._config is not None:
            _runner.unhook(self._config.run_id)
        if self._plugins is not None:
            self._plugins.close()
        self._close_recorder()
        if self._config is not None:
            with contextlib.suppress(OSError):
                _writers.register_path(self._config.spool_dir(), self._config.run_id).unlink(True)
                end_marker(self._config).unlink(True)
        if self._dialogue is not None:
            self._dialogue.close()
            self._dialogue = None
        service, left = self._service, []
        if service is not None and service.owned and self._interrupted:
            service.hand_over()
            self._say(f"crema: {self._output / self.run_id}.h5 is being made of what has arrived")
        elif service is not None:
            left = [service.close(sealed=self._sealed, began=self._began)]
        self._service = None
        if self._config is not None and not self._own_agent:
            spool = self._config.spool_dir()  # of the workers on this host, if any
            left += [str(spool)] if self._config.serves() and any(spool.glob("sp-*")) else []
        return " and ".join(filter(None, left))
