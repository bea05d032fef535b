"""The scheduler's part of the route over Dask: passes bytes between workers and the collector without interpreting them.

There are four operations of ``scheduler.handlers`` with the run's id in their names, called by both
sides; a reply is the permission to send more. Nothing is pushed over Dask's streams, which keep
what they send and remove a worker whose handler raises. The scheduler holds one piece per
connection and direction, at most 32 MiB in total. If a piece may have been lost in transit, its
connection is closed.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import time
import weakref
from typing import Any

logger = logging.getLogger("crema")

HELD_BYTES = 32 << 20  # of all pieces, both directions
PIECE_BYTES = 256 << 10  # largest
PIECE_BYTES_MIN = 4 << 10
REPLY_BYTES = 4 << 20  # of pieces in one answer to the collector
POLL_S = 20.0  # after which an empty answer is given
SILENCE_S = 300.0  # after which a worker counts as gone, as in Dask itself
CALLS_A_SECOND = 200.0  # limit for all workers together, per direction: with more workers each waits longer and sends more at once
PAUSE_MAX_S = 5.0
GATHER_S = 0.02  # before an answer to the collector, where there are many connections
FEW = 10  # connections
CONNECTIONS_MAX = HELD_BYTES // (2 * PIECE_BYTES_MIN)

OPERATIONS = ("up", "down", "fetch", "give")


def operation(name: str, run_id: str) -> str:
    """Name of an operation in ``scheduler.handlers``."""
    return f"crema_{name}_{run_id}"


async def nothing(**kwargs: Any) -> dict[str, Any]:
    """Answer to calls after the end of a run: callers stop."""
    return {"open": False}


class _Connection:
    """The connection of one agent, from the worker beside it to the collector."""

    __slots__ = ("called_at", "down", "down_there", "up")

    def __init__(self) -> None:
        self.called_at = time.monotonic()  # by its worker, which keeps asking while it lives
        self.up: asyncio.Future | None = None  # set when the collector has processed the piece
        self.down = b""
        self.down_there = asyncio.Event()


class Broker:
    """The broker of one run, on the scheduler's event loop.

    Parameters
    ----------
    run_id : str
        The run, as hex digits.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._connections: dict[str, _Connection] = {}
        self._news: collections.deque[list[Any]] = collections.deque()  # kind, connection, bytes
        self._news_there = asyncio.Event()
        self._fetches = 0
        self._over = False

    def serve(self, scheduler: Any) -> None:
        """Register the operations."""
        for name in OPERATIONS:
            scheduler.handlers[operation(name, self._run_id)] = self._guarded(getattr(self, name))

    def close(self, scheduler: Any) -> None:
        """Close every connection; the operations stay and do nothing, since a call may be in progress."""
        self._over = True
        handlers = getattr(scheduler, "handlers", None)
        for name in OPERATIONS if handlers is not None else ():
            handlers[operation(name, self._run_id)] = nothing
        for connection in list(self._connections):
            self._end(connection)
        self._news_there.set()

    def remove(self, scheduler: Any) -> None:
        """Remove the operations, when no process calls them any more."""
        for name in OPERATIONS:
            scheduler.handlers.pop(operation(name, self._run_id), None)

    async def call(self, what: str, **fields: Any) -> dict[str, Any]:
        """Call an operation from the scheduler's own process."""
        return await self._guarded(getattr(self, what))(**fields)

    @staticmethod
    def _guarded(call: Any) -> Any:
        """Answer malformed calls like calls after the end of a run."""
        method = weakref.WeakMethod(call)  # Dask keeps every handler that was ever called

        async def handler(**kwargs: Any) -> dict[str, Any]:
            try:
                return await method()(**kwargs)
            except Exception:
                logger.debug("crema: a call of the route over Dask", exc_info=True)
                return {"open": False}

        return handler

    # ---------------------------------------------------------------- workers

    async def up(
        self, connection: str, data: bytes = b"", host: str | None = None, closes: bool = False
    ) -> dict[str, Any]:
        """A worker delivers a piece, opens a connection with its host's name, or closes one; answered when it may send more."""
        if host is not None:
            self._open(connection, host)
        one = self._connections.get(connection)
        if self._over or one is None:
            return {"open": False}
        if closes:
            self._end(connection)
            return {"open": False}
        if one.up is not None or len(data) > PIECE_BYTES:
            raise ValueError("a second piece before the answer to the first, or too large a one")
        if data:
            one.up = asyncio.get_running_loop().create_future()
            self._add_news(["data", connection, bytes(data)])
            try:
                await one.up
            finally:
                one.up = None
        return {
            "open": connection in self._connections,
            "piece": self._piece_bytes(),
            "pause": self._pause_s(),
        }

    async def down(self, connection: str) -> dict[str, Any]:
        """A worker asks for bytes for its agent; answered when there are some."""
        one = self._connections.get(connection)
        if one is None:
            return {"open": False}
        one.called_at = time.monotonic()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(one.down_there.wait(), POLL_S)
        if connection not in self._connections:
            return {"open": False}
        data, one.down = one.down, b""
        one.down_there.clear()
        if data:
            self._add_news(["taken", connection, b""])
        return {"open": True, "data": data}

    def _open(self, connection: str, host: str) -> None:
        if not isinstance(connection, str) or connection in self._connections:
            raise ValueError("not the name of a new connection")
        silent_since = time.monotonic() - SILENCE_S
        for name in [n for n, one in self._connections.items() if one.called_at < silent_since]:
            self._end(name)  # of a worker that was killed
        if len(self._connections) >= CONNECTIONS_MAX or len(connection) > 64:
            raise ValueError("too many connections, or too long a name")
        self._connections[connection] = _Connection()
        self._add_news(["open", connection, str(host)[:255].encode()])

    # ---------------------------------------------------------------- the collector

    async def fetch(self) -> dict[str, Any]:
        """The collector asks for news; answered when there is some, or when it asks again."""
        self._fetches = this = self._fetches + 1
        self._news_there.set()
        self._news_there = asyncio.Event()
        if not self._news and not self._over:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news_there.wait(), POLL_S)
        if len(self._connections) > FEW:
            await asyncio.sleep(GATHER_S)
        news, size = [], 0
        while this == self._fetches and self._news and size < REPLY_BYTES:
            news.append(self._news.popleft())
            size += len(news[-1][2])
        return {
            "open": not self._over,
            "news": news,
            "piece": self._piece_bytes(),
            "pause": self._pause_s(),
        }

    async def give(
        self,
        pieces: list[Any] = (),
        done: list[str] = (),
        closed: list[str] = (),
        reset: bool = False,
    ) -> dict[str, Any]:
        """The collector delivers pieces for agents, and reports which pieces it has processed and which connections have ended."""
        for connection in list(self._connections) if reset else closed:
            self._end(connection)
        if reset:
            self._news.clear()
        for connection in done:
            one = self._connections.get(connection)
            if one is not None and one.up is not None and not one.up.done():
                one.up.set_result(None)
        for connection, data in pieces:
            one = self._connections.get(connection)
            if one is None:
                continue
            if one.down or len(data) > PIECE_BYTES:
                raise ValueError("a second piece before the first was taken, or too large a one")
            one.down = bytes(data)
            one.down_there.set()
        return {"open": not self._over}

    # ---------------------------------------------------------------- both

    def _end(self, connection: str) -> None:
        one = self._connections.pop(connection, None)
        if one is None:
            return
        one.down = b""
        one.down_there.set()
        if one.up is not None and not one.up.done():
            one.up.set_result(None)
        if not self._over:
            self._add_news(["closed", connection, b""])

    def _add_news(self, news: list[Any]) -> None:
        self._news.append(news)
        self._news_there.set()

    def _piece_bytes(self) -> int:
        share = HELD_BYTES // (2 * max(len(self._connections), 1))
        return max(PIECE_BYTES_MIN, min(PIECE_BYTES, share))

    def _pause_s(self) -> float:
        n = len(self._connections)
        return 0.0 if n <= FEW else min(n / CALLS_A_SECOND, PAUSE_MAX_S)
