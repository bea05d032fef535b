"""A coffea checkpointer that stores no checkpoints: it sees every attempt at a chunk begin and end, on any executor.

coffea calls `load` before it opens the file and `save` after the processor has returned, in the
process and thread that do the work. `ChunkHook` records both and forwards to the user's own
checkpointer, if there is one.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from . import _attempts, _input, _recorder, _records, _travel
from ._attempts import Stamp, now
from ._config import HookConfig

logger = logging.getLogger("crema")

_warned = False


class ChunkHook:
    """Checkpointer for ``coffea.processor.Runner(checkpointer=...)``; small, and picklable with the analysis.

    Parameters
    ----------
    config : HookConfig
        The run.
    checkpointer : coffea.processor.CheckpointerABC, optional
        The user's own. A chunk that it loads does not count as an attempt.
    """

    def __init__(self, config: HookConfig, checkpointer: Any = None) -> None:
        self.config = config
        self.checkpointer = checkpointer

    @property
    def __class__(self) -> type:
        """Used by ``isinstance`` in coffea, which has imported its own class by then."""
        _introduce()
        return ChunkHook

    def __reduce__(self) -> tuple:
        """Pickled with every chunk: without crema only the user's own checkpointer arrives, or None."""
        return _travel.reduced("checkpointer", self.config, self.checkpointer, self.checkpointer)

    def load(self, metadata: Mapping[str, Any], processor_instance: Any) -> Any:
        """A chunk begins. Returns what the user's checkpointer has of it, else None."""
        recorder, worker, key = self._place()
        if recorder is not None and key is not None:
            recorder.attempts.keys.add(key)
        elif recorder is not None and "distributed.worker" in sys.modules and worker is not None:
            recorder.unavailable("chunks.task_key")
        if self.checkpointer is not None:
            cached = self.checkpointer.load(metadata, processor_instance)
            if cached is not None:
                note_cached(recorder)
                return cached
        if recorder is not None:
            try:
                prefix, submission = task_of(recorder, worker, key, processor_instance)
                recorder.attempts.begin(metadata, prefix, key, submission)
            except Exception:
                recorder.trouble("the start of a chunk")
        return None

    def save(self, output: Any, metadata: Mapping[str, Any], processor_instance: Any) -> None:
        """The chunk is done; `output` contains coffea's metrics if the Runner was asked for them."""
        stamp = now()
        recorder, worker, key = self._place()
        try:
            if self.checkpointer is not None:
                self.checkpointer.save(output, metadata, processor_instance)
        except BaseException:
            finish(recorder, {}, "error", stamp, None)  # the chunk fails
            raise
        metrics = output.get("metrics") if isinstance(output, dict) else None
        metrics = metrics if isinstance(metrics, dict) else {}
        status = "cancelled" if key is not None and is_cancelled(worker, key) else "ok"
        finish(recorder, metrics, status, stamp, _input.factory_of_callers())

    def _place(self) -> tuple[_recorder.Recorder | None, Any, Hashable | None]:
        """The caller's recorder (of the worker's plugin or, without Dask, its own), its Dask worker and task."""
        worker, key = _recorder.dask_task()
        owner = "" if worker is None else _recorder.owner_of(worker)
        recorder = _recorder.find((self.config.run_id, owner))
        if recorder is None and worker is None:
            recorder = _recorder.of_a_task(self.config.run_id) or self._process_recorder()
        return recorder, worker, key

    def _process_recorder(self) -> _recorder.Recorder | None:
        global _warned
        try:
            return _recorder.process_recorder(self.config)
        except Exception:
            if not _warned:
                _warned = True
                logger.warning("crema: chunks of this process are not recorded", exc_info=True)
            return None


class WorkFunction:
    """coffea's function that opens a file and calls process(): the same, and a chunk that fails in it ends when it fails.

    Afterwards its task still takes time, to pass the exception on; in an executor without Dask
    nothing at all says that it has ended.
    """

    _EXPRESSION = (
        "(getattr(__import__('sys').modules.get('crema.hook.chunks'), 'WorkFunction', None)"
        " or exec(source, here := {}) or here['made'])(function)"
    )
    _SOURCE = """
try:
    from crema.hook.chunks import WorkFunction as made
except Exception:
    made = lambda function: function
"""

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.__name__ = function.__name__  # Dask names tasks by it

    def __reduce__(self) -> tuple:
        """Where crema, or this class of it, is not installed, only coffea's function arrives."""
        names = {"source": self._SOURCE, "function": self.function}
        return eval, (self._EXPRESSION, names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As coffea's function."""
        try:
            return self.function(*args, **kwargs)
        except BaseException as error:
            fail(error)
            raise


def close(run_id: str) -> None:
    """End this process's own stream of a run, with what `IterativeExecutor` recorded."""
    _recorder.close_process(run_id)


def finish(
    recorder: _recorder.Recorder | None,
    metrics: Mapping[str, Any],
    status: str,
    stamp: Stamp,
    factory: Any,
) -> None:
    """End the attempt of this thread; errors are noted and not raised."""
    if recorder is not None:
        try:
            recorder.attempts.finish(metrics, status, stamp, factory)
        except Exception:
            recorder.trouble("the end of a chunk")


def fail(error: BaseException | None = None) -> None:
    """What the calling thread is working on, if anything, has failed, with this exception if it is known."""
    attempt = _attempts.current()
    if attempt is not None:
        try:
            worker, key = _recorder.dask_task()
            status = "cancelled" if is_cancelled(worker, key) else "error"
            attempt.recorder.attempts.fail_here(status, error)
        except Exception:
            attempt.recorder.trouble("the end of a chunk")


def note_cached(recorder: _recorder.Recorder | None) -> None:
    """Count a chunk that the user's checkpointer had: coffea counts it, but it is not processed."""
    if recorder is None:
        return
    try:
        recorder.stream.count("crema.cached_chunks", worker_id=recorder.worker_id)
    except Exception:
        recorder.trouble("a chunk of the checkpointer")


def _introduce() -> None:
    """Register with coffea as a checkpointer; does nothing if coffea is not, or not fully, imported."""
    module = sys.modules.get("coffea.processor.checkpointer")
    registry = getattr(module, "CheckpointerABC", None)
    if registry is not None:
        registry.register(ChunkHook)


def is_cancelled(worker: Any, key: Hashable | None) -> bool:
    """Whether this Dask task was cancelled; Dask lets its thread continue."""
    try:
        task = worker.state.tasks.get(key) if key is not None else None
        return task is not None and task.state == "cancelled"
    except Exception:  # a Dask version that does not report it
        return False


def task_of(
    recorder: _recorder.Recorder, worker: Any, key: Hashable | None, processor_instance: Any
) -> tuple[str, int]:
    """Prefix and submission of a Dask task, where there is one; else the processor's name, and 0."""
    prefix = submission = None
    if key is not None:
        prefix = recorder.read("chunks.task_prefix_id", lambda: _prefix_of(worker, key), None)
        submission = recorder.read(
            "chunks.submission_key", lambda: _submission_of(worker, key), None
        )
    if prefix is None:
        name = getattr(processor_instance, "__name__", None)
        prefix = name if isinstance(name, str) else type(processor_instance).__name__
    return prefix, submission or 0


def _submission_of(worker: Any, key: Hashable) -> int:
    """Hash of what was submitted together with this Dask task; 0 if it is not marked."""
    task = worker.state.tasks.get(key)
    mark = (task.annotations or {}).get(_records.MARK_SUBMISSION) if task is not None else None
    return _records.hash64(*mark) if mark else 0


def _prefix_of(worker: Any, key: Hashable) -> str | None:
    """Dask's prefix of the task; None if it has forgotten the task."""
    task = worker.state.tasks.get(key)
    if task is None:
        return None
    if not isinstance(task.prefix, str):
        raise TypeError(f"a prefix that is a {type(task.prefix).__name__}")
    return task.prefix
