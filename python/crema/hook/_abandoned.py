"""The end of a run whose client is gone: nothing else ends it, and a cluster may outlive thousands of runs."""

from __future__ import annotations

import logging
import pickle
from typing import Any

from ._agent import dismiss

logger = logging.getLogger("crema")


async def end(hook: Any, scheduler: Any) -> None:
    """Of the scheduler's plugin: end the recording on every process and remove the plugins, then let the agents deliver everything and exit."""
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
