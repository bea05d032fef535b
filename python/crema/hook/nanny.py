"""The plugin on Dask's nannies, which alone know how a worker's process ended: one event per exit.

It travels as the other plugins do; where crema is not installed it does nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
from typing import Any

from distributed import NannyPlugin

from . import _cgroup, _travel
from ._config import HookConfig

logger = logging.getLogger("crema")

EXIT = "crema-exit"  # action of the event
_REMOVE_S = _SEND_S = 1.0
_OURS = "_crema_exits"  # in a nanny: what reports an exit, by run


class NannyHook(NannyPlugin):
    """Reports the exit of a worker's process to the scheduler's plugin.

    Parameters
    ----------
    config : HookConfig
        The run.
    """

    def __init__(self, config: HookConfig) -> None:
        self.config = config
        self.name = f"crema-{config.run_id}"
        self.restart = False
        self._nanny: Any = None
        self._oom_kills = 0
        self._terminated = -1  # process that Dask's memory monitor has ended before

    def __reduce__(self) -> tuple:
        substitute = NannyPlugin()
        substitute.name = self.name
        return _travel.reduced("nanny", self.config, substitute)

    def setup(self, nanny: Any) -> None:
        """Follow the exits of its worker's processes from now on."""
        try:
            self._nanny = nanny
            self._oom_kills = _cgroup.oom_kills()
            self._terminated = _terminated(nanny)
            reports = getattr(nanny, _OURS, None)
            if reports is None:
                reports = _follow(nanny)
            reports[self.config.run_id] = self._report
        except Exception:
            logger.debug("crema: exits of workers are not known here", exc_info=True)

    def teardown(self, nanny: Any) -> None:
        """Stop, unless the nanny is closing: it then ends its worker."""
        if not _closes(nanny):
            getattr(nanny, _OURS, {}).pop(self.config.run_id, None)

    def _report(self, address: str, status: int) -> dict[str, Any]:
        """The event about an exit."""
        kills, terminated = _cgroup.oom_kills(), _terminated(self._nanny)
        event = {
            "action": EXIT,
            "worker": address,
            "status": int(status),  # negative: signal
            "by_nanny": terminated not in (-1, self._terminated),
            "by_kernel": kills > self._oom_kills,
            "limit_b": _cgroup.memory_limit_b(),
        }
        self._oom_kills, self._terminated = kills, terminated
        return event


async def to_nannies(scheduler: Any, config: HookConfig) -> None:
    """On the scheduler: give the plugin to all nannies, present and future."""
    try:
        hook = NannyHook(config)
        plugin = pickle.dumps(hook)
        await scheduler.register_nanny_plugin(None, plugin, hook.name, idempotent=True)
    except Exception:  # one of them has just gone; the others have it
        logger.debug("crema: some nannies do not report exits", exc_info=True)


async def from_nannies(scheduler: Any, name: str) -> None:
    """On the scheduler: take it back, without waiting for a nanny that does not answer."""
    if getattr(scheduler, "nanny_plugins", {}).pop(name, None) is not None:
        message = {"op": "plugin_remove", "name": name}
        with contextlib.suppress(Exception):
            asked = scheduler.broadcast(msg=message, nanny=True, on_error="ignore")
            await asyncio.wait_for(asked, _REMOVE_S)


def _follow(nanny: Any) -> dict[str, Any]:
    """Have each exit reported before Dask acts on it."""
    reports: dict[str, Any] = {}
    act, kill = nanny._on_worker_exit, nanny.kill

    def events(address: str, status: int) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for run_id, report in list(reports.items()):
            with contextlib.suppress(Exception):
                found.append((f"crema-{run_id}", report(address, status)))
        return found

    async def on_exit(exitcode: int) -> Any:
        if not _closes(nanny):
            for topic, event in events(nanny.worker_address, exitcode):
                with contextlib.suppress(Exception):
                    nanny.log_event(topic, event)
        return await act(exitcode)

    async def kill_and_report(*args: Any, **kwargs: Any) -> Any:
        """A nanny that closes has no time for messages afterwards."""
        process, address, statuses = nanny.process, nanny.worker_address, []
        if process is not None and _closes(nanny):
            of_dask = process.on_exit
            process.on_exit = lambda status: (statuses.append(status), of_dask(status))
        try:
            return await kill(*args, **kwargs)
        finally:
            with contextlib.suppress(Exception):
                for topic, event in events(address, statuses[0]):
                    sent = nanny.scheduler.log_event(topic=topic, msg=event)
                    await asyncio.wait_for(sent, _SEND_S)

    nanny._on_worker_exit, nanny.kill = on_exit, kill_and_report
    setattr(nanny, _OURS, reports)
    return reports


def _closes(nanny: Any) -> bool:
    return getattr(getattr(nanny, "status", None), "name", "").startswith("clos")


def _terminated(nanny: Any) -> int:
    """Process that Dask's memory monitor ended last; -1 for none."""
    return getattr(getattr(nanny, "memory_manager", None), "_last_terminated_pid", -1)
