"""Whose a Dask task is, from the marks that the client and the scheduler's plugin put on its annotations."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
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


def of(client: str, number: int) -> dict[str, Any]:
    """Annotations of a task of this submission."""
    return {_records.MARK_SUBMISSION: (client, number)}


def submitted(
    known: Mapping[Hashable, Any],
    tasks: Iterable[Hashable],
    wanted: Collection[Hashable],
    client: str,
    number: int,
) -> list[Hashable]:
    """Mark tasks of a submission, and return those of `wanted` that were submitted before.

    Those keep their first mark: Dask already knows them, and computes again only what it has lost.
    """
    mark = of(client, number)
    again = [key for key in wanted if _is_earlier(known.get(key), mark)]
    for key in tasks:
        task = known.get(key)
        if task is None:
            continue
        if not task.annotations:
            task.annotations = mark.copy()  # its own: Dask writes into it
        elif _records.MARK_SUBMISSION not in task.annotations:
            task.annotations = task.annotations | mark
    return again


def _is_earlier(task: Any, mark: dict[str, Any]) -> bool:
    """Whether a task was submitted before; the plugin of another run may have put the mark of this submission already."""
    if task is None:
        return False
    first = (task.annotations or {}).get(_records.MARK_SUBMISSION)
    return first is not None and first != mark[_records.MARK_SUBMISSION]


def unfinished(scheduler: Any, run_id: str) -> int:
    """How many Dask tasks of a run are running or waiting to run; 0 also where Dask does not say."""
    try:
        if not any(
            n
            for prefix in scheduler.task_prefixes.values()
            for state, n in prefix.states.items()
            if state not in _DONE
        ):
            return 0  # without a look at each task
        return sum(
            task.state not in _DONE and (task.annotations or {}).get(_records.MARK_RUN) == run_id
            for task in list(scheduler.tasks.values())
        )
    except Exception:
        return 0


def _is_unmarked(annotations: Any) -> bool:
    return not annotations or (
        _records.MARK_RUN not in annotations and _records.MARK_SUBMISSION not in annotations
    )


def is_of_task(client: str) -> bool:
    """Whether a task created this client: what it submits belongs to the submitter of the task."""
    return client.startswith("Client-worker-")
