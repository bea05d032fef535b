"""Blocking calls beside an event loop, with what they raise as their result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def outcome(call: Callable[[], None]) -> BaseException | None:
    """What a call raised, or None."""
    try:
        call()
    except BaseException as error:
        return error
    return None


async def in_thread(call: Callable[[], None]) -> BaseException | None:
    """The same for a blocking call while the event loop continues; a cancelled one is still awaited."""
    done = asyncio.ensure_future(asyncio.to_thread(outcome, call))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError as error:
        await done
        return error
