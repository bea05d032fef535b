"""The collector's part of the route over Dask: a connection to the aggregator for each agent that cannot connect itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..hook._broker import FEW, GATHER_S, PIECE_BYTES, operation

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("crema")

_AGAIN_S = 0.2  # after a call that failed
_REPORT_S = 1.0  # from the first host that uses the route over Dask until the hosts are named
_NAMES = 5
_EAGER_BYTES = 8 << 10


class _Connection:
    """The connection of one agent to the aggregator."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes] = (
            asyncio.Queue()
        )  # one at a time: the next comes after this one
        self.taken = asyncio.Event()
        self.task: asyncio.Task | None = None


class Carrier:
    """Carries bytes between the scheduler and the aggregator, on the event loop of the client.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    run_id : str
        The run, as hex digits.
    endpoint : str
        Of the aggregator, as this process reaches it.
    say : callable
        Receives the line that names the hosts whose records travel over Dask.
    """

    def __init__(
        self, client: Client, run_id: str, endpoint: str, say: Callable[[list[str]], None]
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._endpoint = endpoint
        self._say = say
        self._loop = client.loop.asyncio_loop
        self._connections: dict[str, _Connection] = {}
        self._hosts: dict[str, None] = {}
        self._reported = False
        self._given: dict[str, list[Any]] = {"pieces": [], "done": [], "closed": []}
        self._give_now = asyncio.Event()
        self._reset = False
        self._piece = PIECE_BYTES
        self._pause_s = 0.0
        self._main = asyncio.run_coroutine_threadsafe(self._run(), self._loop)

    @property
    def hosts(self) -> list[str]:
        """Hosts whose agents have used the route over Dask so far."""
        return list(self._hosts)

    def close(self, timeout_s: float = 5.0) -> None:
        """End all connections; not to be called on the client's event loop."""
        self._main.cancel()
        end = self._end()
        try:
            asyncio.run_coroutine_threadsafe(end, self._loop).result(timeout_s)
        except RuntimeError:  # the loop has ended
            end.close()
        except Exception:
            logger.debug("crema: the end of the route over Dask", exc_info=True)

    async def _end(self) -> None:
        self._report()
        for name in list(self._connections):
            self._forget(name)
        await asyncio.sleep(0)

    async def _run(self) -> None:
        giver = asyncio.ensure_future(self._keep_giving())
        try:
            while True:
                try:
                    if not await self._fetch():
                        await asyncio.sleep(_AGAIN_S)
                except asyncio.CancelledError:
                    raise
                except (
                    Exception
                ) as error:  # of the connection to the scheduler, or Dask's own in place of it
                    logger.debug("crema: the route over Dask: %r", error)
                    self._lose_all()
                    await asyncio.sleep(_AGAIN_S)
        finally:
            giver.cancel()

    async def _call(self, what: str, **fields: Any) -> dict[str, Any]:
        answer = await getattr(self._client.scheduler, operation(what, self._run_id))(**fields)
        return answer if isinstance(answer, dict) else {}

    # ---------------------------------------------------------------- from the scheduler

    async def _fetch(self) -> bool:
        answer = await self._call("fetch")
        if not answer.get("open"):
            return False
        self._piece, self._pause_s = answer["piece"], answer["pause"]
        for kind, name, data in answer["news"]:
            if kind == "open":
                self._open(name, data.decode(errors="replace"))
                continue
            connection = self._connections.get(name)
            if connection is None:
                continue
            if kind == "data":
                connection.pieces.put_nowait(bytes(data))
            elif kind == "taken":
                connection.taken.set()
            elif kind == "closed":
                self._forget(name)
        return True

    def _open(self, name: str, host: str) -> None:
        connection = self._connections[name] = _Connection()
        connection.task = asyncio.ensure_future(self._serve(name, connection))
        if not self._hosts:
            self._loop.call_later(_REPORT_S, self._report)
        self._hosts[host] = None

    def _report(self) -> None:
        if self._reported or not self._hosts:
            return
        self._reported = True
        names = self.hosts
        shown = ", ".join(names[:_NAMES]) + (
            f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        )
        self._say(shown)

    def _forget(self, name: str) -> None:
        connection = self._connections.pop(name, None)
        if connection is not None and connection.task is not None:
            connection.task.cancel()

    def _lose_all(self) -> None:
        """Close every connection, since bytes in transit may be lost; they are opened again."""
        for name in list(self._connections):
            self._forget(name)
        self._given = {"pieces": [], "done": [], "closed": []}
        self._reset = True
        self._give_now.set()

    # ---------------------------------------------------------------- to the scheduler

    async def _keep_giving(self) -> None:
        while True:
            await self._give_now.wait()
            if len(self._connections) > FEW:
                await asyncio.sleep(GATHER_S)
            self._give_now.clear()
            given, self._given = self._given, {"pieces": [], "done": [], "closed": []}
            reset, self._reset = self._reset, False
            try:
                await self._call("give", reset=reset, **given)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                logger.debug("crema: the route over Dask: %r", error)
                await asyncio.sleep(_AGAIN_S)
                self._lose_all()

    def _give(self, what: str, item: Any) -> None:
        self._given[what].append(item)
        self._give_now.set()

    # ---------------------------------------------------------------- one agent

    async def _serve(self, name: str, connection: _Connection) -> None:
        writer = None
        try:
            reader, writer = await self._dial()
            up = asyncio.ensure_future(self._carry_up(name, connection, writer))
            try:
                await self._carry_down(name, connection, reader)
            finally:
                up.cancel()
        except OSError as error:
            logger.debug("crema: the aggregator, for an agent over Dask: %s", error)
        finally:
            if writer is not None:
                writer.close()
            if self._connections.get(name) is connection:  # closed from this side
                del self._connections[name]
                self._give("closed", name)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        scheme, _, where = self._endpoint.partition("://")
        if scheme == "ipc":
            return await asyncio.open_unix_connection(where)
        host, _, port = where.rpartition(":")
        return await asyncio.open_connection(host.strip("[]"), int(port))

    async def _carry_up(
        self, name: str, connection: _Connection, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):  # the reader sees the end then
            while True:
                writer.write(await connection.pieces.get())
                await writer.drain()
                self._give("done", name)

    async def _carry_down(
        self, name: str, connection: _Connection, reader: asyncio.StreamReader
    ) -> None:
        carried = 0
        while data := await reader.read(self._piece):
            if self._pause_s and carried > _EAGER_BYTES:
                await asyncio.sleep(self._pause_s)
            carried += len(data)
            connection.taken.clear()
            self._give("pieces", [name, data])
            await connection.taken.wait()
