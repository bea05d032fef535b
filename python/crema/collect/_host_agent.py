"""The agent that workers on the client's host have started: the block is left only when its process has ended."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import select
import time
from collections.abc import Callable, Iterator

from ..hook._agent import PROGRAM, AgentKeeper, agent_of, lock_is_held, public_key
from ..hook._config import HookConfig
from . import _keys


class HostAgent:
    """Whoever serves a run's spool directory on this host, if the workers start agents, and whether those that did still live.

    An agent lets go of its directory before its process ends. So each process is held by a descriptor as soon as it is seen; before
    Linux 5.3, and where it is another container's, only the lock of the directory counts.

    Parameters
    ----------
    config : HookConfig
        The run.
    admit : callable
        Requests the admission of an agent's public key. The event that carries it is lost where the cluster is closed just then.
    """

    def __init__(
        self, config: HookConfig, admit: Callable[[bytes], None] = lambda key: None
    ) -> None:
        self._admit = admit
        self._directory = config.spool_dir() if config.serves() else None
        self._keeper: AgentKeeper | None = None
        if self._directory is not None:
            self._keeper = AgentKeeper(config, self._directory)
            self._keeper.writers_end()
        self._processes: dict[int, int] = {}  # descriptor to id
        self.look()

    def serves(self) -> bool:
        """Whether one serves the directory now."""
        self.look()
        return self._directory is not None and lock_is_held(self._directory / "agent.lock")

    def wait(self, deadline: float) -> None:
        """Wait until none of them is alive, or for that moment of the monotonic clock."""
        if self._directory is not None:
            for pid, directory in agents_here():  # one that served for a moment only was never seen
                if directory == self._directory:
                    self._hold(pid)
        while self._processes and (left := deadline - time.monotonic()) > 0:
            ended = select.poll()
            for descriptor in self._processes:
                ended.register(descriptor, select.POLLIN)
            for descriptor, _ in ended.poll(left * 1000):
                os.close(descriptor)
                del self._processes[descriptor]

    def close(self) -> None:
        """Let go of the processes."""
        if self._keeper is not None:
            self._keeper.stop(over=True)
        while self._processes:
            os.close(self._processes.popitem()[0])

    def look(self) -> None:
        """Note which agent serves the directory now. Start one if none does and records lie there: the workers that would have are gone."""
        if self._directory is None:
            return
        with contextlib.suppress(OSError):
            self._keeper.check()
            pid, _ = agent_of(self._directory) or (0, [])
            if pid:
                self._hold(pid)
                self._admit(_keys.public_key(public_key(self._directory)))

    def _hold(self, pid: int) -> None:
        if pid not in self._processes.values():
            with contextlib.suppress(OSError, AttributeError):  # ended, or before Linux 5.3
                self._processes[os.pidfd_open(pid)] = pid


def agents_here() -> Iterator[tuple[int, pathlib.Path]]:
    """Process id and spool directory of each agent of this user that runs here."""
    for process in pathlib.Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            # Only the name can be read without waiting for a process that hangs in its memory.
            if (process / "comm").read_text().strip() != PROGRAM:
                continue
            command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            directory = option(command, "--spool")
            if pathlib.Path(command[0]).name == PROGRAM and directory:
                yield int(process.name), (process / "cwd").readlink() / directory
        except OSError:
            continue  # it has ended, or belongs to another user


def option(command: list[str], name: str) -> str:
    """Value of an option, as ``--name value`` or ``--name=value``; empty if it is not there."""
    for word, value in itertools.pairwise([*command, ""]):
        if word == "--":
            return ""
        if word == name:
            return value
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""
