"""A host's end of the route over Dask: a socket in the spool directory that its agent dials when it reaches no address.

One process per host has it, a worker or the scheduler, protected by a lock; when that process ends,
the next one takes over. The bytes are passed on unchanged: the connection between agent and
aggregator is encrypted from end to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pathlib
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from ._broker import PIECE_BYTES_MIN, operation
from ._unix import fcntl, open_file

logger = logging.getLogger("crema")

SOCKET, LOCK = "way", "way.lock"
_LOOK_S = 1.0  # between two checks whether the way is free
_EAGER_BYTES = 8 << 10  # per connection and direction, sent without delay: covers its handshake
# RuntimeError: the worker has closed its connections.
_FAILURES = (OSError, asyncio.TimeoutError, EOFError, RuntimeError)
# Python 3.13 would remove the socket by the name of a descriptor that is another file by then.
_KEPT: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


class Way:
    """Keeps the way of a host open unless another process does.

    Parameters
    ----------
    call : callable
        Calls an operation of the scheduler's `Broker` by its name.
    directory : pathlib.Path
        Spool directory of the host.

    Notes
    -----
    Create and close it on the event loop of that process. Nothing here raises into it.
    """

    def __init__(
        self, call: Callable[..., Awaitable[dict[str, Any]]], directory: pathlib.Path
    ) -> None:
        self._call = call
        self._directory = directory
        self._lock = -1
        self._server: asyncio.Server | None = None
        self._carriers: set[asyncio.Task] = set()
        self._keeper: asyncio.Task | None = asyncio.get_running_loop().create_task(self._keep())

    def close(self) -> None:
        """Close the connections and leave the way to the next worker; may be called again."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
        for task in list(self._carriers):
            task.cancel()
        self._stop_listening()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _stop_listening(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            with contextlib.suppress(OSError):
                (self._directory / SOCKET).unlink()

    async def _keep(self) -> None:
        while self._server is None:
            try:
                if self._take():
                    await self._listen()
                    return
            except OSError as error:
                logger.debug("crema: the route over Dask: %s", error)
            await asyncio.sleep(_LOOK_S)

    def _take(self) -> bool:
        if self._lock >= 0:
            return True
        lock = open_file(self._directory / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    async def _listen(self) -> None:
        # Through a descriptor of the directory: the path of a socket is limited to 107 characters.
        at = os.open(self._directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            (self._directory / SOCKET).unlink(missing_ok=True)
            listener.bind(f"/proc/self/fd/{at}/{SOCKET}")
            (self._directory / SOCKET).chmod(0o700)
            self._server = await asyncio.start_unix_server(self._connected, sock=listener, **_KEPT)
        except BaseException:
            listener.close()
            raise
        finally:
            os.close(at)

    # ---------------------------------------------------------------- one connection

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._carriers.add(task)
        name = os.urandom(16).hex()
        try:
            answer = await self._call("up", connection=name, host=socket.gethostname())
            if answer.get("open"):
                await self._carry(name, answer, reader, writer)
        except _FAILURES as error:
            logger.debug("crema: the route over Dask: %s", error)
        except asyncio.CancelledError:
            pass  # the worker is closing
        except LookupError as error:
            logger.warning("crema: the route over Dask: %s", error)
            self._stop_listening()
        except Exception:
            logger.warning("crema: the route over Dask", exc_info=True)
        finally:
            self._carriers.discard(task)
            writer.close()

    async def _carry(
        self,
        name: str,
        answer: dict[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        both = [
            asyncio.ensure_future(self._carry_up(name, answer, reader)),
            asyncio.ensure_future(self._carry_down(name, writer)),
        ]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            with contextlib.suppress(LookupError, *_FAILURES):
                await asyncio.wait_for(self._call("up", connection=name, closes=True), 5)

    async def _carry_up(
        self, name: str, answer: dict[str, Any], reader: asyncio.StreamReader
    ) -> None:
        carried = 0
        while answer.get("open"):
            data = await reader.read(answer.get("piece", PIECE_BYTES_MIN))
            if not data:
                return
            pause_s = answer.get("pause", 0.0)
            if pause_s and carried > _EAGER_BYTES:
                await asyncio.sleep(pause_s)  # to send more at once
                room = answer["piece"] - len(data)
                if room > 0 and not reader.at_eof():
                    with contextlib.suppress(asyncio.TimeoutError):
                        data += await asyncio.wait_for(reader.read(room), 0.001)
            carried += len(data)
            answer = await self._call("up", connection=name, data=data)

    async def _carry_down(self, name: str, writer: asyncio.StreamWriter) -> None:
        while True:
            answer = await self._call("down", connection=name)
            if not answer.get("open"):
                return
            if answer["data"]:
                writer.write(answer["data"])
                await writer.drain()


def over(worker: Any, run_id: str) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Function through which a `Way` calls a run's `Broker`, over a worker's connection to its scheduler."""

    async def call(what: str, **fields: Any) -> dict[str, Any]:
        answer = await getattr(worker.scheduler, operation(what, run_id))(**fields)
        if not isinstance(answer, dict):
            raise LookupError("the scheduler does not serve this run")
        return answer

    return call
