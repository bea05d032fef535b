"""Lines about a cluster on which nothing can go on as before: its scheduler was restarted, or no worker is left."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

LOOK_S = 2.0  # Dask's client asks its scheduler as often
NONE_LEFT_S = 30.0  # a nanny that starts its worker again takes less


class Watch:
    """Looks at what Dask's client knows of its cluster, on the client's event loop.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    say : callable
        Takes a line for the user.
    restarted : callable
        Called once another scheduler has taken the place of the first.
    """

    def __init__(
        self,
        client: Client,
        say: Callable[[str], None],
        restarted: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._say = say
        self._restarted = restarted
        self._scheduler = ""  # id of the one that was there at first
        self._had_workers = False  # and they have not come back since they were missed
        self._none_since_s = 0.0  # wall clock; 0: there are some

    def begin(self) -> Callable[[], object]:
        """Look from now on; returns what ends this, from any thread."""
        loop = self._client.loop.asyncio_loop
        return asyncio.run_coroutine_threadsafe(self._run(), loop).cancel

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # Dask's own attributes
                self._look(time.time())
            await asyncio.sleep(LOOK_S)

    def _look(self, now_s: float) -> None:
        identity = self._client._scheduler_identity
        if not identity.get("id"):
            return
        self._scheduler = self._scheduler or identity["id"]
        if self._scheduler != identity["id"]:
            self._scheduler = identity["id"]
            self._say("crema: the scheduler was restarted: what runs from now on is not recorded")
            self._restarted()
        if identity.get("n_workers", len(identity["workers"])):
            self._had_workers, self._none_since_s = True, 0.0
        elif self._had_workers:
            self._none_since_s = self._none_since_s or now_s
            if now_s - self._none_since_s >= NONE_LEFT_S and self._is_waited_for():
                self._had_workers = False
                since = time.strftime("%H:%M:%S", time.localtime(self._none_since_s))
                self._say(f"crema: no worker is left since {since}, and {self._prospect()}")

    def _is_waited_for(self) -> bool:
        return any(future.status == "pending" for future in self._client.futures.values())

    def _prospect(self) -> str:
        """What Dask itself is going to do about it."""
        cluster: Any = self._client.cluster
        adaptive = getattr(cluster, "_adaptive", None)
        started = getattr(cluster, "workers", None) or {}  # by the cluster's object: nannies, jobs
        states = {getattr(getattr(it, "status", None), "name", "") for it in started.values()}
        if adaptive is not None or states & {"init", "starting", "running", "undefined"}:
            return "Dask may start others: see the cluster's logs"
        return "Dask will start none"
