"""Whose a Dask task is, from the marks that the client and the scheduler's plugin put on its annotations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _records
from ._config import HookConfig

_DONE = frozenset(("memory", "error", "erred", "released", "forgotten"))


def is_foreign(config: HookConfig, annotations: Any) -> bool:
    """Whether a task with these annotations belongs to another run or client; a task without a mark counts as our own."""
    if not annotations:
        return False
    run_id = annotations.get(_records.MARK_RUN)
    if run_id is not None:
        return run_id != config.run_id
    mark = annotations.get(_records.MARK_SUBMISSION)
    return bool(mark and config.client) and mark[0] != config.client and not is_of_task(mark[0])


def mark_earlier(tasks: Iterable[Any]) -> None:
    """Mark unmarked Dask tasks that are still to run when a recording begins: they do not belong to any run."""
    for task in tasks:
        if task.state not in _DONE and _is_unmarked(task.annotations):
            task.annotations = {**(task.annotations or {}), _records.MARK_RUN: ""}


def _is_unmarked(annotations: Any) -> bool:
    return not annotations or (
        _records.MARK_RUN not in annotations and _records.MARK_SUBMISSION not in annotations
    )


def is_of_task(client: str) -> bool:
    """Whether a task created this client: what it submits belongs to the submitter of the task."""
    return client.startswith("Client-worker-")
