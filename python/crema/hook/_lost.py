"""Work that was lost with a worker: the scheduler alone knows of it, since the worker's own stream just ends."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import Any

from . import _records
from ._marks import is_foreign
from ._recorder import Recorder
from ._records import TASK_EVENTS

_COMPUTE = TASK_EVENTS.label("action", "compute")
_LOST = TASK_EVENTS.label("status", "lost")


def rows(
    scheduler: Any, recorder: Recorder, worker_id: int, state: Any, msg: Mapping[str, Any]
) -> list[_records.Row]:
    """Rows of /task_events for a worker that left: tasks that ran on it, and results that only it had; nbytes distinguishes the two.

    Parameters
    ----------
    scheduler : distributed.Scheduler
        Where the tasks are.
    recorder : Recorder
        Of the scheduler.
    worker_id : int
        Of the worker in the recorder's stream.
    state : distributed.scheduler.WorkerState
        Dask's last state of the worker.
    msg : mapping
        Dask's event.
    """

    def of_run(keys: Any) -> list[tuple[Hashable, Any]]:
        tasks = [(key, scheduler.tasks.get(key)) for key in keys or ()]
        return [
            (key, task)
            for key, task in tasks
            if task is None or not is_foreign(recorder.config, task.annotations)
        ]

    def row(key: Hashable, task: Any, t_start_ns: int, nbytes: int) -> _records.Row:
        prefix = task.prefix.name if task is not None else ""
        return TASK_EVENTS.row(
            t_start_ns=t_start_ns,
            t_stop_ns=time.time_ns(),
            nbytes=int(nbytes),
            task_key=_records.hash64(key),
            worker_id=worker_id,
            task_prefix_id=recorder.stream.name(_records.TASK_PREFIX, prefix)
            if prefix
            else _records.UNKNOWN_ID,
            action=_COMPUTE,
            status=_LOST,
            side=_records.SIDE_UNATTRIBUTED,
        )

    # As of its last heartbeat; the others were only assigned, as far as known.
    running = {task.key: seconds for task, seconds in state.executing.items()}
    found = [
        row(key, task, int((state.last_seen - running[key]) * 1e9), -1)
        for key, task in of_run(msg.get("processing-tasks"))
        if key in running
    ]
    for key, task in of_run(msg.get("lost-computed-tasks")):
        found.append(row(key, task, 0, task.get_nbytes() if task else 0))
    return found
