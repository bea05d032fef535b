"""Why workers went: what the scheduler sees, the exit that a worker's nanny reports, and Dask's events about memory.

The row of /membership waits for the nanny's report: at the end of a run for a second at most.
"""

from __future__ import annotations

import asyncio
import collections
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import _records
from ._dask import or_else
from ._records import MEMBERSHIP
from .nanny import EXIT

WAIT_S = 1.0
_RETIRED_S = 6.0  # Dask's nanny gives a worker that it closes 4 s
MEMORY = "worker-restart-memory"  # Dask's topic
_EARLIER_S = 5.0  # by how much a nanny's report may come before the scheduler notices
_EXITS_MAX = 4096  # that are kept for workers that the scheduler has not missed yet

_EXPLICIT = MEMBERSHIP.label("evidence", "explicit")
_TIMEOUT = MEMBERSHIP.label("evidence", "heartbeat_timeout")
_ENDED_BY_INTENT = ("nanny-close", "close-worker", "worker-close", "restart", "scheduler-close")
_CAUSE = {
    name: MEMBERSHIP.label("cause", name)
    for name in (
        "unknown", "exited", "signal", "memory_nanny", "memory_kernel", "terminated", "timeout",
        "retired", "closed",
    )
}  # fmt: skip


def as_seen(stimulus_id: str, intent: bool) -> tuple[str, str, int]:
    """Event, cause and evidence by what made the scheduler remove a worker; `intent`: the worker had announced it."""
    if stimulus_id.startswith("retire-workers"):
        return "retire", "retired", _EXPLICIT
    if "worker-ttl" in stimulus_id:
        return "lost", "timeout", _TIMEOUT
    if intent or stimulus_id.startswith(_ENDED_BY_INTENT):
        return "leave", "closed", _EXPLICIT
    return "lost", "unknown", _EXPLICIT


class Deaths:
    """Rows of /membership about workers that left, each with its cause.

    Parameters
    ----------
    write : callable
        Takes a finished row.
    """

    def __init__(self, write: Callable[[_records.Row], None]) -> None:
        self._write = write
        self._pending: dict[str, tuple[dict[str, Any], asyncio.TimerHandle]] = {}
        self._exits: collections.OrderedDict[str, tuple[float, Mapping[str, Any]]] = (
            collections.OrderedDict()
        )
        self._rss_b: dict[str, int] = {}  # of workers that their nannies end, by address

    def left(self, address: str, values: dict[str, Any], state: Any, cause: str) -> None:
        """Write the row of a worker that left, now or when its nanny has reported.

        Parameters
        ----------
        address : str
            Of the worker.
        values : dict
            Columns of its row.
        state : distributed.scheduler.WorkerState
            Dask's last state of it.
        cause : str
            As far as the scheduler knows.
        """
        values["cause"] = _CAUSE[cause]
        if self._rss_b.get(address):
            values |= {"cause": _CAUSE["memory_nanny"], "rss_b": self._rss_b.pop(address)}
        came, report = self._exits.pop(address, (0.0, None))
        if report is not None and time.monotonic() - came < _EARLIER_S:
            self._finish(values, report)
        elif or_else(lambda: state.nanny, None):
            wait_s = WAIT_S if cause in ("unknown", "timeout") else _RETIRED_S
            timer = asyncio.get_running_loop().call_later(wait_s, self._give_up, address)
            self._pending[address] = values, timer
        else:
            self._write(MEMBERSHIP.row(**values))

    def logged(self, topic: str, event: Mapping[str, Any], ours: str) -> bool:
        """Take an event of Dask's if it is about a death; `ours` is the run's topic."""
        if topic == ours and event.get("action") == EXIT:
            self.exited(event)
        elif topic == MEMORY and "worker" in event:
            self.ended_for_memory(event)
        else:
            return False
        return True

    def exited(self, report: Mapping[str, Any]) -> None:
        """Take the report of a nanny."""
        address = report["worker"]
        if address in self._pending:
            values, timer = self._pending.pop(address)
            timer.cancel()
            self._finish(values, report)
            return
        self._exits[address] = time.monotonic(), report
        if len(self._exits) > _EXITS_MAX:
            self._exits.popitem(last=False)

    def ended_for_memory(self, event: Mapping[str, Any]) -> None:
        """Take Dask's event about a worker that its nanny ends."""
        if len(self._rss_b) < _EXITS_MAX:
            self._rss_b[event["worker"]] = int(event.get("rss", 0))

    async def settle(self) -> None:
        """Wait until no report is missing, for a second at most."""
        end = time.monotonic() + WAIT_S
        while self._pending and time.monotonic() < end:
            await asyncio.sleep(0.01)

    def close(self) -> None:
        """Write what still waits."""
        for address in list(self._pending):
            self._give_up(address)

    def _give_up(self, address: str) -> None:
        if address in self._pending:
            values, timer = self._pending.pop(address)
            timer.cancel()
            self._write(MEMBERSHIP.row(**values))

    def _finish(self, values: dict[str, Any], report: Mapping[str, Any]) -> None:
        status = int(report["status"])
        values |= {"exit_status": max(status, -1), "signal": -status if status < 0 else -1}
        limit_b = int(report["limit_b"])
        if report["by_nanny"]:
            values["cause"] = _CAUSE["memory_nanny"]
        elif report["by_kernel"] and status == -signal.SIGKILL:
            values["cause"] = _CAUSE["memory_kernel"]
            if limit_b > 0:
                values["memory_limit_b"] = limit_b
        elif values["cause"] == _CAUSE["memory_nanny"]:
            pass  # by Dask's event
        elif status < 0:
            values["cause"] = _CAUSE["terminated" if status == -signal.SIGTERM else "signal"]
        elif status > 0 or values["cause"] == _CAUSE["unknown"]:
            values["cause"] = _CAUSE["exited"]
        self._write(MEMBERSHIP.row(**values))
