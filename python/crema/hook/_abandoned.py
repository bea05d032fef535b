"""The end of a run whose client is gone: nobody else would end it, and a cluster may outlive thousands of runs."""

from __future__ import annotations

import logging
import pickle
from typing import TYPE_CHECKING, Any

from ._agent import dismiss

if TYPE_CHECKING:
    from .scheduler import SchedulerHook

logger = logging.getLogger("crema")


async def end(hook: SchedulerHook, scheduler: Any) -> None:
    """End the recording on every process and remove the plugins, then let the agents deliver everything and exit."""
    hook.finish()
    hook.close_way(scheduler)
    try:
        await hook.remove_from_workers(scheduler)
        message = {
            "op": "run",
            "function": pickle.dumps(dismiss),
            "kwargs": pickle.dumps({"config": hook.config}),
        }
        await scheduler.broadcast(msg=message, on_error="ignore")
        dismiss(hook.config)
        await scheduler.unregister_scheduler_plugin(hook.name)
    except Exception:
        logger.warning("crema: the end of an abandoned run", exc_info=True)
