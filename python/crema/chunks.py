"""A coffea checkpointer that keeps no checkpoints: it sees every attempt at a chunk begin and end, on any executor.

coffea calls `load` before it opens the file and `save` after the processor has returned, in the process and thread that do the
work. `ChunkHook` records both and hands on to the user's own checkpointer, if there is one.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from typing import Any

from . import _input, _recorder
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
        The user's own. A chunk that it loads is no attempt.
    """

    def __init__(self, config: HookConfig, checkpointer: Any = None) -> None:
        self.config = config
        self.checkpointer = checkpointer
        _introduce()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _introduce()

    def load(self, metadata: Mapping[str, Any], processor_instance: Any) -> Any:
        """A chunk is taken up. Returns what the user's checkpointer has of it, else None."""
        recorder, worker, key = self._place()
        if recorder is not None and key is not None:
            recorder.attempts.keys.add(key)
        if self.checkpointer is not None:
            cached = self.checkpointer.load(metadata, processor_instance)
            if cached is not None:
                return cached
        if recorder is not None:
            try:
                prefix = prefix_of(worker, key, processor_instance)
                recorder.attempts.begin(metadata, prefix, key)
            except Exception:
                recorder.trouble("the start of a chunk")
        return None

    def save(self, output: Any, metadata: Mapping[str, Any], processor_instance: Any) -> None:
        """The chunk is done; `output` holds coffea's metrics of it if the Runner was asked for them."""
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
        """Where the caller records, in the stream of the worker's plugin or without Dask in its own; its Dask worker and task."""
        worker, key = _recorder.dask_task()
        recorder = _recorder.find((self.config.run_id, "" if worker is None else worker.id))
        if recorder is None and worker is None:
            recorder = self._process_recorder()
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


def close(run_id: str) -> None:
    """End the stream that this very process has of a run, when the run is over: what `IterativeExecutor` recorded."""
    _recorder.close_process(run_id)


def finish(
    recorder: _recorder.Recorder | None,
    metrics: Mapping[str, Any],
    status: str,
    stamp: Stamp,
    factory: Any,
) -> None:
    """End the attempt of this thread; trouble with that is noted and stays here."""
    if recorder is not None:
        try:
            recorder.attempts.finish(metrics, status, stamp, factory)
        except Exception:
            recorder.trouble("the end of a chunk")


def _introduce() -> None:
    """Tell coffea that this is a checkpointer, without importing coffea before somebody needs it."""
    try:
        from coffea.processor import CheckpointerABC
    except ImportError:
        return
    CheckpointerABC.register(ChunkHook)


def is_cancelled(worker: Any, key: Hashable | None) -> bool:
    """Nobody wants the result of this Dask task any more; Dask lets its thread run on."""
    task = worker.state.tasks.get(key) if key is not None else None
    return task is not None and task.state == "cancelled"


def prefix_of(worker: Any, key: Hashable | None, processor_instance: Any) -> str:
    """Dask's prefix of the task, else the processor's name."""
    if key is not None:
        task = worker.state.tasks.get(key)
        if task is not None:
            return task.prefix
    name = getattr(processor_instance, "__name__", None)
    return name if isinstance(name, str) else type(processor_instance).__name__
