"""Hooks into coffea on the client while a run is recorded, removed at the end of the block.

A Runner called inside the block gets the run's checkpointer: a copy of the Runner is called, the
user's own is not changed. Files that it drops before they have any chunk are noted (with
``skipbadfiles``, when it cannot open them), since only the Runner knows of them and does not report
them. Calls of coffea that read input without a Runner are noted too, since none of their chunks are
recorded.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import functools
import json
import logging
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from ..hook import _attempts
from ..hook._secrets import file_name
from ..hook.chunks import ChunkHook, WorkFunction
from ..read._notes import DIRECT, FAILED, INNER, REPEATED
from . import _attributes, _window
from ._marking import replace

logger = logging.getLogger("crema")

DROPPED = "coffea.dropped_files"
PROCESSED = "coffea.processed_chunks"
TREES = "treenames"
_TREES_MAX = 100
WITHOUT_RESULT = "coffea.without_result_ns"
_TEXT_BYTES = 4000  # limit for all names together
_MAX_SPANS = 100
_TAKEN = {"format": "input_format"}  # the attribute `format` is that of the run file


class _Calls:
    """When chunks began that are in no result: from the start of a call that failed to that of the next call.

    Of calls at the same time it is not known which began a chunk: these count as if all had a result.
    """

    def __init__(self) -> None:
        self._spans: list[list[int]] = []  # start and end of each; the last may have no end yet
        self._open = 0
        self._start_ns = 0
        self._failed = self._alone = False

    def begin(self) -> None:
        now_ns = _window.passed_ns()
        if self._spans and len(self._spans[-1]) == 1:
            self._spans[-1].append(now_ns)
        self._alone = self._open == 0
        if self._alone:
            self._start_ns, self._failed = now_ns, False
        self._open += 1

    def failed(self) -> None:
        self._failed = True

    def end(self) -> None:
        self._open -= 1
        if self._open or not self._alone or not self._failed:
            return
        if self._spans and self._spans[-1][1] == self._start_ns:
            self._spans[-1].pop()
        elif len(self._spans) < _MAX_SPANS:
            self._spans.append([self._start_ns])

    def without_result_ns(self, began_ns: int) -> list[int]:
        """Start and end of each span, from `began_ns` on."""
        times = [t_ns - began_ns for span in self._spans for t_ns in span]
        return times if len(times) % 2 == 0 else [*times, _window.passed_ns() - began_ns]


class _Run:
    """The notes for one run."""

    def __init__(
        self,
        run_id: str,
        around: Callable[[Any], Any],
        say: Callable[[str], None],
        outer: tuple[str, ...],
    ) -> None:
        self.run_id = run_id
        self.around = around  # makes a checkpointer around the user's own one or None
        self.say = say
        self.outer = outer  # ids of the runs whose blocks are around this one's
        self.dropped: set[str] = set()
        self.repeated: set[str] = set()  # files
        self.trees: set[str] = set()  # names, of its work items
        self.computed_once = 0  # chunks that a report counts again, the most of one Runner
        self.direct: set[str] = set()
        self.inner: set[str] = set()  # ids of runs inside its block that recorded a Runner
        self.processed = 0  # chunks in the results of its Runners
        self.settings: list[dict[str, Any]] = []  # of its Runners, those that differ
        self.failed: set[str] = set()  # exceptions that its Runners raised or returned
        self.calls = _Calls()


_runs: dict[str, _Run] = {}  # being recorded, in order of their start
_undo: list[Callable[[], None]] = []
_lock = threading.Lock()
_entered: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("runs", default=())
_in_coffea: contextvars.ContextVar[bool] = contextvars.ContextVar("in_coffea", default=False)


def hook(
    run_id: str,
    around: Callable[[Any], Any],
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Record Runners from now on, in the calling context and in contexts without a run.

    Parameters
    ----------
    run_id : str
        The run.
    around : callable
        Makes its checkpointer around that of the Runner, which may be None.
    say : callable
        Prints a line for the user.
    """
    with _lock:
        outer = tuple(each for each in _entered.get() if each in _runs)
        _entered.set((*outer, run_id))
        _runs[run_id] = _Run(run_id, around, say, outer)
        if not _undo:
            _replace_all()


def unhook(
    run_id: str, window: _window.Window | None = None, name_key: bytes = b""
) -> dict[str, str]:
    """Undo `hook` when no other run needs it, and return the notes as attributes, files named with the run's key. May be called again."""
    with _lock:
        run = _runs.pop(run_id, None)
        if not _runs:
            while _undo:
                _undo.pop()()
    if run is None:
        return {}
    names = {
        DROPPED: {file_name(name, name_key) for name in run.dropped},
        REPEATED: run.repeated,
        TREES: run.trees,
        DIRECT: run.direct,
        INNER: run.inner,
        FAILED: run.failed,
    }
    found = {attribute: _listed(of) for attribute, of in names.items() if of}
    if run.processed:
        found[PROCESSED] = str(run.processed)
    if run.dropped:
        found["coffea.n_dropped_files"] = str(len(run.dropped))
    if run.repeated:
        found["coffea.computed_once"] = str(run.computed_once)
    found |= _attributes_of(run.settings)
    if window is not None and (times := run.calls.without_result_ns(window.began_ns)):
        found[WITHOUT_RESULT] = json.dumps(times)
    return found


def _settings(runner: Any) -> dict[str, Any]:
    """What a Runner was set to; None where coffea has no such setting, or it is unset."""
    schema, executor = getattr(runner, "schema", None), type(getattr(runner, "executor", None))
    chunksize, maxchunks = getattr(runner, "chunksize", None), getattr(runner, "maxchunks", None)
    skips = getattr(runner, "skipbadfiles", None)
    return {
        "chunksize": None if chunksize is None else int(chunksize),
        "maxchunks": None if maxchunks is None else int(maxchunks),
        "schema": str(schema.__name__) if hasattr(schema, "__name__") else None,
        "schema_module": getattr(schema, "__module__", None),
        "format": getattr(runner, "format", None),
        "skipbadfiles": _skipped(skips),
        "executor": executor.__name__.removesuffix("Executor").lower(),
    }


def _skipped(skips: Any) -> Any:
    """Of `skipbadfiles`: True or False, or the names of the exceptions that it lists."""
    if isinstance(skips, tuple):
        return ", ".join(getattr(each, "__name__", str(each)) for each in skips)
    return skips


def _attributes_of(settings: list[dict[str, Any]]) -> dict[str, str]:
    """The settings of a run's Runners as attributes, none of which is one of several; all of them are in `runner_settings`."""
    if not settings:
        return {}
    found = {}
    for name in settings[0]:
        values = [each[name] for each in settings]
        if any(value != values[0] for value in values):
            # The attribute chunksize is a number.
            found[_TAKEN.get(name, name)] = "-1" if name == "chunksize" else "mixed"
        elif values[0] is not None:
            found[_TAKEN.get(name, name)] = _attributes.text(values[0])
    listed = [json.dumps(each) for each in settings]
    while sum(map(len, listed)) > _TEXT_BYTES:
        listed.pop()
    return found | {"runner_settings": f"[{', '.join(listed)}]"}


def _listed(names: set[str]) -> str:
    """The names as JSON, as many as fit."""
    listed, size = [], 0
    for name in sorted(names):
        size += len(json.dumps(name)) + 2
        if size <= _TEXT_BYTES:
            listed.append(name)
    return json.dumps(listed)


def _of_caller() -> _Run | None:
    """The run of the caller's block: the innermost of its context, otherwise the newest."""
    runs = dict(_runs)
    here = (runs[run_id] for run_id in reversed(_entered.get()) if run_id in runs)
    return next(here, None) or next(reversed(runs.values()), None)


# ---------------------------------------------------------------- replacements


def _replace_all() -> None:
    try:
        from coffea.processor import Runner
    except Exception:  # without coffea, or with one that fails to import, there is no Runner
        return
    replace(Runner, "__call__", _with_checkpointer, _undo)
    replace(Runner, "run", _counting_processed, _undo)
    replace(Runner, "_filter_badfiles", _noting_dropped, _undo)
    for name in ("IterativeExecutor", "FuturesExecutor", "DaskExecutor", "ParslExecutor"):
        executor = getattr(sys.modules.get("coffea.processor"), name, None)
        noting = functools.partial(_noting_repeated, once=name == "DaskExecutor")
        replace(executor, "__call__", noting, _undo)
    factory = getattr(sys.modules.get("coffea.nanoevents"), "NanoEventsFactory", None)
    for name in ("from_root", "from_parquet"):
        replace(factory, name, _noting_events, _undo)


def _with_checkpointer(original: Callable) -> Callable:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorded = _recorded(self)
        with _noting_call(recorded) as failed, _inside_coffea(), _given_back(recorded, self):
            result = original(recorded, *args, **kwargs)
            if type(result).__name__ == "Err" and getattr(result, "value", None) is None:
                failed(getattr(result, "_exception", result))
        return result

    return call


@contextlib.contextmanager
def _given_back(recorded: Any, runner: Any) -> Iterator[None]:
    """Give the user's Runner what a class of the user's own has noted on the copy in its place."""
    before = {} if recorded is runner else dict(getattr(recorded, "__dict__", {}))
    try:
        yield
    finally:
        if recorded is not runner and hasattr(runner, "__dict__"):
            after, own = vars(recorded), vars(runner)
            for name in before.keys() - after.keys():
                own.pop(name, None)
            own.update({n: v for n, v in after.items() if n not in before or before[n] is not v})


@contextlib.contextmanager
def _noting_call(runner: Any) -> Iterator[Callable[[Any], None]]:
    """Note a call of a Runner; yields what notes the error that it ended with in place of a result."""
    run = None
    with contextlib.suppress(Exception):
        if not _in_coffea.get():  # else a part of the call around it
            run = _of_checkpointer(runner)
    if run is None:
        yield lambda error: None
        return

    def failed(error: Any) -> None:
        with _lock:
            run.failed.add(type(error).__name__)
            run.calls.failed()

    with _lock:
        run.calls.begin()
    try:
        yield failed
    except BaseException as error:
        failed(error)
        raise
    finally:
        with _lock:
            run.calls.end()


def _counting_processed(original: Callable) -> Callable:
    """For `run`, whose result lists its chunks; `__call__` returns what the processor made of them."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            _count_processed(self, result)
        return result

    return _with_checkpointer(run)


def _count_processed(runner: Any, result: Any) -> None:
    """Note how many chunks are in a result: as many must be in the run file."""
    checkpointer = getattr(runner, "checkpointer", None)
    if type(result).__name__ == "Ok":
        result = result.value
    processed = result.get("processed") if isinstance(result, dict) else None
    if isinstance(checkpointer, ChunkHook) and isinstance(processed, set):
        with _lock:
            if run := _runs.get(checkpointer.config.run_id):
                run.processed += len(processed)


def _recorded(runner: Any) -> Any:
    """A copy of the Runner whose checkpointer is the run's, or the Runner itself if it already has one or cannot have one."""
    try:
        own = getattr(runner, "checkpointer", None)
        has_one = isinstance(own, ChunkHook)
        run = _runs.get(own.config.run_id) if has_one else _of_caller()
        if run is None:
            return runner
        work = getattr(runner, "_work_function", None)
        if has_one and isinstance(work, WorkFunction):  # a copy that was made here
            return runner
        recorded = copy.copy(runner)
        if not has_one:
            recorded.checkpointer = run.around(own)
        if callable(work):
            recorded._work_function = WorkFunction(work)
    except Exception:
        logger.warning("crema: the chunks of a Runner are not recorded", exc_info=True)
        return runner
    with contextlib.suppress(Exception):
        _note_outer(run)
    with contextlib.suppress(Exception):  # another version of coffea
        settings = _settings(runner)
        with _lock:
            if settings not in run.settings:
                run.settings.append(settings)
    return recorded


def _note_outer(run: _Run) -> None:
    """A Runner's chunks go to the innermost block only: note it in those around that."""
    inner = str(uuid.UUID(run.run_id))
    for outer in filter(None, map(_runs.get, run.outer)):
        if inner not in outer.inner:
            outer.inner.add(inner)
            outer.say(
                f"crema: the block of run {inner} is inside that of run {uuid.UUID(outer.run_id)}: "
                "chunks of its Runners are recorded in the inner one only"
            )


def _noting_dropped(original: Callable) -> Callable:
    def filter_badfiles(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs:  # another version of coffea
            return original(self, *args, **kwargs)
        files = list(args[0])
        kept = original(self, files)
        try:
            kept = list(kept)
            left = {id(file) for file in kept}
            run = _of_checkpointer(self)
            if run is not None:
                run.dropped |= {str(file.filename) for file in files if id(file) not in left}
        except Exception:
            logger.warning("crema: files that were dropped are not known", exc_info=True)
        return kept

    return filter_badfiles


def _noting_repeated(original: Callable, *, once: bool) -> Callable:
    def execute(self: Any, items: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):  # another version of coffea
            _note_items(items, once=once)
        return original(self, items, *args, **kwargs)

    return execute


def _note_items(items: Any, *, once: bool) -> None:
    """Note the trees of chunks, and files with equal chunks. With Dask (`once`) these are one task: computed once and counted as often as listed."""
    run = _of_caller()
    if run is None or not isinstance(items, list) or not hasattr(items[0], "entrystart"):
        return
    seen: set[Any] = set()
    again = [item for item in items if item in seen or seen.add(item)]
    with _lock:
        run.trees |= set(sorted({str(item.treename) for item in items})[:_TREES_MAX])
        run.repeated |= {str(item.filename) for item in again}
        if once:
            run.computed_once = max(run.computed_once, len(again))


def _of_checkpointer(runner: Any) -> _Run | None:
    config = getattr(getattr(runner, "checkpointer", None), "config", None)
    return _runs.get(getattr(config, "run_id", "")) or _of_caller()


def _noting_events(original: Callable) -> Callable:
    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if not _in_coffea.get() and _attempts.current() is None:
            # apply_to_fileset may be imported inside the block, so it is known as the caller.
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            is_lazy = caller.startswith("coffea.dataset_tools")
            _note("apply_to_fileset" if is_lazy else "NanoEventsFactory")
        return original(cls, *args, **kwargs)

    return make


def _note(call: str) -> None:
    run = _of_caller()
    if run is not None:
        run.direct.add(call)


@contextlib.contextmanager
def _inside_coffea() -> Iterator[None]:
    before = _in_coffea.set(True)
    try:
        yield
    finally:
        _in_coffea.reset(before)
