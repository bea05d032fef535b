"""Messages of the scheduler's plugin to workers, over connections that stay open for the next one: some versions of Dask's own broadcast close each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

logger = logging.getLogger("crema")


async def ask(scheduler: Any, workers: Iterable[str], **message: Any) -> dict[str, Any]:
    """Answers by address, without those of workers that could not be asked."""
    workers = list(workers)
    answers = await asyncio.gather(*(_send(scheduler, one, message, True) for one in workers))
    return {one: answer for one, answer in zip(workers, answers, strict=True) if answer is not None}


async def tell(scheduler: Any, workers: Iterable[str], **message: Any) -> None:
    """Send without waiting for what the workers do."""
    await asyncio.gather(*(_send(scheduler, one, message, False) for one in workers))


async def _send(scheduler: Any, worker: str, message: dict[str, Any], reply: bool) -> Any:
    """The answer; None without one."""
    from distributed.core import send_recv

    try:
        comm = await scheduler.rpc.connect(worker)
        try:
            return await send_recv(comm, reply=reply, **message)
        finally:
            scheduler.rpc.reuse(worker, comm)
    except Exception:
        logger.debug("crema: %s was not reached", worker, exc_info=True)
        return None
