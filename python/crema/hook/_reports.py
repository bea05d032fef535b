"""What workers' plugins tell the scheduler's plugin: by a report when they begin, and asked once when the run ends.

A question of Dask's client to all workers is a pickled function for each, and its answers go
through the scheduler to the client. The scheduler's plugin asks for an operation that the worker's
plugin has added to the worker, whose answer is a plain message. A worker says in its report that
it has the operation: one of an earlier version does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable

END = "crema_end"  # the operation; one serves all runs, and stays
ANSWERS = "answers"  # in a report: the worker has it


class Reports:
    """The workers that are still to report."""

    def __init__(self) -> None:
        self._awaited: set[str] = set()
        self._all_there = asyncio.Event()
        self._heard_at = 0.0

    def settle(self, address: str) -> None:
        """A worker has reported, or left."""
        if address in self._awaited:
            self._awaited.discard(address)
            self._heard_at = time.monotonic()
            if not self._awaited:
                self._all_there.set()

    async def wait(self, addresses: Iterable[str], silence_s: float) -> None:
        """Wait until each of these workers has reported or left, or none has for so long."""
        self._awaited.update(addresses)
        self._all_there.clear()
        self._heard_at = time.monotonic()
        while self._awaited and (left_s := self._heard_at + silence_s - time.monotonic()) > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._all_there.wait(), left_s)
        self._awaited.clear()
