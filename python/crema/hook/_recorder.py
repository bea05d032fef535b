"""What a process (or a Dask worker in it) records for one run: its stream, its identity, its slots.

The hooks meet here: the checkpointer, which travels with the analysis, records into the stream that
the worker plugin opened. Without a plugin (a process pool, the notebook itself) the first chunk
opens its own stream.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import logging
import multiprocessing.util
import os
import pathlib
import platform
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from . import _columns, _looking, _process, _records, _spool, _writers
from ._attempts import Attempts
from ._config import HookConfig, make_private_dir
from ._unix import in_each_child, make_dir

logger = logging.getLogger("crema")

_Value = TypeVar("_Value")

RUN_VARIABLE = "CREMA_RUN"  # the run that child processes belong to

_FOR_CHILDREN = (
    "run_id",
    "spool",
    "sample_interval_s",
    "track_workers",
    "start_agent",
    "look_interval_s",
    "name_key",
)

_LOOK_S = 0.2  # between two checks for the end of the run
_PACKAGES = ("dask", "distributed", "coffea", "uproot", "awkward", "numpy")

_recorders: dict[tuple[str, str], Recorder] = {}  # by run and worker.id ("" without Dask)
find = _recorders.get  # the recorder of (run_id, owner) in this process, if it has one
_ended: collections.deque[str] = collections.deque(maxlen=64)  # runs that have ended here
_announced: list[HookConfig] = []  # runs of this process without Dask; the newest last
_lock = threading.RLock()
_exit_registered = False


class Recorder:
    """A stream and its writer.

    Parameters
    ----------
    config : HookConfig
        The run.
    kind : int
        Kind of stream.
    uuid, name : str
        Dask's id and address of the worker, or host:pid.
    nthreads : int
        Task slots; 0 unknown.
    memory_limit_b : int
        -1 none or unknown.
    register : bool
        Enter the stream in the spool's register before its first record, since it is not known otherwise.

    Raises
    ------
    OSError
        If the spool cannot be written.
    """

    def __init__(
        self,
        config: HookConfig,
        *,
        kind: int,
        uuid: str,
        name: str,
        nthreads: int = 0,
        memory_limit_b: int = -1,
        register: bool = False,
    ) -> None:
        self.config = config
        self.kind = kind
        self.uuid = uuid
        self.name = name
        self.directory = config.spool_dir()
        if os.environ.get("CREMA_SPOOL"):
            make_dir(self.directory, 0o700)
        else:
            make_private_dir(self.directory)
        host, pid = socket.gethostname(), os.getpid()
        info = _records.stream_info(
            software(),
            run_id=config.run_bytes,
            kind=kind,
            host=_records.text(host),
            pid=pid,
            worker_uuid=_records.text(uuid),
            worker_name=_records.text(name),
            nthreads=nthreads,
            memory_limit_b=memory_limit_b,
            t_real_ns=time.time_ns(),
            t_mono_ns=time.monotonic_ns(),
            boot_id=_process.boot_id(),
            t_process_ns=_process.started_ns() if register else 0,
        )
        limit = spool_limit_b(os.environ.get("CREMA_SPOOL_LIMIT", ""))
        stream_id = os.urandom(16)
        self._registered = register
        if register:
            entry = _writers.Writer(name, kind, _writers.LEFT, stream_id)
            _writers.register(self.directory, config.run_id, entry)
        self.stream = _spool.StreamWriter(
            self.directory,
            info,
            stream_id=stream_id,
            limit_bytes=limit,
            run_key=config.name_bytes,
        )
        self.worker_id = _records.UNKNOWN_ID
        if kind == _records.KIND_WORKER:
            self.worker_id = self.stream.name(
                _records.WORKER,
                name,
                uuid,
                host=_records.text(host),
                pid=pid,
                nthreads=nthreads,
                memory_limit_b=memory_limit_b,
                cpu_model=_records.text(_process.cpu_model()),
                host_memory_b=_process.host_memory_b(),
            )
        self.looks: _looking.Looks | None = None
        self.attempts = Attempts(self)
        self._slots: dict[int, int] = {}
        self._warned: set[str] = set()
        self._unavailable: set[str] = set()

    def look(self, tasks: Callable[[], Mapping[int, str]] | None = None) -> None:
        """Look at the threads that work for this stream from now on; `tasks` are those of Dask by thread."""
        try:
            self.looks = _looking.start(self, self.config.look_interval_s, tasks)
        except Exception:
            self.unavailable("looks")

    def slot(self, thread: int) -> int:
        """Small number of a thread, from 0 in order of first appearance."""
        slot = self._slots.get(thread)
        if slot is None:
            with _lock:  # two threads may come at once
                slot = min(len(self._slots), _records.UNKNOWN_U16 - 1)
                slot = self._slots.setdefault(thread, slot)
        return slot

    def trouble(self, where: str, *, lost: bool = True) -> None:
        """Note an exception in crema's own bookkeeping: logged once per place and counted, as a dropped record unless none is `lost`."""
        what = f"{where}: {_described(sys.exc_info()[1])}"
        if lost:
            self.stream.lose(what)
        else:
            self.stream.met(f"crema.failed.{what}")
        if where not in self._warned:
            self._warned.add(where)
            logger.warning(
                "crema: %s failed%s; its next failures are not logged",
                where,
                " and counts as lost" if lost else "",
                exc_info=True,
            )

    def unavailable(self, what: str, why: str = "") -> None:
        """Note columns (``table.column`` or ``table``) that Dask, coffea or uproot do not provide here; everything else is recorded.

        Logged once and written to the stream once; it becomes a note in the run file.
        """
        if what in self._unavailable:
            return
        self._unavailable.add(what)
        because = f": {why}" if why else ""
        logger.warning(
            "crema: %s cannot be recorded here%s", what, because, exc_info=sys.exc_info()[1]
        )
        self.stream.count(_columns.UNAVAILABLE_METRIC + what, 1)

    def read(self, what: str, read: Callable[[], _Value], otherwise: _Value) -> _Value:
        """Return the result of `read`, which accesses another package's objects; if it raises, `otherwise` with a note that `what` is unavailable."""
        try:
            return read()
        except Exception:
            self.unavailable(what)
            return otherwise

    def guarded(self, write: Callable[..., None], *args: Any) -> None:
        """Run a part of the recording; errors are noted and not raised."""
        try:
            write(*args)
        except Exception:
            self.trouble(write.__name__.strip("_").replace("_", " "))

    def close(self, status: str) -> None:
        """Close open attempts with `status` and end the stream."""
        self.attempts.close(status)
        self.guarded(_looking.stop, self.looks)
        self.stream.write_counts(last=True)
        self.stream.close()
        if self._registered:
            with contextlib.suppress(OSError):  # the END in its stream contains the same
                _writers.register(self.directory, self.config.run_id, self.writer())

    def writer(self) -> _writers.Writer:
        """Describe this stream for the collector, with its last number once it has ended."""
        last = 0 if self.stream.alive else self.stream.seq
        state = _writers.LEFT if self.stream.alive else _writers.ENDED
        return _writers.Writer(
            self.name, self.kind, state, self.stream.stream_id, last, self.uuid,
            dropped=self.stream.dropped,
        )  # fmt: skip

    def heartbeat_row(self, interval_s: float) -> _records.Row:
        """Row of /heartbeats: records written and records dropped."""
        self.stream.write_counts()
        return _records.HEARTBEATS.row(
            t_ns=time.time_ns(),
            sent=self.stream.seq,
            dropped=self.stream.dropped,
            interval_s=interval_s,
            worker_id=self.worker_id,
            cost_s=self.stream.cost_ns * 1e-9,
            written_b=self.stream.written_b,
        )


def _described(error: BaseException | None) -> str:
    """Type of an exception and the line that raised it."""
    at = error.__traceback__ if error is not None else None
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    line = f" {pathlib.Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at else ""
    return f"{type(error).__name__}{line}"


def register(recorder: Recorder, owner: str) -> None:
    """Register the recorder of its run for `owner`: the Dask worker.id, or "" for the process itself."""
    with _lock:
        _recorders[recorder.config.run_id, owner] = recorder


def forget(run_id: str, owner: str = "") -> Recorder | None:
    """Remove a recorder from the table."""
    with _lock:
        return _recorders.pop((run_id, owner), None)


def sharing(run_id: str, owner: str) -> int:
    """Workers of a run in this process: `owner`, and all others that record."""
    return len({other for run, other in list(_recorders) if run == run_id} | {owner})


def process_recorder(config: HookConfig) -> Recorder | None:
    """The recorder of this process outside Dask, created on first use; None once the run has ended here."""
    recorder = find((config.run_id, ""))
    if recorder is not None or config.run_id in _ended:
        return recorder
    if _lock._is_owned():  # a finalizer or a signal handler, while this thread creates it
        return None
    with _lock:
        recorder = find((config.run_id, ""))
        if recorder is None:
            name = f"{socket.gethostname()}:{os.getpid()}"
            recorder = Recorder(
                config,
                kind=_records.KIND_WORKER,
                uuid=name,
                name=name,
                nthreads=1,
                register=True,
            )
            _recorders[config.run_id, ""] = recorder
            _at_exit()
            threading.Thread(
                target=_await_end, args=(config,), name="crema end of run", daemon=True
            ).start()
    return recorder


def announce(config: HookConfig) -> None:
    """Assign everything this process and its children do without Dask to the run of `config`, until it is withdrawn."""
    with _lock:
        _announced.append(config)
        _tell_children()


def withdraw(config: HookConfig) -> None:
    """Undo `announce`: what another block announced, around this one or in another thread, applies."""
    with _lock:
        with contextlib.suppress(ValueError):  # interrupted before it was announced
            _announced.remove(config)
        _tell_children()


def _tell_children() -> None:
    if not _announced:
        os.environ.pop(RUN_VARIABLE, None)
    else:
        known = dataclasses.asdict(_announced[-1])
        os.environ[RUN_VARIABLE] = json.dumps({name: known[name] for name in _FOR_CHILDREN})


def recording() -> bool:
    """Whether this process records anything; cheap."""
    return bool(_announced or _recorders)


def of_caller(worker: Any) -> Recorder | None:
    """The recorder for a caller that is not working on a chunk; `worker` is that of its Dask task.

    For a thread outside any known task this is clear only while the process has one recorder. If
    two runs record the same worker it is not clear at all.
    """
    announced = _announced[-1:]
    if worker is None and announced:
        return process_recorder(announced[0])
    found = list(_recorders.items())
    if worker is not None:
        found = [item for item in found if item[0][1] == owner_of(worker)]
    alive = [recorder for _, recorder in found if recorder.stream.alive]
    if len(alive) > 1:
        _warn_ambiguous()
    return alive[0] if len(alive) == 1 else None


def dask_task() -> tuple[Any, Hashable | None]:
    """The Dask worker and key of the running task, or (None, None)."""
    module = sys.modules.get("distributed.worker")
    if module is None:
        return None, None
    try:
        worker = module.get_worker()
    except Exception:  # ValueError outside of a task
        return None, None
    try:
        return worker, worker.get_current_task()
    except Exception:  # KeyError and ValueError outside of a task
        return worker, None


def owner_of(worker: Any) -> str:
    """Owner of a Dask worker's recorder: Dask's id of that worker."""
    return getattr(worker, "id", None) or f"worker at {id(worker):x}"


def of_a_task(run_id: str) -> Recorder | None:
    """The recorder of a worker in this process, for a task that cannot ask Dask for its worker; None if it can, or if there is none."""
    module = sys.modules.get("distributed.worker")
    if module is None or callable(getattr(module, "get_worker", None)):
        return None
    found = [r for (run, owner), r in list(_recorders.items()) if run == run_id and owner]
    return found[0] if found else None


@functools.cache
def _warn_ambiguous() -> None:
    logger.warning(
        "crema: more than one run is recorded here: a chunk or section is recorded for the run whose checkpointer saw it,"
        " and without a checkpointer for none"
    )


def _announced_to_children() -> list[HookConfig]:
    """The configuration in the environment, if there is a valid one."""
    text = os.environ.get(RUN_VARIABLE)
    if not text:
        return []
    try:
        return [HookConfig(**json.loads(text))]
    except (TypeError, ValueError):
        logger.warning("crema: %s in the environment is not understood", RUN_VARIABLE)
        return []


def end_marker(config: HookConfig) -> pathlib.Path:
    """File that signals the end of the run to processes outside Dask, whose pool may outlive it."""
    return config.spool_dir() / f"ended-{config.run_id}"


def _await_end(config: HookConfig) -> None:
    marker = end_marker(config)
    while find((config.run_id, "")) is not None:
        if marker.exists():
            close_process(config.run_id, "cancelled")
        time.sleep(_LOOK_S)


def software() -> dict[str, str]:
    """Versions of the analysis software, as stream attributes."""
    found = {"python_version": platform.python_version()}
    for package in _PACKAGES:
        version = getattr(sys.modules.get(package), "__version__", None) or _installed(package)
        if version:
            found[f"{package}_version"] = str(version)
    return found


@functools.cache
def _installed(package: str) -> str:
    """Version of a package that is not imported; empty if it is not installed. Dask's workers look once: it takes a millisecond."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def spool_limit_b(text: str) -> int:
    """Bytes of ``CREMA_SPOOL_LIMIT``: a number with an optional K, M, G or T, Ki, Mi, ...; the default if it is invalid."""
    size = _SIZE.fullmatch(text.strip())
    if size is None:
        return _spool.LIMIT_BYTES
    number, unit, binary = size.groups()
    power = " KMGT".index(unit.upper() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)


def close_process(run_id: str = "", status: str = "error") -> None:
    """End the streams of this process outside Dask, of one run or of all; later chunks of a named run are not recorded.

    Attempts that are still open end with `status`.
    """
    if run_id:
        _ended.append(run_id)
    for run, owner in list(_recorders):
        if owner == "" and run_id in ("", run):
            recorder = forget(run, owner)
            if recorder is not None:
                recorder.close(status)


def _at_exit() -> None:
    """Register once per process: `atexit` does not run in the children of multiprocessing, its finalizers do."""
    global _exit_registered
    if not _exit_registered:
        _exit_registered = True
        atexit.register(close_process)
        multiprocessing.util.Finalize(None, close_process, exitpriority=100)


def _after_fork_in_child() -> None:
    """The recorders belong to the parent; this process starts without any."""
    global _lock, _exit_registered
    _lock = threading.RLock()
    _recorders.clear()
    _exit_registered = False


in_each_child(_after_fork_in_child)

_announced = _announced_to_children()
