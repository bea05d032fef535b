"""Messages of the scheduler's plugin to workers, over connections that stay open for the next one: some versions of Dask's own broadcast close each.

Of many workers on one host, one passes the message on to others and gathers their answers, so that
the scheduler has one message and one answer per group instead of per worker. Whom it does not reach,
the scheduler asks itself.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

from ._dask import or_else
from ._reports import result_of

logger = logging.getLogger("crema")

FEW = 8  # workers on a host that are asked one by one
GROUP = 16  # workers that share a message
_CONNECT_S = 5.0  # to one that passes a message on, and from it to the others
_late: set[asyncio.Future] = set()  # messages that were not waited for any longer


async def ask(
    scheduler: Any,
    workers: Iterable[str],
    *,
    reply: bool = True,
    limit_s: float | None = None,
    **message: Any,
) -> dict[str, Any]:
    """Answers by address, without those of workers that could not be asked.

    Without `reply` the caller does not wait for what the workers do, and no answers are returned. A worker that has not
    answered after `limit_s` has a TimeoutError for its answer; the message still reaches it when it goes on.
    """
    workers = list(workers)
    answers: dict[str, Any] = {}
    groups = _groups(workers)
    parts = [
        asyncio.ensure_future(_ask_group(scheduler, group, message, reply, limit_s, answers))
        for group in groups
    ]
    if parts:
        late = (await asyncio.wait(parts, timeout=limit_s))[1]
        _late.update(late)
        for part in late:
            part.add_done_callback(_late.discard)
    silence = TimeoutError(f"it did not answer within {limit_s:g} s" if limit_s else "")
    found = {one: answers.get(one, silence) for one in workers}
    return {one: answer for one, answer in found.items() if answer is not None}


def _groups(workers: list[str]) -> Iterator[list[str]]:
    from distributed.comm import get_address_host

    by_host: dict[str, list[str]] = {}
    for worker in workers:
        host = or_else(lambda worker=worker: get_address_host(worker), worker)
        by_host.setdefault(host, []).append(worker)
    for here in by_host.values():
        size = 1 if len(here) <= FEW else GROUP
        yield from (here[first : first + size] for first in range(0, len(here), size))


async def _ask_group(
    scheduler: Any,
    group: list[str],
    message: dict[str, Any],
    reply: bool,
    limit_s: float | None,
    answers: dict[str, Any],
) -> None:
    """Enter each worker's answer when it comes; None for one that was not reached."""
    if len(group) > 1:
        # Whoever passes it on may stand still, or one that it passes it to: half of the time is for asking them directly.
        half_s, third_s = (limit_s / 2, limit_s / 3) if limit_s else (None, None)
        call = pickle.dumps(
            {"workers": group, "message": message, "reply": reply, "limit_s": third_s}
        )
        try:
            passed = {"op": "run", "function": _passing_on(), "kwargs": call}
            exchange = _exchange(scheduler, group[0], passed, True, _CONNECT_S)
            answers |= dict(result_of(await asyncio.wait_for(exchange, half_s)))
        except Exception:
            logger.debug("crema: %s passes nothing on", group[0], exc_info=True)

    async def enter(one: str) -> None:
        answers[one] = await _send(scheduler, one, message, reply)

    await asyncio.gather(*(enter(one) for one in group if one not in answers))


@functools.cache
def _passing_on() -> bytes:
    """The function with which a worker passes a message on: answers by address, without those of workers that it did not reach."""
    from distributed.protocol import pickle as by_value

    timeout_s = _CONNECT_S

    # A nested function is pickled by value: the worker may have no crema, or an earlier version.
    async def pass_on(
        dask_worker: Any, workers: list[str], message: dict, reply: bool, limit_s: float | None
    ) -> dict:
        import asyncio

        from distributed.core import send_recv

        async def send(worker: str) -> Any:
            comm = await dask_worker.rpc.connect(worker, timeout=timeout_s)
            try:
                return await send_recv(comm, reply=reply, **message)
            finally:
                dask_worker.rpc.reuse(worker, comm)

        asked = {one: asyncio.ensure_future(send(one)) for one in workers}
        done, _ = await asyncio.wait(asked.values(), timeout=limit_s)
        return {
            one: its.result() for one, its in asked.items() if its in done and not its.exception()
        }

    return by_value.dumps(pass_on)


async def _send(scheduler: Any, worker: str, message: dict[str, Any], reply: bool) -> Any:
    """The answer; None without one."""
    try:
        return await _exchange(scheduler, worker, message, reply)
    except Exception:
        logger.debug("crema: %s was not reached", worker, exc_info=True)
        return None


async def _exchange(
    scheduler: Any,
    worker: str,
    message: dict[str, Any],
    reply: bool,
    connect_s: float | None = None,
) -> Any:
    from distributed.core import send_recv

    comm = await scheduler.rpc.connect(worker, connect_s)
    try:
        return await send_recv(comm, reply=reply, **message)
    finally:
        scheduler.rpc.reuse(worker, comm)
