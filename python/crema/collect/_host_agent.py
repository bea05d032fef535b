"""The agent that workers on the client's host have started: the block is left only when its process has ended."""

from __future__ import annotations

import contextlib
import os
import select
import time

from ..hook._agent import agent_of, lock_is_held
from ..hook._config import HookConfig


class HostAgent:
    """Whoever serves a run's spool directory on this host, if the workers start agents, and whether those that did still live.

    An agent lets go of its directory before its process ends. So each process is held by a descriptor as soon as it is seen; before
    Linux 5.3, and where it is another container's, only the lock of the directory counts.

    Parameters
    ----------
    config : HookConfig
        The run.
    """

    def __init__(self, config: HookConfig) -> None:
        self._directory = config.spool_dir() if config.serves() else None
        self._processes: dict[int, int] = {}  # descriptor to id
        self.look()

    def serves(self) -> bool:
        """Whether one serves the directory now."""
        self.look()
        return self._directory is not None and lock_is_held(self._directory / "agent.lock")

    def wait(self, deadline: float) -> None:
        """Wait until none of them is alive, or for that moment of the monotonic clock."""
        while self._processes and (left := deadline - time.monotonic()) > 0:
            ended = select.poll()
            for descriptor in self._processes:
                ended.register(descriptor, select.POLLIN)
            for descriptor, _ in ended.poll(left * 1000):
                os.close(descriptor)
                del self._processes[descriptor]

    def close(self) -> None:
        """Let go of the processes."""
        while self._processes:
            os.close(self._processes.popitem()[0])

    def look(self) -> None:
        """Note who serves the directory now."""
        if self._directory is None:
            return
        with contextlib.suppress(OSError):
            pid, _ = agent_of(self._directory) or (0, [])
            if pid and pid not in self._processes.values():
                self._processes[os.pidfd_open(pid)] = pid
